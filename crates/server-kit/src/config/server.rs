//! What every server is told: where it listens, whom it lets in, how it is reached, how it logs and how it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time;

use admin_http::wire::SettingBody;
use hyper_kit::{BaseUrl, Host, HostNames, Origin, PeerSet};

use super::access::{self, Access};
use super::place::{self, InstallationPlace};
use super::{
    ConfigError, Count, Duration, Key, Kind, Listen, Peers, Preset, Settings, Size, SocketMode,
    Value,
};
use crate::front::{CONSOLE, HomeEntry, REFERENCE};
use crate::logging::{LogConfig, LogFormat, LogLevels};

/// The resolved configuration of a server, whatever it serves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens.
    pub listen: Listen,
    /// The permissions of its Unix socket.
    pub listen_mode: SocketMode,
    /// Whether it may listen on a network without credentials.
    pub insecure_no_auth: bool,
    /// Where metrics, health and readiness are served besides, without a credential.
    pub metrics_listen: Option<SocketAddr>,
    /// Where everything is kept.
    pub place: InstallationPlace,
    /// Whether a new installation may begin where the files of another one lie and its rows are gone.
    pub fresh: bool,
    /// Whom it lets in.
    pub access: Access,
    /// The address that links begin with, where the operator named it.
    pub public_url: Option<BaseUrl>,
    /// The path below which everything is served: empty, or with a slash in front and none behind.
    pub mount_path: String,
    /// Pages of other origins that may call.
    pub allowed_origins: Vec<Origin>,
    /// Further host names that requests may be for.
    pub allowed_hosts: HostNames,
    /// Proxies whose forwarded headers are believed.
    pub trusted_proxies: PeerSet,
    /// Connections open at once; `None` goes by the descriptors that the process may have.
    pub max_connections: Option<u32>,
    /// Whether the web console is served.
    pub console: bool,
    /// Hosts of webhooks that may be private and plain `http`.
    pub webhook_private_hosts: Vec<Host>,
    /// Most bytes of a JSON body.
    pub json_limit_bytes: u64,
    /// How long it goes on accepting after a signal, so that a load balancer sees it leave.
    pub drain_delay: time::Duration,
    /// How long running requests and jobs may go on after that.
    pub drain_grace: time::Duration,
    /// How it logs.
    pub log: LogConfig,
    /// Every setting of the program in force, for operators; secrets are masked.
    pub in_force: Arc<[SettingBody]>,
}

/// The path of [`ServerConfig::mount_path`].
struct MountPath(String);

/// Where it listens; a binary may have a preset of its own.
pub const LISTEN: Key = value(
    "listen",
    "ADDRESS",
    "127.0.0.1:8189",
    "Address and port to listen on (port 0 takes a free one), unix:/path for a Unix socket, or systemd for the socket that it passes on",
);

/// Where it keeps everything; a binary may have a preset of its own.
pub const DATA_DIR: Key = value(
    "data_dir",
    "DIR",
    "easel-data",
    "Directory of the installation, with its rows and files; created when it is missing",
);

/// The keys of [`ServerConfig`] besides [`LISTEN`] and [`DATA_DIR`].
pub const SERVER_KEYS: &[Key] = &[
    place::STORE,
    place::BLOBS,
    place::CONNECTIONS,
    access::TOKEN,
    access::INSECURE,
    access::REQUIRE,
    access::JWT_SECRET,
    access::JWT_KEYS,
    access::JWT_ALGORITHM,
    access::JWT_ISSUER,
    access::JWT_AUDIENCE,
    Key {
        kind: Kind::Switch,
        ..value(
            "fresh",
            "",
            "false",
            "Begins a new installation where main.db of another one is missing",
        )
    },
    value(
        "listen_mode",
        "MODE",
        "660",
        "Permissions of the Unix socket in octal digits; 660 admits the user and the group",
    ),
    unset(
        "metrics_listen",
        "ADDRESS:PORT",
        "Address and port that serve /metrics, /health and /ready alone, without a credential",
    ),
    unset(
        "public_url",
        "URL",
        "Address that links begin with, when it is not the one in the Host header",
    ),
    value(
        "mount_path",
        "PATH",
        "",
        "Path below which everything is served, such as /deployment/x",
    ),
    list(
        "allowed_origins",
        "ORIGIN",
        "Origins of web pages that may call this server, separated by commas",
    ),
    list(
        "allowed_hosts",
        "NAME",
        "Host names that requests may be for where no credential is asked, separated by commas",
    ),
    list(
        "trusted_proxies",
        "PEER",
        "Addresses of proxies whose X-Forwarded headers are believed, separated by commas",
    ),
    unset(
        "max_connections",
        "N",
        "Connections open at once; by default four fifths of the file descriptors",
    ),
    Key {
        kind: Kind::Switch,
        ..value("console", "", "true", "Serves the web console at /console")
    },
    list(
        "webhook_private_hosts",
        "HOST",
        "Hosts of webhooks that may be plain http and private, each with its port unless it is 443 or 80, separated by commas",
    ),
    value("json_limit", "SIZE", "16MiB", "Largest JSON body"),
    value(
        "drain_delay",
        "TIME",
        "0s",
        "How long connections are accepted after a signal, so that load balancers see /ready turn 503",
    ),
    value(
        "drain_grace",
        "TIME",
        "30s",
        "How long running requests and jobs may continue after a signal",
    ),
    value(
        "log_format",
        "FORMAT",
        "auto",
        "Form of the log on standard error: text, json, or auto for text on a terminal",
    ),
    value(
        "log_level",
        "LEVEL",
        "info",
        "Level of the log: off, error, warn, info, debug or trace, also by module: info,store_local=debug",
    ),
];

