//! Which credentials an installation takes, and whose they are: one verifier for every family.
//!
//! The principal is looked up anew for every request, so that a change of the account, a revoked key or a suspension counts
//! at once. What a token says is all that is remembered between requests.

use std::sync::{Arc, PoisonError, RwLock};

use accounts::{
    AccountId, Accounts, AccountsError, ApiKey, KeyHash, Principal, Scopes, Session, SessionSource,
};
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use crate::{Credential, Jwt, Presented, presented};

/// Turns the credentials of requests into callers. Cheap to clone; clones stay the same when the credentials are replaced.
#[derive(Clone)]
pub struct Identity {
    accounts: Arc<dyn Accounts>,
    accepted: Arc<RwLock<Arc<Accepted>>>,
}

/// What counts besides the keys of the account store.
#[derive(Debug)]
struct Accepted {
    /// Whose requests without a credential are, where those are taken.
    anonymous: Option<AccountId>,
    /// The token of the installation, by its hash, and whose requests bear it.
    token: Option<(KeyHash, AccountId)>,
    jwt: Option<Arc<Jwt>>,
}

/// Which credentials count besides the keys of the account store.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The account of requests that present none: the default on loopback (Family B, authentication, rule 3).
    pub anonymous: Option<AccountId>,
    /// One token of the whole installation, and the account it stands for. Only its hash is kept.
    pub token: Option<(SecretString, AccountId)>,
    /// JSON Web Tokens.
    pub jwt: Option<Arc<Jwt>>,
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
    /// Takes the keys in `accounts`, and `credentials`.
    #[must_use]
    pub fn new(accounts: Arc<dyn Accounts>, credentials: Credentials) -> Self {
        let accepted = Arc::new(Accepted::of(credentials));
        Self {
            accounts,
            accepted: Arc::new(RwLock::new(accepted)),
        }
    }

    /// Takes `credentials` in place of those before, from the next request on. Sessions of a token or a JSON Web Token that no
    /// longer counts end with it; keys of the account store are not concerned.
    pub fn replace(&self, credentials: Credentials) {
        let accepted = Arc::new(Accepted::of(credentials));
        *self
            .accepted
            .write()
            .unwrap_or_else(PoisonError::into_inner) = accepted;
    }

    /// Takes every request that claims to be nobody's in particular for one of `account`.
    #[must_use]
    pub fn none(accounts: Arc<dyn Accounts>, account: AccountId) -> Self {
        let credentials = Credentials {
            anonymous: Some(account),
            ..Credentials::default()
        };
        Self::new(accounts, credentials)
    }

    /// Takes requests that bear `token` for those of `account`, and none without a credential.
    #[must_use]
    pub fn token(accounts: Arc<dyn Accounts>, account: AccountId, token: &SecretString) -> Self {
        let credentials = Credentials {
            token: Some((token.clone(), account)),
            ..Credentials::default()
        };
        Self::new(accounts, credentials)
    }

    /// Whose request it is, by its headers; that of the anonymous account where there is one and nothing is presented that
    /// claims to be more.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`], which does not tell why.
    pub async fn verify(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Principal, IdentityError> {
        let credential = match presented(headers) {
            Presented::Nothing => None,
            Presented::Credential(credential) => Some(credential),
            Presented::Unreadable if self.is_open() => None,
            Presented::Unreadable => return Err(IdentityError::Unauthorized),
        };
        self.verify_presented(credential, now).await
    }

    /// Whose request it is, never anonymous: Family A takes credentials only.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`], which does not tell why.
    pub async fn verify_named(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Principal, IdentityError> {
        self.verify_named_by(&self.accepted(), headers, now).await
    }

    async fn verify_named_by(
        &self,
        accepted: &Accepted,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Principal, IdentityError> {
        let Presented::Credential(credential) = presented(headers) else {
            return Err(IdentityError::Unauthorized);
        };
        let principal = self.named(accepted, credential, now).await?;
        principal.ok_or(IdentityError::Unauthorized)
    }

    /// As [`Identity::verify_named`], for what operates the installation: the one token of the installation does not allow
    /// that, because everybody who uses the installation has it.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`], which does not tell why.
    pub async fn verify_operator(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Principal, IdentityError> {
        // One look for both questions: a token that is replaced between them must not pass as no token.
        let accepted = self.accepted();
        let principal = self.verify_named_by(&accepted, headers, now).await?;
        let is_token = match (presented(headers), &accepted.token) {
            (Presented::Credential(credential), Some((token, _))) => {
                KeyHash::of(credential.expose()) == *token
            }
            (Presented::Credential(_) | Presented::Nothing | Presented::Unreadable, _) => false,
        };
        if !is_token {
            return Ok(principal);
        }
        let scopes = principal.scopes.and(Scopes::standard());
        Ok(Principal {
            scopes,
            ..principal
        })
    }

    /// As [`Identity::verify`], for a credential that came another way than in a header.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`], which does not tell why.
    pub async fn verify_presented(
        &self,
        credential: Option<Credential<'_>>,
        now: Timestamp,
    ) -> Result<Principal, IdentityError> {
        // The same for the whole of a request, whatever is replaced meanwhile.
        let accepted = self.accepted();
        if let Some(credential) = credential {
            if let Some(principal) = self.named(&accepted, credential, now).await? {
                return Ok(principal);
            }
            // Clients of an open installation send whatever they were given; but a key or a token that counts no more must
            // not quietly turn into the anonymous account.
            if accepted.claims_to_be_named(credential) {
                return Err(IdentityError::Unauthorized);
            }
        }
        let anonymous = accepted
            .anonymous
            .as_ref()
            .ok_or(IdentityError::Unauthorized)?;
        let principal = self.accounts.by_id(anonymous).await?;
        principal.ok_or(IdentityError::Unauthorized)
    }

    /// What a session stands for that is begun with `credential` and lasts `lifetime`, or as long as the token if that is
    /// shorter; `None` if the credential names nobody and the installation needs none.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`] as [`Identity::verify_presented`].
    pub async fn session_for(
        &self,
        credential: Credential<'_>,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<Option<Session>, IdentityError> {
        let accepted = self.accepted();
        let Some(principal) = self.named(&accepted, credential, now).await? else {
            self.verify_presented(Some(credential), now).await?;
            return Ok(None);
        };
        let text = credential.expose();
        let hash = KeyHash::of(text);
        let latest = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        let is_hashed = ApiKey::is_spelled(text)
            || (accepted.token.as_ref()).is_some_and(|(token, _)| *token == hash);
        let (source, ends_at) = if is_hashed {
            (SessionSource::Credential(hash), latest)
        } else {
            let verified = accepted
                .jwt
                .as_ref()
                .and_then(|jwt| jwt.verify_with_key(text, now));
            let (claimed, key) = verified.ok_or(IdentityError::Unauthorized)?;
            let scopes = claimed.scopes;
            (
                SessionSource::Jwt { scopes, key },
                latest.min(claimed.until),
            )
        };
        Ok(Some(Session {
            account: principal.account,
            source,
            began_at: now,
            ends_at,
        }))
    }

    /// Whose request it is that bears the token of `session`. The session counts while its credential does.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`] if the session or its credential no longer counts.
    pub async fn verify_session(
        &self,
        session: &Session,
        now: Timestamp,
    ) -> Result<Principal, IdentityError> {
        if !session.counts(now) {
            return Err(IdentityError::Unauthorized);
        }
        let accepted = self.accepted();
        let principal = match &session.source {
            SessionSource::Credential(hash) => match &accepted.token {
                Some((token, account)) if token == hash => self.accounts.by_id(account).await?,
                Some(_) | None => self.accounts.by_key(hash, now).await?,
            },
            SessionSource::Jwt { scopes, key } => {
                let accepts = |jwt: &Arc<Jwt>| jwt.accepts_key(key);
                if !accepted.jwt.as_ref().is_some_and(accepts) {
                    return Err(IdentityError::Unauthorized);
                }
                let principal = self.accounts.by_id(&session.account).await?;
                principal.map(|principal| Principal {
                    scopes: principal.scopes.and(*scopes),
                    ..principal
                })
            }
        };
        principal
            .filter(|principal| principal.account == session.account)
            .ok_or(IdentityError::Unauthorized)
    }

    /// Whether requests need no credential, so that the address a server listens on is all that guards it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.accepted().anonymous.is_some()
    }

    /// Reads the keys of tokens again if their file changed. It touches the disk.
    pub fn refresh_keys(&self) {
        if let Some(jwt) = &self.accepted().jwt {
            jwt.refresh();
        }
    }

    fn accepted(&self) -> Arc<Accepted> {
        // Every change is one assignment.
        let accepted = self.accepted.read();
        Arc::clone(&accepted.unwrap_or_else(PoisonError::into_inner))
    }

    async fn named(
        &self,
        accepted: &Accepted,
        credential: Credential<'_>,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError> {
        let text = credential.expose();
        // Comparing hashes takes the same time wherever they differ.
        if let Some((hash, account)) = &accepted.token
            && KeyHash::of(text) == *hash
        {
            return self.accounts.by_id(account).await;
        }
        if ApiKey::is_spelled(text) {
            return self.accounts.by_key(&KeyHash::of(text), now).await;
        }
        let Some(claimed) = accepted.jwt.as_ref().and_then(|jwt| jwt.verify(text, now)) else {
            return Ok(None);
        };
        let principal = self.accounts.by_id(&claimed.account).await?;
        Ok(principal.map(|principal| Principal {
            scopes: principal.scopes.and(claimed.scopes),
            ..principal
        }))
    }
}

impl Accepted {
    fn of(credentials: Credentials) -> Self {
        let hashed = |(token, account): (SecretString, AccountId)| {
            (KeyHash::of(token.expose_secret()), account)
        };
        Self {
            anonymous: credentials.anonymous,
            token: credentials.token.map(hashed),
            jwt: credentials.jwt,
        }
    }

    fn claims_to_be_named(&self, credential: Credential<'_>) -> bool {
        let text = credential.expose();
        let parts = text.split('.').count();
        ApiKey::is_spelled(text) || (self.jwt.is_some() && parts == 3)
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("accepted", &self.accepted())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
