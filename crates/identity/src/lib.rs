//! Credentials to callers: reads what a request presents and answers whose request it is.
//!
//! Knows no route and no envelope. A refusal never says whether a credential was missing, wrong, revoked or of a suspended
//! account, and no credential is ever kept in the clear. Start at [`Identity::verify`].
//!
#![doc = include_str!("../README.md")]

mod credential;
#[cfg(test)]
mod forged;
mod identity;
mod jwt;
mod sessions;

pub use credential::{Credential, Presented, presented};
pub use identity::{Credentials, Identity, IdentityError};
pub use jwt::{
    Claimed, FEWEST_SECRET_BYTES, IssueError, Jwt, JwtConfig, JwtKey, JwtSetupError, KeyFileError,
    PublicKeyAlgorithm, SelfTestFailed, issue,
};
pub use sessions::{CookieScope, WebSessions};
