//! Sessions of people who signed in on a web page, and the port that keeps them.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{AccountId, AccountsError, AdminError, KeyHash, Scopes};

/// What the token of a signed-in browser stands for. It holds no credential: only hashes and claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whose session it is.
    pub account: AccountId,
    /// What was shown at the sign-in.
    pub source: SessionSource,
    /// When it began.
    pub began_at: Timestamp,
    /// From this moment on it no longer counts.
    pub ends_at: Timestamp,
}

/// Which credential a session was begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSource {
    /// An API key or the token of the installation, by its hash: the session counts while this credential does.
    Credential(KeyHash),
    /// A JSON Web Token.
    Jwt {
        /// What the token allowed.
        scopes: Scopes,
        /// The fingerprint of the key that verified it: the session counts while tokens of this key are accepted.
        key: KeyHash,
    },
}

impl Session {
    /// Most sessions of one account. A new session takes the place of the one that ends first.
    pub const MOST_PER_ACCOUNT: usize = 500;

    /// Whether the session counts at `now`.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> bool {
        now < self.ends_at
    }
}

/// Keeps the sessions of an installation by the hashes of their tokens.
///
/// **Contract.** It holds for any number of processes over one store: a session that one process began is found by every
/// other, and a session that one process ended counts nowhere. A session is durable before its beginning is answered, and
/// survives a restart. A session is found until its `ends_at`, until it is ended, or until it gives its place to a newer one of
/// its account ([`Session::MOST_PER_ACCOUNT`]). Revoking an API key ends the sessions that were begun with it; suspending an
/// account ends all of its sessions, and they stay ended when it is resumed. Both happen in the change itself
/// ([`crate::AccountAdmin`]). Whether the credential of a session still counts is the caller's question to
/// [`crate::Accounts`].
#[async_trait]
pub trait Sessions: Send + Sync + 'static {
    /// Begins a session. `token` is the hash of a fresh random token; [`AdminError::Taken`] if a session has it,
    /// [`AdminError::NoAccount`] if the account does not exist. Sessions that are over
    /// when this one begins are deleted, and their tokens are free.
    async fn begin(&self, token: KeyHash, session: Session) -> Result<(), AdminError>;

    /// The session of a token, if it counts at `now`.
    async fn find(&self, token: &KeyHash, now: Timestamp)
    -> Result<Option<Session>, AccountsError>;

    /// Ends the session of a token, if there is one.
    async fn end(&self, token: &KeyHash) -> Result<(), AccountsError>;
}
