//! One installation as programs see it: the ports over its rows and blobs, its signing keys, its health, its backups.
//!
//! A store implements [`InstallationStore`]; a program names a store on the one line that chooses it, and works with the
//! [`Installation`] that opening it gives. The features `router`, `workflow` and `v1` add the ports of those families. Knows no
//! file, database or server. Start at [`Installation`].
//!
#![doc = include_str!("../README.md")]

mod closing;
mod health;
mod installation;
mod keys;
mod memory;
mod reserve;
mod store;
mod turns;

pub mod contract;
pub mod transfer;

pub use asset_store::BoxError;
pub use closing::Closing;
pub use health::{DatabaseLoad, Health, StoreLoad, Unhealthy};
#[cfg(feature = "router")]
pub use installation::CallRows;
#[cfg(feature = "workflow")]
pub use installation::JobRows;
pub use installation::{AssetRows, Installation};
pub use keys::SigningKeys;
pub use memory::MemoryStore;
pub use reserve::{MinFree, ReserveOptions};
pub use store::{
    Contents, CopyError, InstallationError, InstallationStore, OpenError, OpenOptions,
};
pub use turns::{MemoryTurns, Turns, Work};
