//! What a token must say, and what it may.
//!
//! `exp` and `workspace` must be there; `iss` and `aud` must be the configured ones, and a token that names an audience is
//! for nobody here when none is configured (RFC 7519, 4.1.3). Unknown claims and scopes are passed over: they are other
//! services' business.

use accounts::{AccountId, Scope, Scopes};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::Claimed;

/// How far two clocks may differ.
const LEEWAY: SignedDuration = SignedDuration::from_secs(30);

/// The claims that are read, as they came.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    exp: Seconds,
    #[serde(default)]
    nbf: Option<Seconds>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    aud: Option<OneOrMany>,
    workspace: String,
    #[serde(default)]
    scopes: Option<OneOrMany>,
}

/// A moment as tokens write it: seconds since 1970, whole or not.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Seconds {
    Whole(i64),
    Broken(f64),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Why a token with a good signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClaimFault {
    #[error("the token has expired")]
    Expired,
    #[error("the token does not count yet")]
    Early,
    #[error("a time in the token is no moment before the year 10000")]
    Time,
    #[error("the token is of another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the claim `workspace` is no account id")]
    Workspace,
}

impl Claims {
    /// What the claims come to, whenever they count.
    pub(super) fn read(
        &self,
        issuer: Option<&str>,
        audience: Option<&str>,
    ) -> Result<Claimed, ClaimFault> {
        if issuer.is_some() && self.iss.as_deref() != issuer {
            return Err(ClaimFault::Issuer);
        }
        let meant = match (&self.aud, audience) {
            (None, None) => true,
            (Some(named), Some(audience)) => named.texts().any(|name| name == audience),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !meant {
            return Err(ClaimFault::Audience);
        }
        let from = match self.nbf {
            Some(nbf) => nbf.moment()? - LEEWAY,
            None => Timestamp::MIN,
        };
        let account: AccountId = self.workspace.parse().map_err(|_| ClaimFault::Workspace)?;
        Ok(Claimed {
            account,
            scopes: self.scopes(),
            from,
            until: self.exp.moment()? + LEEWAY,
        })
    }

    fn scopes(&self) -> Scopes {
        let named = |name: &str| Scope::ALL.into_iter().find(|scope| scope.name() == name);
        let texts = self.scopes.iter().flat_map(OneOrMany::texts);
        texts
            .flat_map(str::split_ascii_whitespace)
            .filter_map(named)
            .collect()
    }
}

impl Claimed {
    /// Whether the token counts at `now`.
    pub(super) fn at(&self, now: Timestamp) -> Result<(), ClaimFault> {
        if now >= self.until {
            return Err(ClaimFault::Expired);
        }
        if now < self.from {
            return Err(ClaimFault::Early);
        }
        Ok(())
    }
}

impl Seconds {
    /// From 1970 to the end of the year 9999; a second that has begun counts.
    fn moment(self) -> Result<Timestamp, ClaimFault> {
        const END: i64 = 253_402_300_799;
        let seconds = match self {
            Self::Whole(seconds) => seconds,
            // Whatever is no number or out of range becomes a bound or 0, and only what is in range passes.
            Self::Broken(seconds) if seconds.is_finite() => seconds.floor() as i64,
            Self::Broken(_) => return Err(ClaimFault::Time),
        };
        // The leeway must fit behind it.
        if !(0..=END - LEEWAY.as_secs()).contains(&seconds) {
            return Err(ClaimFault::Time);
        }
        Timestamp::from_second(seconds).map_err(|_| ClaimFault::Time)
    }
}

impl OneOrMany {
    fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts.as_slice(),
        };
        texts.iter().map(String::as_str)
    }
}
