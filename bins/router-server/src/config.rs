//! What a server of partner models is told besides what every server is told.

use std::path::PathBuf;
use std::time;

use accounts::{RouterLimits, Tier};
use hyper_kit::Host;
use jiff::SignedDuration;
use providers::{BaseUrl, Relocation};
use server_kit::config::{
    ConfigError, Count, DATA_DIR, Duration, Key, Kind, LISTEN, Preset, RateWindows, SERVER_KEYS,
    ServerConfig, Settings, Size, Value,
};

/// Everything that is configured, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens, whom it lets in, how it logs and ends.
    pub server: ServerConfig,
    /// What calls may take.
    pub router: RouterSettings,
}

/// What calls may take, and where partners are.
#[derive(Clone, Debug)]
pub struct RouterSettings {
    /// How long a caller is kept waiting.
    pub deadline: time::Duration,
    /// How long accepted work is asked after.
    pub give_up_after: time::Duration,
    /// How long a queued request may wait to be dispatched.
    pub queue_time: time::Duration,
    /// Requests of one account that may wait in the queue.
    pub queued_calls: usize,
    /// Most bytes of a call's body.
    pub body_bytes: usize,
    /// What an account may have in flight unless its own limits say something else.
    pub limits: RouterLimits,
    /// How long the record of a call is kept.
    pub call_retention: SignedDuration,
    /// Largest file of a result that is kept.
    pub kept_result_bytes: u64,
    /// Whether the routes are served under `/v2/models` too.
    pub aliases: bool,
    /// Whether `X-Service-*` headers are repeated as `X-Comfy-*`.
    pub mirror_headers: bool,
    /// Whether credentials are taken from `X-API-Key`.
    pub api_key_header: bool,
    /// Partners and where they are.
    pub partners: PartnerConfig,
}

/// Partners and where they are.
#[derive(Clone, Debug)]
pub struct PartnerConfig {
    /// A folder of partners and models, over those built in.
    pub catalog: Option<PathBuf>,
    /// Hosts that are asked somewhere else.
    pub relocations: Vec<Relocation>,
    /// Hosts and ports that may be plain `http` and private.
    pub exempt: Vec<Host>,
    /// Authorities to trust besides the public ones, in PEM form.
    pub extra_ca: Option<PathBuf>,
}

/// `host=URL` of hosts that are asked somewhere else.
struct Relocations(Vec<(String, String)>);

/// Hosts with ports.
struct Hosts(Vec<String>);

/// The key of a queued request is kept for 24 hours, so its generation must begin well before that.
const LONGEST_QUEUE_TIME: time::Duration = time::Duration::from_secs(12 * 3600);

/// All keys of a server of partner models.
pub const KEYS: &[&[Key]] = &[
    &[
        LISTEN.with_preset("127.0.0.1:8190"),
        DATA_DIR.with_preset("easel-router-data"),
    ],
    SERVER_KEYS,
    ROUTER_KEYS,
];

/// The keys that settle what an account gets that is given nothing else, and nothing besides.
pub const LIMITS: &[&str] = &["concurrent_calls", "committed_spend_cents", "rate_windows"];

/// The keys of [`RouterSettings`].
pub const ROUTER_KEYS: &[Key] = &[
    unset(
        "catalog",
        "DIR",
        "Directory of partners and models that extend or replace the built-in ones; read again when it changes",
    ),
    key(
        "deadline",
        "TIME",
        "10m",
        "How long a caller waits for a result before the answer is 504; the call itself continues",
    ),
    key(
        "give_up_after",
        "TIME",
        "2h",
        "How long a partner is polled for the result of a task",
    ),
    key(
        "queue_time",
        "TIME",
        "1h",
        "How long a queued request may wait to be dispatched; at most 12h",
    ),
    key(
        "queued_calls",
        "N",
        "10000",
        "Requests of one account that may wait in the queue",
    ),
    key("body_limit", "SIZE", "32MiB", "Largest body of a call"),
    key(
        "concurrent_calls",
        "N",
        "5",
        "Calls of one account that may be in flight, unless its own limits say otherwise",
    ),
    key(
        "committed_spend_cents",
        "N",
        "10000",
        "US cents that the calls in flight of one account may commit",
    ),
    key(
        "rate_windows",
        "LIST",
        "none",
        "Requests of one account in spans of time, such as 60/1m,5000/24h",
    ),
    key(
        "call_retention",
        "TIME",
        "90d",
        "How long the record of a call is kept once it is over",
    ),
    switch(
        "keep_results",
        "false",
        "Keeps the files that results name beyond the partner's links, unless an account says otherwise",
    ),
    key(
        "kept_result_size",
        "SIZE",
        "512MiB",
        "Largest file of a result that is kept",
    ),
    switch(
        "model_aliases",
        "true",
        "Serves the routes under /v2/models too, where today's public clients look",
    ),
    switch(
        "comfy_headers",
        "true",
        "Repeats X-Service-* headers of the router as X-Comfy-*, for today's public clients",
    ),
    switch(
        "api_key_header",
        "true",
        "Takes credentials for the router from X-API-Key too",
    ),
    Key {
        kind: Kind::List("HOST=URL"),
        ..key(
            "relocate_partners",
            "",
            "",
            "Sends requests for a partner's host to another address, such as a gateway: api.bfl.ai=https://gateway.example/bfl",
        )
    },
    Key {
        kind: Kind::List("HOST:PORT"),
        ..key(
            "plain_partners",
            "",
            "",
            "Hosts and ports of partners that may be plain http and private",
        )
    },
    unset(
        "partner_ca",
        "FILE",
        "Certificate authorities in PEM form to trust for partners, in addition to the public ones",
    ),
];

