//! What stands behind both ways to operate a server: HTTP and the admin socket.

use std::fmt;

use accounts::{AccountId, KeyId, Principal};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::wire::{Reply, Request};

/// Who operates the installation, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A user of this machine who may read the data directory: through the socket, or with no server at all.
    Local,
    /// The bearer of an API key or a JSON Web Token of this account.
    Bearer {
        /// The account.
        account: AccountId,
        /// The API key; `None` for a token.
        key: Option<KeyId>,
    },
}

/// Carries out what operators ask for.
///
/// **Contract.** A request is carried out whole or not at all, and a change is durable before it is answered. Every change is
/// logged with its actor, whatever came of it, and without any secret.
#[async_trait]
pub trait AdminService: Send + Sync + 'static {
    /// Carries out one request.
    async fn answer(&self, actor: &Actor, request: Request, now: Timestamp) -> Reply;
}

impl Actor {
    pub(crate) fn of(principal: &Principal) -> Self {
        Self::Bearer {
            account: principal.account.clone(),
            key: principal.key.clone(),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("a user of this machine"),
            Self::Bearer {
                account,
                key: Some(key),
            } => write!(f, "key {key} of {account}"),
            Self::Bearer { account, key: None } => write!(f, "a token of {account}"),
        }
    }
}
