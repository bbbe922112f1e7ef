//! How a database is reached: its address, what the environment adds to it, and the bounds of its pool.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::DatabaseOpenError;

/// What the server calls connections of processes that serve, in the order of their versions; the last one is this.
pub(crate) const SERVING: &[&str] = &["easel", "easel-2", "easel-3"];

/// Those that do not read all that this version writes: see [`crate::form`].
#[cfg(feature = "workflow")]
pub(crate) const BEFORE_PACKED_CHANGES: &[&str] = SERVING.split_at(1).0;
pub(crate) const BEFORE_BLOBS_IN_ROWS: &[&str] = SERVING.split_at(2).0;

/// How a database is used.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Most connections of this process, of which half are for steps of calls and jobs; at least 4.
    pub connections: usize,
    /// How long a request waits at most until a connection is free.
    pub patience: Duration,
    /// The password, where the address has none.
    pub password: Option<SecretString>,
    /// The clock that the database's must agree with.
    pub clock: fn() -> Timestamp,
    /// What the server calls the connections: all processes that serve have one name for theirs.
    pub application: &'static str,
}

/// How long an address of a host may take to accept a connection: where the next host has to be asked, this is lost each time.
const CONNECT: Duration = Duration::from_secs(2);

/// How long bytes may stay without an acknowledgment, how long a connection may be quiet until its other end is asked for a sign of
/// life, and how often it is asked: so a machine that is gone is noticed within some ten seconds.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_secs(5);
const ASKED: u32 = 3;

/// What the driver has where the address says nothing.
const QUIET_OF_DRIVER: Duration = Duration::from_secs(2 * 60 * 60);

/// An address that was read.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    /// Authorities to trust beside the usual ones.
    pub(super) extra_ca_pem: Option<Vec<u8>>,
    /// Hosts and database, for people.
    pub(super) place: String,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            connections: 16,
            patience: Duration::from_secs(5),
            password: None,
            clock: Timestamp::now,
            application: SERVING[SERVING.len() - 1],
        }
    }
}

impl DatabaseOptions {
    /// The defaults, with the password of `PGPASSWORD` or of the file that `PGPASSWORD_FILE` names.
    ///
    /// # Errors
    /// If that file cannot be read.
    pub fn from_environment(
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, DatabaseOpenError> {
        let password = match environment("PGPASSWORD_FILE") {
            Some(path) => Some(String::from_utf8_lossy(&read(&path)?).trim_end().to_owned()),
            None => environment("PGPASSWORD"),
        };
        Ok(Self {
            password: password.map(SecretString::from),
            ..Self::default()
        })
    }
}

impl Address {
    /// Reads an address, and the file of authorities that it names.
    ///
    /// Certificates are verified wherever TLS is used: `require`, `verify-ca` and `verify-full` are one. Without `sslmode`, or
    /// with `prefer`, TLS is used if the server offers it.
    pub(super) fn read(
        address: &str,
        options: &DatabaseOptions,
    ) -> Result<Self, DatabaseOpenError> {
        let (address, mode) = cut(address, "sslmode=");
        let (address, authorities) = cut(&address, "sslrootcert=");
        // The driver's own words may repeat parts of a password.
        let mut config: Config = address.parse().map_err(|_| DatabaseOpenError::Address)?;
        let mode = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            Some("prefer") | None => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(_) => return Err(DatabaseOpenError::Address),
        };
        config.ssl_mode(mode).application_name(options.application);
        notice_silence(&mut config);
        if let (None, Some(password)) = (config.get_password(), &options.password) {
            config.password(password.expose_secret());
        }
        if config.get_hosts().is_empty() {
            return Err(DatabaseOpenError::Address);
        }
        Ok(Self {
            place: place(&config),
            extra_ca_pem: authorities.map(|path| read(&path)).transpose()?,
            config,
        })
    }
}

/// Sets bounds for a host that says nothing, where the address does not.
fn notice_silence(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(ACKNOWLEDGED);
    }
    if config.get_keepalives_idle() == QUIET_OF_DRIVER {
        config.keepalives_idle(QUIET);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(QUIET);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(ASKED);
    }
}

