//! Who may do what: account ids, scopes, tiers, standing, hashed keys and the port that looks them up.
//!
//! The lowest room of the house: it knows of no job, asset or model. Family A says *workspace* on its wire for what is an
//! account everywhere in the code. Start at [`Standing`], which is what a verified credential turns into.

mod id;
mod idempotency;
mod key;
mod memory;
mod port;
mod scope;
mod standing;
mod tier;

pub mod contract;

pub use id::{AccountId, InvalidAccountId};
pub use idempotency::{Fingerprint, IdempotencyKey, InvalidIdempotencyKey};
pub use key::KeyHash;
pub use memory::MemoryAccounts;
pub use port::{Accounts, AccountsError};
pub use scope::{Scope, Scopes};
pub use standing::Standing;
pub use tier::Tier;
