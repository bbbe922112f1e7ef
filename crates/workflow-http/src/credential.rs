//! Whose request it is, and whether that still holds while its stream or socket is open.
//!
//! A stream outlives the request that opened it by hours. What was presented is verified again as often as a socket is pinged, so
//! that a key that was revoked, a session that ended and an account that was suspended hear no more.

use std::time::Duration;

use accounts::{AccountId, Principal, Scope};
use futures_util::FutureExt;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper_kit::SocketLimits;
use identity::{Credential, Identity, IdentityError, Presented, WebSessions, presented};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use tokio::time::{Instant, sleep_until, timeout};

/// How often an open stream is asked about.
const VERIFIED_EVERY: Duration = SocketLimits::DEFAULT.ping;

/// How long an event stream waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The headers in which a request says whose it is, besides the cookie of a page.
const PRESENTED: [HeaderName; 2] = [AUTHORIZATION, HeaderName::from_static("x-api-key")];

/// A header that a request presented: copied, so that it keeps nothing else of what was read with it, and wiped with the stream.
type Kept = (HeaderName, SecretSlice<u8>);

/// What an open stream was opened with.
pub(crate) struct StreamCredential {
    identity: Identity,
    sessions: Option<WebSessions>,
    token: Option<SecretString>,
    headers: Vec<Kept>,
    account: AccountId,
    scope: Scope,
    verified_next: Instant,
}

/// Whose request it is: by the token of its query, else by its headers, else by its cookie where those count.
pub(crate) async fn verify(
    identity: &Identity,
    sessions: Option<&WebSessions>,
    token: Option<&str>,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<Principal, IdentityError> {
    if let Some(token) = token {
        let credential = Credential::new(token);
        return identity.verify_presented(credential, now).await;
    }
    // What a request shows itself counts before what a browser adds to each.
    if let Some(sessions) = sessions
        && matches!(presented(headers), Presented::Nothing)
        && let Some(principal) = sessions.verify(identity, headers, now).await?
    {
        return Ok(principal);
    }
    identity.verify(headers, now).await
}

impl StreamCredential {
    /// Takes down what a request presented that is `principal`'s.
    pub(crate) fn new(
        identity: &Identity,
        headers: &HeaderMap,
        principal: &Principal,
        scope: Scope,
    ) -> Self {
        Self {
            identity: identity.clone(),
            sessions: None,
            token: None,
            headers: kept(headers, PRESENTED),
            account: principal.account.clone(),
            scope,
            verified_next: Instant::now() + VERIFIED_EVERY,
        }
    }

    /// Completes when it is to be verified again.
    pub(crate) async fn due(&self) {
        sleep_until(self.verified_next).await;
    }

    /// Whether it still counts, as far as that was to be verified by now.
    pub(crate) async fn holds(&mut self, now: Timestamp) -> bool {
        if Instant::now() < self.verified_next {
            return true;
        }
        self.verified_next = Instant::now() + VERIFIED_EVERY;
        // A store that hangs ends nothing, and is not waited for.
        let counts = timeout(PATIENCE, self.counts(now)).await;
        counts.unwrap_or(true)
    }

    /// The same, where a cookie or the token of the query may have been presented.
    pub(crate) fn or(
        mut self,
        headers: &HeaderMap,
        sessions: &WebSessions,
        token: Option<&str>,
    ) -> Self {
        self.headers.extend(kept(headers, [COOKIE]));
        Self {
            sessions: Some(sessions.clone()),
            token: token.map(SecretString::from),
            ..self
        }
    }

    /// Whether it still counts. A store that cannot tell ends nothing.
    pub(crate) async fn counts(&self, now: Timestamp) -> bool {
        let (sessions, token) = (self.sessions.as_ref(), self.token.as_ref());
        let token = token.map(ExposeSecret::expose_secret);
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let value = HeaderValue::from_bytes(value.expose_secret());
            let mut value = value.expect("it came as one");
            value.set_sensitive(true);
            headers.append(name.clone(), value);
        }
        // On the heap for as long as it is asked: a stream waits for hours, and is asked about in moments.
        let verified = verify(&self.identity, sessions, token, &headers, now);
        match verified.boxed().await {
            Ok(principal) => {
                principal.account == self.account && principal.scopes.allow(self.scope)
            }
            Err(IdentityError::Unauthorized) => false,
            Err(IdentityError::Accounts(_)) => true,
        }
    }
}

fn kept(headers: &HeaderMap, names: impl IntoIterator<Item = HeaderName>) -> Vec<Kept> {
    let mut kept = Vec::new();
    for name in names {
        let values = headers.get_all(&name).iter();
        kept.extend(values.map(|value| (name.clone(), value.as_bytes().to_vec().into())));
    }
    kept
}
