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
    /// None.
    None {},
}

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SecretRef {
    /// In a variable of the environment.
    Env(String),
    /// In a file, whose last line end does not count.
    File(PathBuf),
}

fn half_an_hour() -> u32 {
    Duration::from_secs(30 * 60).as_secs() as u32
}

impl Auth {
    /// Every secret that it takes.
    #[must_use]
    pub(crate) fn secrets(&self) -> Vec<&SecretRef> {
        match self {
            Self::Bearer { secret } | Self::Header { secret, .. } | Self::Query { secret, .. } => {
                vec![secret]
            }
            Self::Basic { user, secret } => vec![user, secret],
            Self::Hs256Jwt { issuer, secret, .. } => vec![issuer, secret],
            Self::None {} => Vec::new(),
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
