//! Who is signed in on a web page: a cookie stands for the credential that was shown once.
//!
//! The cookie is a random token and nothing else. What it stands for is in the store, by the token's hash: it survives a
//! restart and holds on every replica. It is looked up for every request, and counts while its credential does. Failed
//! attempts are counted per process: the limit slows guessing down, which keys are too long for anyway.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use accounts::{AccountsError, AdminError, KeyHash, Principal, Sessions};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};

use crate::{Credential, Identity, IdentityError};

/// The cookie's name.
const NAME: &str = "easel_session";

/// How long a session lasts (7 days), however it is used.
const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Failed attempts of one address within a minute.
const MOST_ATTEMPTS: u32 = 10;

/// Addresses whose failed attempts are remembered; while all of them are busy, those of others count as too many.
const MOST_ADDRESSES: usize = 10_000;

/// The sessions of browsers over the store of an installation. Clones are the same.
#[derive(Clone)]
pub struct WebSessions {
    store: Arc<dyn Sessions>,
    attempts: Arc<Mutex<HashMap<IpAddr, Attempts>>>,
}

/// The failed attempts of one address in its current minute.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    began_at: Timestamp,
    count: u32,
}

/// Where a session's cookie is valid.
#[derive(Clone, Copy, Debug)]
pub struct CookieScope<'a> {
    /// The path of the page; empty for the root.
    pub path: &'a str,
    /// Whether the page came over TLS.
    pub secure: bool,
}

impl WebSessions {
    /// The sessions that `store` keeps.
    #[must_use]
    pub fn new(store: Arc<dyn Sessions>) -> Self {
        Self {
            store,
            attempts: Arc::default(),
        }
    }

    /// Begins a session with `credential`, which `identity` verifies, and answers its cookie; `None` if the installation is
    /// open and the credential names nobody, because then a session changes nothing. `token` is random and known to nobody.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`] if the credential does not count; [`IdentityError::Accounts`] if the store cannot
    /// answer.
    pub async fn begin(
        &self,
        identity: &Identity,
        token: &str,
        credential: Credential<'_>,
        scope: CookieScope<'_>,
        now: Timestamp,
    ) -> Result<Option<HeaderValue>, IdentityError> {
        let Some(session) = identity.session_for(credential, LIFETIME, now).await? else {
            return Ok(None);
        };
        let lasts = session.ends_at.duration_since(now).as_secs();
        // Only the hash is kept, so looking one up compares nothing that could be guessed letter by letter.
        let begun = self.store.begin(KeyHash::of(token), session).await;
        begun.map_err(|error| match error {
            AdminError::Unavailable(error) => IdentityError::Accounts(error),
            error @ (AdminError::Taken | AdminError::NoAccount | AdminError::NoKey) => {
                IdentityError::Accounts(AccountsError(Box::new(error)))
            }
        })?;
        Ok(Some(cookie(token, scope, lasts)))
    }

    /// Whose request it is by its cookie; `None` if it has no cookie of a session that is not over.
    ///
    /// # Errors
    /// [`IdentityError::Unauthorized`] if the credential of the session no longer counts; [`IdentityError::Accounts`] if the
    /// store cannot answer.
    pub async fn verify(
        &self,
        identity: &Identity,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Option<Principal>, IdentityError> {
        let Some(token) = token(headers) else {
            return Ok(None);
        };
        let Some(session) = self.store.find(&KeyHash::of(token), now).await? else {
            return Ok(None);
        };
        identity.verify_session(&session, now).await.map(Some)
    }

    /// Ends the session of a request; answers the cookie that takes the old one away.
    ///
    /// # Errors
    /// If the store cannot answer: then the session still counts.
    pub async fn end(&self, headers: &HeaderMap, path: &str) -> Result<HeaderValue, AccountsError> {
        if let Some(token) = token(headers) {
            self.store.end(&KeyHash::of(token)).await?;
        }
        let scope = CookieScope {
            path,
            secure: false,
        };
        Ok(cookie("", scope, 0))
    }

    /// Counts an attempt to sign in that failed; whether the address has made no more of them than it may.
    ///
    /// Only failures are counted, and a right key is never refused for them: behind one address there are many people, and
    /// one of them who tries wrong keys must not lock the others out. Keys are too long to be guessed at any rate.
    #[must_use]
    pub fn failed(&self, address: IpAddr, now: Timestamp) -> bool {
        const MINUTE: SignedDuration = SignedDuration::from_mins(1);
        let is_over = |attempts: &Attempts| now.duration_since(attempts.began_at) >= MINUTE;
        let fresh = Attempts {
            began_at: now,
            count: 0,
        };
        // Every change is one number: a panic elsewhere cannot have left the map half-changed.
        let mut all = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_ADDRESSES {
            all.retain(|_, attempts| !is_over(attempts));
        }
        let address = address.to_canonical();
        if all.len() >= MOST_ADDRESSES && !all.contains_key(&address) {
            return false;
        }
        let attempts = all.entry(address).or_insert(fresh);
        if is_over(attempts) {
            *attempts = fresh;
        }
        attempts.count = attempts.count.saturating_add(1);
        attempts.count <= MOST_ATTEMPTS
    }
}

/// No script may read it, and no page of another site may send it.
fn cookie(token: &str, scope: CookieScope<'_>, seconds: i64) -> HeaderValue {
    let path = if scope.path.is_empty() {
        "/"
    } else {
        scope.path
    };
    let secure = if scope.secure { "; Secure" } else { "" };
    let text = format!(
        "{NAME}={token}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    HeaderValue::from_str(&text).expect("paths and random tokens are plain")
}

/// The token in the cookie of a request; two of them are none.
fn token(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).iter();
    let mut found = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, token)| *name == NAME && !token.is_empty());
    let (_, token) = found.next()?;
    found.next().is_none().then_some(token)
}

impl fmt::Debug for WebSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebSessions")
    }
}

#[cfg(test)]
mod tests;