pub(super) const fn value(
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

pub(super) const fn unset(
    name: &'static str,
    placeholder: &'static str,
    help: &'static str,
) -> Key {
    Key {
        preset: Preset::Unset,
        ..value(name, placeholder, "", help)
    }
}

const fn list(name: &'static str, placeholder: &'static str, help: &'static str) -> Key {
    Key {
        kind: Kind::List(placeholder),
        ..value(name, placeholder, "", help)
    }
}

impl ServerConfig {
    /// Reads [`LISTEN`], [`DATA_DIR`] and [`SERVER_KEYS`].
    ///
    /// # Errors
    /// If a value is not allowed, or the server would be open to a network that nobody said it should be open to.
    pub fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let listen: Listen = settings.read("listen")?;
        let listen_mode = settings.read("listen_mode")?;
        let place = InstallationPlace::read(settings)?;
        let access = Access::read(settings)?;
        let insecure_no_auth: bool = settings.read(access::INSECURE.name)?;
        if let Some(listen) = listen.tcp()
            && access.anonymous
            && !listen.ip().to_canonical().is_loopback()
            && !insecure_no_auth
        {
            let origin = settings.origin("listen").clone();
            return Err(ConfigError::Open { listen, origin });
        }
        Ok(Self {
            listen,
            listen_mode,
            insecure_no_auth,
            metrics_listen: settings.read_optional("metrics_listen")?,
            place,
            fresh: settings.read("fresh")?,
            access,
            public_url: settings.read_optional("public_url")?,
            mount_path: settings.read::<MountPath>("mount_path")?.0,
            allowed_origins: settings.read("allowed_origins")?,
            allowed_hosts: settings.read("allowed_hosts")?,
            trusted_proxies: settings.read::<Peers>("trusted_proxies")?.set,
            max_connections: settings
                .read_optional::<Count>("max_connections")?
                .map(|count| count.0),
            console: settings.read("console")?,
            webhook_private_hosts: settings.read("webhook_private_hosts")?,
            json_limit_bytes: settings.read::<Size>("json_limit")?.0,
            drain_delay: settings.read::<Duration<0>>("drain_delay")?.0,
            drain_grace: settings.read::<Duration<0>>("drain_grace")?.0,
            log: LogConfig {
                format: settings.read::<LogFormat>("log_format")?,
                levels: settings.read::<LogLevels>("log_level")?,
            },
            // The program knows them once it has read its own.
            in_force: Arc::default(),
        })
    }
}

impl ServerConfig {
    /// What is at the root of a server whose APIs are `apis`: they, the pages of their documents, and the console where it is
    /// served.
    #[must_use]
    pub fn home_entries(&self, apis: &[HomeEntry]) -> Vec<HomeEntry> {
        let console = self.console.then_some(CONSOLE);
        let pages = [REFERENCE].into_iter().chain(console);
        apis.iter().copied().chain(pages).collect()
    }

    /// The host names that requests may be for: those that the operator named anywhere.
    #[must_use]
    pub fn host_names(&self) -> HostNames {
        let read = |name| Host::parse(name);
        let allowed = self.allowed_hosts.iter().filter_map(read);
        let public = self.public_url.iter().map(|url| url.host().clone());
        let origins = self.allowed_origins.iter().map(|it| it.host().clone());
        HostNames::new(allowed.chain(public).chain(origins))
    }
}

impl Value for MountPath {
    const ALLOWED: &'static str = "a path of letters, digits and -._~ that starts with a slash and ends without one, such as /deployment/x";

    fn read(text: &str) -> Option<Self> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let well = |part: &str| !["", ".", ".."].contains(&part) && part.bytes().all(known);
        let mut parts = text.split('/');
        let fits = text.is_empty() || (parts.next() == Some("") && parts.all(well));
        fits.then(|| Self(text.to_owned()))
    }

    fn show(&self) -> String {
        super::value::quoted(&self.0)
    }
}
