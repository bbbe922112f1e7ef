//! The interpreter of partner definitions against simulated partners, through real sockets.

mod alternates;
mod bytes;
mod catalog;
mod derived;
pub(crate) mod documented;
mod estimates;
mod faults;
mod secrets;
mod streams;
mod styles;
mod tables;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use hyper_kit::Host;
use it::partners::{Partner, Partners, Step};
use jiff::Timestamp;
use providers::{Loaded, LoadedModel, Relocation, Settings, Source, load};
use router_core::{
    AnswerSink, Collected, Contact, Done, Failure, GenerationId, Handle, Provider, Submission,
    Submitted, Timer,
};
use uuid::Uuid;

/// Most looks at one task: what needs more is not going to end.
const MOST_LOOKS: usize = 20;

/// The shipped catalog, with every partner simulated.
pub(crate) struct Bench {
    partners: Partners,
    pub(crate) loaded: Loaded,
    clock: Arc<Clock>,
}

/// Stands still until it is moved.
struct Clock(Mutex<Timestamp>);

#[async_trait]
impl Timer for Clock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        self.pass(duration);
    }
}

impl Clock {
    fn new() -> Arc<Self> {
        // The time of day, because tokens of partners have one.
        Arc::new(Self(Mutex::new(Timestamp::now())))
    }

    fn pass(&self, duration: Duration) {
        *self.0.lock().unwrap() += duration;
    }
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::over(&Source::with_builtin(None)).await
    }

    async fn over(source: &Source) -> Self {
        let partners = Partners::start().await.unwrap();
        let clock = Clock::new();
        let settings = settings(&partners, &clock);
        let loaded = load(source, &settings, &environment).unwrap();
        Self {
            partners,
            loaded,
            clock,
        }
    }

    /// How many submissions a partner has seen.
    fn submits(&self, partner: Partner) -> usize {
        self.partners.requests_of(partner, Step::Submit).len()
    }

    pub(crate) fn model(&self, id: &str) -> &LoadedModel {
        let mut models = self.loaded.models.iter();
        let found = models.find(|model| model.model.id().as_str() == id);
        found.unwrap_or_else(|| panic!("{id} is not in the catalog"))
    }

    fn provider(&self, id: &str) -> &Arc<dyn Provider> {
        self.model(id).model.provider()
    }

    async fn submit(&self, id: &str, body: &str) -> Result<Submitted, Failure> {
        let submission = self.submission(id, body);
        self.provider(id).submit(submission).await
    }

    fn submission(&self, id: &str, body: &str) -> Submission {
        let view = serde_json::from_str(body).unwrap_or_default();
        let streams = self.provider(id).streams(&view);
        Submission {
            generation: GenerationId(Uuid::new_v4()),
            account: AccountId::local(),
            model: self.model(id).model.id().clone(),
            body: body.to_owned().into(),
            contact: Contact::default(),
            stream: streams.then(AnswerSink::keeping),
        }
    }

    /// Submits what must be accepted, and answers its handle.
    async fn accepted(&self, id: &str, body: &str) -> Handle {
        match self.submit(id, body).await {
            Ok(Submitted::Accepted { handle, .. }) => handle,
            other => panic!("{id}: {other:?}"),
        }
    }

    /// Submits, and looks again at once until it is over.
    async fn run(&self, id: &str, body: &str) -> Result<Done, Failure> {
        match self.submit(id, body).await? {
            Submitted::Done(done) => Ok(done),
            Submitted::Accepted { handle, .. } => self.collected(id, &handle).await,
        }
    }

    async fn collected(&self, id: &str, handle: &Handle) -> Result<Done, Failure> {
        for _ in 0..MOST_LOOKS {
            match self
                .provider(id)
                .collect(handle, &router_core::Contact::default())
                .await?
            {
                Collected::Done(done) => return Ok(done),
                Collected::Pending { poll_after } => self.clock.pass(poll_after),
            }
        }
        panic!("{id} is not over after {MOST_LOOKS} looks");
    }
}

/// The key of a partner that is simulated from a sheet: the first variable, or the access key of those that have two.
fn documented(name: &str) -> Option<String> {
    let mut sheets = it::partners::sheets().iter();
    sheets.find_map(|sheet| {
        let partner = Partner::of_sheet(sheet);
        match sheet.variables.iter().position(|known| known == name)? {
            0 => Some(partner.secret()),
            _ => Some(partner.access_key()),
        }
    })
}

/// A catalog of the partner `acme` alone, as this file has it, with the model `one`; and that model's file.
fn folder_of_acme(partner: &str) -> (tempfile::TempDir, Source, &'static str) {
    let model = "charges_on_policy_rejection = \"no\"\n[price]\nkind = \"fixed\"\ncents = 1\n";
    let folder = tempfile::tempdir().unwrap();
    let acme = folder.path().join("acme");
    std::fs::create_dir(&acme).unwrap();
    std::fs::write(acme.join("partner.toml"), partner).unwrap();
    std::fs::write(acme.join("one.toml"), model).unwrap();
    let source = Source {
        builtin: false,
        folder: Some(folder.path().to_owned()),
    };
    (folder, source, model)
}

fn settings(partners: &Partners, clock: &Arc<Clock>) -> Settings {
    let relocations = partners.relocations().into_iter();
    let relocations = relocations.map(|(host, base_url)| Relocation {
        host: Host::parse(host).unwrap(),
        base_url: base_url.try_into().unwrap(),
    });
    let timer: Arc<dyn Timer> = Arc::<Clock>::clone(clock);
    Settings::new(Vec::new(), relocations.collect(), None, timer).unwrap()
}

/// Every variable of the catalog, with what the simulated partners take.
pub(crate) fn environment(name: &str) -> Option<String> {
    let partner = match name {
        "KLING_ACCESS_KEY" => return Some(Partner::Kling.access_key()),
        "KLING_SECRET_KEY" => Partner::Kling,
        "BFL_API_KEY" => Partner::Bfl,
        "REPLICATE_API_TOKEN" => Partner::Replicate,
        "RUNWAYML_API_SECRET" => Partner::Runway,
        "OPENAI_API_KEY" => Partner::OpenaiImages,
        "GEMINI_API_KEY" => Partner::Google,
        "STABILITY_API_KEY" => Partner::Stability,
        "MINIMAX_API_KEY" => Partner::Minimax,
        "LUMAAI_API_KEY" => Partner::Luma,
        "RECRAFT_API_TOKEN" => Partner::Recraft,
        "IDEOGRAM_API_KEY" => Partner::Ideogram,
        "ARK_API_KEY" => Partner::Byteplus,
        "DASHSCOPE_API_KEY" => Partner::Dashscope,
        "XAI_API_KEY" => Partner::Xai,
        "PIXVERSE_API_KEY" => Partner::Pixverse,
        "TRIPO_API_KEY" => Partner::Tripo,
        "RODIN_API_KEY" => Partner::Rodin,
        "ELEVENLABS_API_KEY" => Partner::Elevenlabs,
        "FAL_KEY" => Partner::FalQueue,
        _ => return documented(name),
    };
    Some(partner.secret())
}
