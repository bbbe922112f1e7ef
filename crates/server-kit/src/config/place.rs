//! Where an installation is kept.

use std::path::{Path, PathBuf};

use installation::BoxError;
use secrecy::{ExposeSecret, SecretString};

use super::{ConfigError, Key, Kind, Preset, Settings, Value};

/// Where an installation is kept: in a directory of this machine, or in a database and a bucket.
#[derive(Clone, Debug)]
pub struct InstallationPlace {
    /// The directory of everything; of an installation in a database, what belongs to this process alone: the socket for
    /// commands and the files of workers.
    pub data_dir: PathBuf,
    /// Where it is instead, for any number of servers.
    pub cloud: Option<CloudPlace>,
}

/// A database and a bucket.
#[derive(Clone, Debug)]
pub struct CloudPlace {
    /// The address of a PostgreSQL database, which may hold a password.
    pub database: SecretString,
    /// The address of a bucket: `s3://BUCKET/PREFIX`.
    pub bucket: String,
    /// Most connections to the database that a process opens, besides the one on which it listens.
    pub connections: u32,
}

impl CloudPlace {
    /// How many connections a process opens that is told nothing else.
    pub const CONNECTIONS: u32 = 16;
}

/// A number of connections: a check of the database takes two at once.
struct Connections(u32);

/// An address in either of PostgreSQL's forms. Whether it is one is for the store to say.
struct DatabaseAddress(SecretString);

/// The database; secret, since its address may hold a password.
pub(super) const STORE: Key = Key {
    name: "store",
    kind: Kind::Value("URL"),
    preset: Preset::Unset,
    help: "PostgreSQL database that holds all rows instead of the data directory: postgres://USER@HOST/NAME; needs blobs",
    secret: true,
};

/// The bucket.
pub(super) const BLOBS: Key = Key {
    name: "blobs",
    kind: Kind::Value("URL"),
    preset: Preset::Unset,
    help: "Bucket that holds all blobs: s3://BUCKET/PREFIX?endpoint=URL&region=NAME; needs store",
    secret: false,
};

/// The pool.
pub(super) const CONNECTIONS: Key = Key {
    name: "store_connections",
    kind: Kind::Value("COUNT"),
    preset: Preset::Value("16"),
    help: "Connections that this process may open to the database, in addition to the one for notifications",
    secret: false,
};

/// Why there is no store at a place. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The program has no such store in it.
    #[error(
        "this program was built without databases and buckets: build it with the feature `cloud`, or leave out `store` and `blobs`"
    )]
    NotBuilt,
    /// An address, or what belongs to it.
    #[error(transparent)]
    Address(BoxError),
}

impl InstallationPlace {
    /// A directory of this machine.
    #[must_use]
    pub fn directory(path: &Path) -> Self {
        Self {
            data_dir: path.to_owned(),
            cloud: None,
        }
    }

    /// Reads the keys of both places.
    ///
    /// # Errors
    /// If one half of a place in a database and a bucket is missing.
    pub fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let data_dir = settings.read(super::DATA_DIR.name)?;
        let database = settings.read_optional::<DatabaseAddress>(STORE.name)?;
        let database = database.map(|DatabaseAddress(address)| address);
        let bucket: Option<String> = settings.read_optional(BLOBS.name)?;
        let Connections(connections) = settings.read(CONNECTIONS.name)?;
        let cloud = match (database, bucket) {
            (Some(database), Some(bucket)) => Some(CloudPlace {
                database,
                bucket,
                connections,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(ConfigError::Needs(STORE.name, BLOBS.name)),
            (None, Some(_)) => return Err(ConfigError::Needs(BLOBS.name, STORE.name)),
        };
        Ok(Self { data_dir, cloud })
    }
}

impl Value for Connections {
    const ALLOWED: &'static str = "a whole number from 2 to 1000";

    fn read(text: &str) -> Option<Self> {
        let count: u32 = text.parse().ok()?;
        (2..=1000).contains(&count).then_some(Self(count))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for DatabaseAddress {
    const ALLOWED: &'static str = "an address such as postgres://USER@HOST/NAME";

    fn read(text: &str) -> Option<Self> {
        let is_one = text.contains("://") || text.contains('=');
        is_one.then(|| Self(text.into()))
    }

    fn show(&self) -> String {
        let Self(address) = self;
        SecretString::from(address.expose_secret()).show()
    }
}
