//! The partners: where each lives, what it takes for a credential, and which dialect it speaks.

use super::desk::Desk;
use super::documented::{self, Documented};
use super::styles;
use super::wire::{Reply, Request, Step};

/// A partner, by the host that it answers under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partner {
    /// Black Forest Labs: asked again at the address that the submission returned.
    Bfl,
    /// fal's queue: one address for the state, one for the result.
    FalQueue,
    /// fal without a queue.
    FalSync,
    /// Replicate: `urls.get` and `urls.cancel`.
    Replicate,
    /// Runway: a version header, and codes that tell a refusal from a failure.
    Runway,
    /// Kling: a signed token instead of a key, and its state inside `data`.
    Kling,
    /// OpenAI images: synchronous, with codes in its errors.
    OpenaiImages,
    /// Google: Gemini refuses inside a 200, Veo names an operation.
    Google,
    /// Stability: forms, and 202 for what is not ready.
    Stability,
    /// MiniMax: three steps, and errors inside a 200.
    Minimax,
    /// Luma.
    Luma,
    /// Recraft: tells the price in its answer.
    Recraft,
    /// Ideogram: a form; refuses inside a 200 and charges for it.
    Ideogram,
    /// BytePlus: images at once, videos as tasks.
    Byteplus,
    /// DashScope: asynchronous by a header, its state inside `output`.
    Dashscope,
    /// xAI videos: 202 while pending.
    Xai,
    /// PixVerse: numbers for states.
    Pixverse,
    /// Tripo.
    Tripo,
    /// Rodin: a task of several jobs, asked for with POST.
    Rodin,
    /// ElevenLabs: answers with sound.
    Elevenlabs,
    /// A partner that is simulated from a sheet.
    Sheet(Documented),
}

/// One line of the table.
struct Line {
    host: &'static str,
    prefix: &'static str,
    /// The header that carries the credential, and what stands before the key in it.
    credential: (&'static str, &'static str),
    answer: fn(&mut Desk, &Request) -> (Step, Reply),
}

const fn line(
    host: &'static str,
    prefix: &'static str,
    credential: (&'static str, &'static str),
    answer: fn(&mut Desk, &Request) -> (Step, Reply),
) -> Line {
    Line {
        host,
        prefix,
        credential,
        answer,
    }
}

const BEARER: (&str, &str) = ("authorization", "Bearer ");

