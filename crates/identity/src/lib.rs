//! Credentials to callers: reads what a request presents and answers whose request it is.
//!
//! Knows no route and no envelope. A refusal never says whether a credential was missing, wrong, revoked or of a suspended
//! account, and no credential is ever kept in the clear. Start at [`Identity::verify`].

mod credential;
mod identity;

pub use credential::{Credential, presented};
pub use identity::{Identity, IdentityError};
