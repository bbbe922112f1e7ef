//! Which credentials an installation takes, and whose they are.
//!
//! The standing is looked up anew for every request, so that a change of the account counts at once.

use std::sync::Arc;

use accounts::{AccountId, Accounts, AccountsError, KeyHash, Standing};
use http::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

use crate::presented;

/// Turns the credentials of requests into callers. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    accounts: Arc<dyn Accounts>,
    account: AccountId,
    wanted: Wanted,
}

/// What a request must present.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// Nothing; what is presented is not looked at.
    Nothing,
    /// The one token whose hash this is.
    Token(KeyHash),
}

/// Why there is no caller.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No credential, none that counts, or an account that does not.
    #[error("the credentials are missing or invalid")]
    Unauthorized,
    /// Nobody can tell now.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
}

impl Identity {
    /// Takes every request for one of `account`: the default on loopback (Family B, authentication, rule 3).
    #[must_use]
    pub fn none(accounts: Arc<dyn Accounts>, account: AccountId) -> Self {
        let wanted = Wanted::Nothing;
        Self {
            accounts,
            account,
            wanted,
        }
    }

    /// Takes requests that bear `token` for those of `account`. Only the hash of the token is kept.
    #[must_use]
    pub fn token(accounts: Arc<dyn Accounts>, account: AccountId, token: &SecretString) -> Self {
        let wanted = Wanted::Token(KeyHash::of(token.expose_secret()));
        Self {
            accounts,
            account,
            wanted,
        }
    }

    /// Whose request it is, by its headers.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`], which does not tell why.
    pub async fn verify(&self, headers: &HeaderMap) -> Result<Standing, IdentityError> {
        match self.wanted {
            Wanted::Nothing => {}
            Wanted::Token(hash) => {
                let credential = presented(headers).ok_or(IdentityError::Unauthorized)?;
                // Comparing hashes takes the same time wherever they differ.
                if KeyHash::of(credential.expose()) != hash {
                    return Err(IdentityError::Unauthorized);
                }
            }
        }
        let standing = self.accounts.by_id(&self.account).await?;
        standing.ok_or(IdentityError::Unauthorized)
    }

    /// Whether requests need no credential, so that the address a server listens on is all that guards it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.wanted, Wanted::Nothing)
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("account", &self.account)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