impl Partner {
    /// Those with a dialect of their own.
    pub const ALL: &'static [Self] = &[
        Self::Bfl,
        Self::FalQueue,
        Self::FalSync,
        Self::Replicate,
        Self::Runway,
        Self::Kling,
        Self::OpenaiImages,
        Self::Google,
        Self::Stability,
        Self::Minimax,
        Self::Luma,
        Self::Recraft,
        Self::Ideogram,
        Self::Byteplus,
        Self::Dashscope,
        Self::Xai,
        Self::Pixverse,
        Self::Tripo,
        Self::Rodin,
        Self::Elevenlabs,
    ];

    /// All of them, those of sheets included.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = Self::ALL.iter().copied();
        own.chain(Documented::all().map(Self::Sheet))
    }

    /// The partner that the calls of a sheet are simulated by.
    ///
    /// # Panics
    /// If there is none: the sheet names a dialect that does not exist.
    #[must_use]
    pub fn of_sheet(sheet: &documented::Sheet) -> Self {
        let prefix = sheet.dialect.as_deref().unwrap_or(&sheet.name);
        Self::by_prefix(prefix).unwrap_or_else(|| panic!("no partner is simulated as {prefix}"))
    }

    /// The public host that this one stands for.
    #[must_use]
    pub fn host(self) -> &'static str {
        match self.documented() {
            Some(documented) => &documented.sheet().host,
            None => self.line().host,
        }
    }

    /// The first segment of its paths here.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self.documented() {
            Some(documented) => &documented.sheet().name,
            None => self.line().prefix,
        }
    }

    /// The key that it takes; the secret key of a partner that wants signed tokens.
    #[must_use]
    pub fn secret(self) -> String {
        // fal is one account with two hosts.
        let whose = if self == Self::FalSync {
            Self::FalQueue
        } else {
            self
        };
        format!("secret-of-{}", whose.prefix())
    }

    /// Another key that it takes.
    #[must_use]
    pub fn second_secret(self) -> String {
        format!("another-{}", self.secret())
    }

    /// The access key of a partner that wants signed tokens: the issuer that they name.
    #[must_use]
    pub fn access_key(self) -> String {
        format!("access-key-of-{}", self.prefix())
    }

    pub(super) fn by_prefix(prefix: &str) -> Option<Self> {
        let mut all = Self::all();
        all.find(|partner| partner.prefix() == prefix)
    }

    /// Answers as the partner would; what lacks the credential is told so, in no particular dialect.
    pub(super) fn answer(self, desk: &mut Desk, request: &Request) -> (Step, Reply) {
        if self.knows(request) {
            return self.spoken(desk, request);
        }
        // The step is the one that it would have been.
        let (step, _) = self.spoken(&mut desk.clone(), request);
        let body = br#"{"detail":"who is asking?"}"#.to_vec();
        (step, Reply::json(401, body))
    }

    fn documented(self) -> Option<Documented> {
        if let Self::Sheet(documented) = self {
            return Some(documented);
        }
        None
    }

    fn spoken(self, desk: &mut Desk, request: &Request) -> (Step, Reply) {
        if let Some(documented) = self.documented() {
            return documented.answer(desk, request);
        }
        let besides = documented::besides(self.prefix(), desk, request);
        besides.unwrap_or_else(|| (self.line().answer)(desk, request))
    }

    fn knows(self, request: &Request) -> bool {
        let (header, before) = match self.documented() {
            Some(documented) => {
                let credential = &documented.sheet().credential;
                (&*credential.header, &*credential.prefix)
            }
            None => self.line().credential,
        };
        let Some(value) = request.header(header) else {
            return false;
        };
        let Some(key) = value.strip_prefix(before) else {
            return false;
        };
        if self == Self::Kling {
            return super::jwt::is_signed(key, &self.access_key(), &self.secret());
        }
        if let Some(documented) = self.documented()
            && documented.sheet().credential.signature
        {
            return key.starts_with(&self.access_key());
        }
        key == self.secret() || key == self.second_secret()
    }

    fn line(self) -> Line {
        match self {
            Self::Sheet(_) => unreachable!("a sheet has no line"),
            Self::Bfl => line("api.bfl.ai", "bfl", ("x-key", ""), styles::bfl::answer),
            Self::FalQueue => line(
                "queue.fal.run",
                "fal-queue",
                ("authorization", "Key "),
                styles::fal::queue,
            ),
            Self::FalSync => line(
                "fal.run",
                "fal-sync",
                ("authorization", "Key "),
                styles::fal::sync,
            ),
            Self::Replicate => line(
                "api.replicate.com",
                "replicate",
                BEARER,
                styles::replicate::answer,
            ),
            Self::Runway => line(
                "api.dev.runwayml.com",
                "runway",
                BEARER,
                styles::runway::answer,
            ),
            Self::Kling => line(
                "api-singapore.klingai.com",
                "kling",
                BEARER,
                styles::kling::answer,
            ),
            Self::OpenaiImages => line("api.openai.com", "openai", BEARER, styles::openai::answer),
            Self::Google => line(
                "generativelanguage.googleapis.com",
                "google",
                ("x-goog-api-key", ""),
                styles::google::answer,
            ),
            Self::Stability => line(
                "api.stability.ai",
                "stability",
                BEARER,
                styles::stability::answer,
            ),
            Self::Minimax => line("api.minimax.io", "minimax", BEARER, styles::minimax::answer),
            Self::Luma => line("api.lumalabs.ai", "luma", BEARER, styles::luma::answer),
            Self::Recraft => line(
                "external.api.recraft.ai",
                "recraft",
                BEARER,
                styles::recraft::answer,
            ),
            Self::Ideogram => line(
                "api.ideogram.ai",
                "ideogram",
                ("api-key", ""),
                styles::ideogram::answer,
            ),
            Self::Byteplus => line(
                "ark.ap-southeast.bytepluses.com",
                "byteplus",
                BEARER,
                styles::byteplus::answer,
            ),
            Self::Dashscope => line(
                "dashscope-intl.aliyuncs.com",
                "dashscope",
                BEARER,
                styles::dashscope::answer,
            ),
            Self::Xai => line("api.x.ai", "xai", BEARER, styles::xai::answer),
            Self::Pixverse => line(
                "app-api.pixverse.ai",
                "pixverse",
                ("api-key", ""),
                styles::pixverse::answer,
            ),
            Self::Tripo => line("api.tripo3d.ai", "tripo", BEARER, styles::tripo::answer),
            Self::Rodin => line("api.hyper3d.com", "rodin", BEARER, styles::rodin::answer),
            Self::Elevenlabs => line(
                "api.elevenlabs.io",
                "elevenlabs",
                ("xi-api-key", ""),
                styles::elevenlabs::answer,
            ),
        }
    }
}