const fn key(
    name: &'static str,
    placeholder: &'static str,
    preset: &'static str,
    help: &'static str,
) -> Key {
    Key {
        name,
        kind: Kind::Value(placeholder),
        preset: Preset::Value(preset),
        help,
        secret: false,
    }
}

const fn unset(name: &'static str, placeholder: &'static str, help: &'static str) -> Key {
    Key {
        preset: Preset::Unset,
        ..key(name, placeholder, "", help)
    }
}

const fn switch(name: &'static str, preset: &'static str, help: &'static str) -> Key {
    Key {
        kind: Kind::Switch,
        ..key(name, "", preset, help)
    }
}

impl Config {
    /// The configuration of a server that a program embeds: `values` by the names of [`KEYS`], spelled as in a file.
    /// Everything else is as by default.
    ///
    /// # Errors
    /// If a name is no key, or a value is not allowed.
    pub fn of(values: &[(&str, &str)]) -> Result<Self, ConfigError> {
        Self::read(&mut Settings::of(KEYS, values)?)
    }

    /// Reads all [`KEYS`].
    ///
    /// # Errors
    /// If a value is not allowed.
    pub fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        settings.preset(
            "require_credentials",
            "true",
            "the router is never anonymous",
        );
        let mut server = ServerConfig::read(settings)?;
        let router = RouterSettings::read(settings)?;
        server.in_force = settings.in_force();
        Ok(Self { server, router })
    }
}

impl RouterSettings {
    /// What an account gets that is given nothing else.
    #[must_use]
    pub fn tier(&self) -> Tier {
        Tier {
            router: self.limits.clone(),
            ..Tier::standard()
        }
    }

    /// Reads [`ROUTER_KEYS`].
    ///
    /// # Errors
    /// If a value is not allowed.
    pub fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let catalog = settings.read_optional("catalog")?;
        let deadline = settings.read::<Duration<1>>("deadline")?.0;
        let give_up_after = settings.read::<Duration<1>>("give_up_after")?.0;
        let queue_time = settings.read::<Duration<1>>("queue_time")?.0;
        let queued_calls = settings.read::<Count>("queued_calls")?.0;
        let body_bytes = settings.read::<Size>("body_limit")?.0;
        let concurrent_calls = settings.read::<Count>("concurrent_calls")?.0;
        let committed_spend = settings.read::<Count>("committed_spend_cents")?.0;
        let RateWindows(windows) = settings.read("rate_windows")?;
        let call_retention = settings.read::<Duration<1>>("call_retention")?.0;
        let keep_results = settings.read("keep_results")?;
        let kept_result_bytes = settings.read::<Size>("kept_result_size")?.0;
        let aliases = settings.read("model_aliases")?;
        let mirror_headers = settings.read("comfy_headers")?;
        let api_key_header = settings.read("api_key_header")?;
        let Relocations(relocations) = settings.read("relocate_partners")?;
        let Hosts(exempt) = settings.read("plain_partners")?;
        Ok(Self {
            deadline,
            give_up_after,
            queue_time: queue_time.min(LONGEST_QUEUE_TIME),
            queued_calls: usize::try_from(queued_calls).unwrap_or(usize::MAX),
            body_bytes: usize::try_from(body_bytes).unwrap_or(usize::MAX),
            limits: RouterLimits {
                concurrent_calls,
                committed_spend_cents: u64::from(committed_spend),
                windows,
                keep_results,
                ..RouterLimits::standard()
            },
            call_retention: SignedDuration::from_millis(call_retention.as_millis() as i64),
            kept_result_bytes,
            aliases,
            mirror_headers,
            api_key_header,
            partners: PartnerConfig {
                catalog,
                relocations: relocations
                    .iter()
                    .map(|(host, url)| relocation(host, url).expect("it was read before"))
                    .collect(),
                exempt: exempt
                    .iter()
                    .map(|host| Host::parse(host).expect("it was read before"))
                    .collect(),
                extra_ca: settings.read_optional("partner_ca")?,
            },
        })
    }
}

fn relocation(host: &str, url: &str) -> Option<Relocation> {
    let host = Host::parse(host)?;
    let base_url = BaseUrl::try_from(url.to_owned()).ok()?;
    Some(Relocation { host, base_url })
}

impl Value for Relocations {
    const ALLOWED: &'static str =
        "hosts and addresses separated by commas, such as api.bfl.ai=https://gateway.example/bfl";

    fn read(text: &str) -> Option<Self> {
        let pairs = items(text).map(|item| {
            let (host, url) = item.split_once('=')?;
            relocation(host, url)?;
            Some((host.to_owned(), url.to_owned()))
        });
        pairs.collect::<Option<_>>().map(Self)
    }

    fn show(&self) -> String {
        let pairs = self.0.iter().map(|(host, url)| format!("{host}={url}"));
        server_kit::config::array(pairs)
    }
}

impl Value for Hosts {
    const ALLOWED: &'static str = "hosts with ports separated by commas, such as gateway:8080";

    fn read(text: &str) -> Option<Self> {
        let hosts = items(text).map(|item| {
            Host::parse(item)?;
            Some(item.to_owned())
        });
        hosts.collect::<Option<_>>().map(Self)
    }

    fn show(&self) -> String {
        server_kit::config::array(self.0.iter().cloned())
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}
