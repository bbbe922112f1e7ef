//! How a partner wants to be shown a credential, and where the credential is kept. Never the credential itself.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::partner::CredentialHeader;

/// The kind of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Auth {
    /// `Authorization: Bearer` and the key.
    Bearer {
        /// The key.
        secret: SecretRef,
    },
    /// A header of the partner's own.
    Header {
        /// Its name.
        name: CredentialHeader,
        /// What stands before the key.
        #[serde(default)]
        prefix: String,
        /// The key.
        secret: SecretRef,
    },
    /// A parameter of the query.
    Query {
        /// Its name.
        name: String,
        /// The key.
        secret: SecretRef,
    },
    /// `Authorization: Basic`.
    Basic {
        /// The user.
        user: SecretRef,
        /// The password.
        secret: SecretRef,
    },
    /// A bearer token, signed anew for every request, that names the access key as its issuer.
    Hs256Jwt {
        /// The access key.
        issuer: SecretRef,
        /// What signs.
        secret: SecretRef,
        /// How long a token is good, in seconds.
        #[serde(default = "half_an_hour")]
        lifetime_s: u32,
    },
    /// A signature over the request (`TC3-HMAC-SHA256`), made anew for every request.
    Tc3HmacSha256 {
        /// Names the key; it is sent with the signature.
        id: SecretRef,
        /// The key, which is never sent.
        secret: SecretRef,
        /// The service that the signature is for.
        service: String,
    },
    /// None.
    None {},
}

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub(crate) enum SecretRef {
    /// In a variable of the environment.
    Env(String),
    /// In a file, whose last line end does not count.
    File(PathBuf),
}

impl TryFrom<toml::Value> for SecretRef {
    type Error = &'static str;

    /// By hand, because what serde says of a text in the wrong place repeats it.
    fn try_from(written: toml::Value) -> Result<Self, &'static str> {
        const PLACES: &str = "a secret is { env = \"NAME\" } or { file = \"/path\" }, and never stands in the catalog itself";
        let place = written.as_table().filter(|table| table.len() == 1);
        let (place, name) = place.and_then(|table| table.iter().next()).ok_or(PLACES)?;
        match (place.as_str(), name.as_str()) {
            ("env", Some(name)) => Ok(Self::Env(name.to_owned())),
            ("file", Some(path)) => Ok(Self::File(path.into())),
            _ => Err(PLACES),
        }
    }
}

fn half_an_hour() -> u32 {
    Duration::from_secs(30 * 60).as_secs() as u32
}

impl Auth {
    /// Every secret that it takes.
    #[must_use]
    pub(crate) fn secrets(&self) -> Vec<SecretRef> {
        let mut auth = self.clone();
        auth.secrets_mut()
            .into_iter()
            .map(|it| it.clone())
            .collect()
    }

    /// The same with the secrets of the key of this number, from 1 on.
    #[must_use]
    pub(crate) fn numbered(&self, number: u8) -> Self {
        let mut auth = self.clone();
        for secret in auth.secrets_mut() {
            *secret = secret.numbered(number);
        }
        auth
    }

    fn secrets_mut(&mut self) -> Vec<&mut SecretRef> {
        match self {
            Self::Bearer { secret } | Self::Header { secret, .. } | Self::Query { secret, .. } => {
                vec![secret]
            }
            Self::Basic { user, secret } => vec![user, secret],
            Self::Hs256Jwt { issuer, secret, .. } => vec![issuer, secret],
            Self::Tc3HmacSha256 { id, secret, .. } => vec![id, secret],
            Self::None {} => Vec::new(),
        }
    }
}

impl SecretRef {
    /// Where the same secret of another key is kept: `_2` and so on is behind the name of the variable or file. The first key
    /// has no number.
    fn numbered(&self, number: u8) -> Self {
        if number == 1 {
            return self.clone();
        }
        match self {
            Self::Env(name) => Self::Env(format!("{name}_{number}")),
            Self::File(path) => Self::File(format!("{}_{number}", path.display()).into()),
        }
    }
}

impl std::fmt::Display for SecretRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Env(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_stands_elsewhere_and_a_refusal_does_not_repeat_it() {
        let auth = |secret: &str| {
            let text = format!("kind = \"bearer\"\nsecret = {secret}");
            toml::from_str::<Auth>(&text)
        };
        assert!(auth("{ env = \"KEY\" }").is_ok());
        assert!(auth("{ file = \"/run/key\" }").is_ok());
        for other in [
            "\"hunter2\"",
            "[\"hunter2\"]",
            "{ env = [\"hunter2\"] }",
            "{ value = \"hunter2\" }",
            "{ env = \"A\", file = \"B\" }",
            "{}",
            "7",
        ] {
            let refused = auth(other).expect_err(other);
            assert!(refused.message().starts_with("a secret is "), "{refused}");
            assert!(!refused.message().contains("hunter2"), "{refused}");
        }
    }
}
