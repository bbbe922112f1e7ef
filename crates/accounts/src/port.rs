//! The port through which credentials become accounts.

use async_trait::async_trait;

use crate::{AccountId, KeyHash, Standing};

/// The account store cannot answer now.
#[derive(Debug, thiserror::Error)]
#[error("the account store is unavailable")]
pub struct AccountsError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Looks up accounts.
///
/// **Contract.** Both answers are `None` for what does not exist, was revoked, has expired or is suspended, and do not tell
/// which. An answer is never older than the last change that the same process made.
#[async_trait]
pub trait Accounts: Send + Sync + 'static {
    /// The standing that an API key gives.
    async fn by_key(&self, key: &KeyHash) -> Result<Option<Standing>, AccountsError>;

    /// The full standing of an account that a verified token or the installation itself names.
    async fn by_id(&self, id: &AccountId) -> Result<Option<Standing>, AccountsError>;
}