/// Cuts one setting out of an address of either form.
fn cut(address: &str, name: &str) -> (String, Option<String>) {
    let is_url = address.starts_with("postgres://") || address.starts_with("postgresql://");
    let is_between = |c: char| match is_url {
        true => c == '?' || c == '&',
        false => c.is_whitespace(),
    };
    let mut starts = address.match_indices(name).map(|(start, _)| start);
    let Some(start) = starts.find(|start| {
        let before = address[..*start].chars().next_back();
        before.map_or(!is_url, is_between)
    }) else {
        return (address.to_owned(), None);
    };
    let behind = &address[start + name.len()..];
    let (value, rest) = behind.split_at(behind.find(is_between).unwrap_or(behind.len()));
    let rest = rest.trim_start_matches(is_between);
    let mut left = format!("{}{rest}", &address[..start]);
    left.truncate(left.trim_end_matches(is_between).len());
    let value = match is_url {
        // A plus is one: this is no form.
        true => {
            let query = format!("v={}", value.replace('+', "%2B"));
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs
                .next()
                .map_or_else(String::new, |(_, value)| value.into_owned())
        }
        false => value.trim_matches('\'').to_owned(),
    };
    (left, Some(value))
}

/// Hosts and database, for people.
pub(super) fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    let name = config.get_dbname().or_else(|| config.get_user());
    format!("{}/{}", hosts.join(","), name.unwrap_or_default())
}

fn read(path: &str) -> Result<Vec<u8>, DatabaseOpenError> {
    std::fs::read(path).map_err(|error| DatabaseOpenError::File {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_cut_out_of_either_form() {
        for (address, left, value) in [
            (
                "postgres://h/d?sslmode=require",
                "postgres://h/d",
                Some("require"),
            ),
            (
                "postgres://h/d?sslmode=a%2Fb&x=y",
                "postgres://h/d?x=y",
                Some("a/b"),
            ),
            (
                "postgres://h/d?x=y&sslmode=a+b&z=1",
                "postgres://h/d?x=y&z=1",
                Some("a+b"),
            ),
            (
                "postgres://u:sslmode=x@h/d",
                "postgres://u:sslmode=x@h/d",
                None,
            ),
            ("sslmode=disable host=h", "host=h", Some("disable")),
            (
                "host=h sslmode='disable' user=u",
                "host=h user=u",
                Some("disable"),
            ),
            (
                "host=h password=xsslmode=y",
                "host=h password=xsslmode=y",
                None,
            ),
        ] {
            let cut = cut(address, "sslmode=");
            assert_eq!(cut, (left.to_owned(), value.map(str::to_owned)));
        }
    }

    #[test]
    fn silence_is_noticed_soon_or_as_the_address_says() {
        let read = |address: &str| {
            let read = Address::read(address, &DatabaseOptions::default());
            let config = read.expect("it is one").config;
            [
                config.get_connect_timeout().copied(),
                config.get_tcp_user_timeout().copied(),
                Some(config.get_keepalives_idle()),
                config.get_keepalives_interval(),
                config
                    .get_keepalives_retries()
                    .map(|n| Duration::from_secs(n.into())),
            ]
            .map(|bound| bound.map_or(0, |bound| bound.as_secs()))
        };
        assert_eq!(read("postgres://one,two/pictures"), [2, 5, 5, 5, 3]);
        let own = "connect_timeout=11&tcp_user_timeout=12&keepalives_idle=13&keepalives_interval=14&keepalives_retries=15";
        assert_eq!(read(&format!("postgres://h/d?{own}")), [11, 12, 13, 14, 15]);
    }

    #[test]
    fn an_address_and_its_errors_tell_no_password() {
        let options = DatabaseOptions {
            password: Some("hidden-secret".into()),
            ..DatabaseOptions::default()
        };
        let read = |address: &str| Address::read(address, &options);
        let address = read("postgres://me@one,two:7/pictures?sslmode=verify-full");
        let address = address.expect("it is one");
        assert_eq!(address.place, "one,two/pictures");
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(
            address.config.get_password(),
            Some(b"hidden-secret".as_slice())
        );
        let shown = format!("{options:?} {:?} {}", address.config, address.place);
        assert!(!shown.contains("hidden-secret"), "{shown}");
        for wrong in [
            "postgres://me:hidden-secret@host:port/name",
            "postgres://me:hidden-secret@host/name?sslmode=hidden-secret",
            "password=my hidden-secret=1 host=h",
            "hidden-secret",
        ] {
            let Err(refused) = read(wrong) else {
                panic!("{wrong} is taken");
            };
            let said = format!("{refused} {refused:?}");
            assert!(!said.contains("hidden-secret"), "{said}");
        }
    }
}
