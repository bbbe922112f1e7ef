//! Configuration: flags over environment over one TOML file over defaults, every value with its origin.
//!
//! One table of [`Key`]s makes flags, variables, file keys and their help, so they cannot drift apart. Nothing is read
//! from the world behind the caller's back: arguments and environment come in, and only the file that was named is opened.

mod access;
mod error;
mod file;
mod key;
mod listen;
mod nearest;
mod place;
mod server;
mod settings;
mod value;

pub(crate) use access::ACCESS_KEYS;
pub use access::Access;
pub use error::ConfigError;
pub use key::{Key, Kind, Preset};
pub use listen::{Listen, SocketMode};
pub use place::{CloudPlace, InstallationPlace, PlaceError};
pub use server::{DATA_DIR, LISTEN, SERVER_KEYS, ServerConfig};
pub use settings::{Environment, Origin, Settings};
pub use value::{
    Auto, AutoSize, Count, Duration, Peers, RateWindows, Size, SizeBound, Value, array,
};

#[cfg(test)]
mod tests;
