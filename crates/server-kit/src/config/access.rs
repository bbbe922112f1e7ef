//! Whom a server lets in: the keys about credentials, and the verifier that they come to.

use std::path::PathBuf;
use std::sync::Arc;

use accounts::{AccountId, Accounts};
use identity::{
    Credentials, FEWEST_SECRET_BYTES, Identity, Jwt, JwtConfig, JwtKey, JwtSetupError,
    PublicKeyAlgorithm,
};
use secrecy::{ExposeSecret, SecretString};

use super::server::{unset, value};
use super::{ConfigError, Key, Kind, Settings, Value};

/// Whom a server lets in, besides those with an API key.
#[derive(Clone, Debug)]
pub struct Access {
    /// Whether requests without a credential are taken for those of the account `local`.
    pub anonymous: bool,
    /// The token of the installation, which stands for the account `local`.
    pub token: Option<SecretString>,
    /// Which JSON Web Tokens are taken.
    pub jwt: Option<JwtConfig>,
}

/// The secret that tokens are signed with.
struct JwtSecret(SecretString);

pub(super) const TOKEN: Key = Key {
    secret: true,
    ..unset(
        "token",
        "TOKEN",
        "Bearer token that every request must carry; the variable keeps it out of process lists",
    )
};
pub(super) const INSECURE: Key = Key {
    kind: Kind::Switch,
    ..value(
        "insecure_no_auth",
        "",
        "false",
        "Allows listening on a network address without credentials",
    )
};
pub(super) const REQUIRE: Key = Key {
    kind: Kind::Switch,
    ..value(
        "require_credentials",
        "",
        "false",
        "Requires a token or an API key of every request, on loopback too",
    )
};
pub(super) const JWT_SECRET: Key = Key {
    secret: true,
    ..unset(
        "jwt_secret",
        "SECRET",
        "Takes JSON Web Tokens signed with this secret (HS256), of at least 32 bytes",
    )
};
pub(super) const JWT_KEYS: Key = unset(
    "jwt_keys",
    "FILE",
    "Takes JSON Web Tokens of these public keys: one in PEM form, or a set (JWKS); read again when it changes",
);
pub(super) const JWT_ALGORITHM: Key = value(
    "jwt_algorithm",
    "ALGORITHM",
    "RS256",
    "The algorithm of `jwt_keys`: RS256, ES256 or EdDSA",
);
pub(super) const JWT_ISSUER: Key = unset(
    "jwt_issuer",
    "TEXT",
    "The issuer (`iss`) that JSON Web Tokens must have",
);
pub(super) const JWT_AUDIENCE: Key = unset(
    "jwt_audience",
    "TEXT",
    "The audience (`aud`) that JSON Web Tokens must name",
);

/// The keys that settle [`Access::credentials`]; those that settle whether any is needed are among them.
pub(crate) const ACCESS_KEYS: &[&str] = &[
    TOKEN.name,
    JWT_SECRET.name,
    JWT_KEYS.name,
    JWT_ALGORITHM.name,
    JWT_ISSUER.name,
    JWT_AUDIENCE.name,
];

impl Access {
    /// Reads the keys about credentials.
    pub(crate) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let token = settings.read_optional(TOKEN.name)?;
        let secret: Option<JwtSecret> = settings.read_optional(JWT_SECRET.name)?;
        let keys: Option<PathBuf> = settings.read_optional(JWT_KEYS.name)?;
        let algorithm: PublicKeyAlgorithm = settings.read(JWT_ALGORITHM.name)?;
        let issuer = settings.read_optional(JWT_ISSUER.name)?;
        let audience = settings.read_optional(JWT_AUDIENCE.name)?;
        let key = match (secret, keys) {
            (Some(_), Some(_)) => return Err(ConfigError::TwoKeys),
            (Some(JwtSecret(secret)), None) => Some(JwtKey::Secret(secret)),
            (None, Some(path)) => Some(JwtKey::File { algorithm, path }),
            (None, None) => None,
        };
        let jwt = key.map(|key| JwtConfig {
            key,
            issuer,
            audience,
        });
        let required: bool = settings.read(REQUIRE.name)?;
        Ok(Self {
            anonymous: token.is_none() && jwt.is_none() && !required,
            token,
            jwt,
        })
    }

    /// The verifier, over the keys in `accounts`.
    ///
    /// # Errors
    /// If there is nothing to verify JSON Web Tokens with.
    pub fn identity(&self, accounts: Arc<dyn Accounts>) -> Result<Identity, JwtSetupError> {
        Ok(Identity::new(accounts, self.credentials()?))
    }

    /// The credentials that count. It reads the file of keys.
    ///
    /// # Errors
    /// If there is nothing to verify JSON Web Tokens with.
    pub(crate) fn credentials(&self) -> Result<Credentials, JwtSetupError> {
        let jwt = self.jwt.clone().map(Jwt::new).transpose()?;
        Ok(Credentials {
            anonymous: self.anonymous.then(AccountId::local),
            token: self.token.clone().map(|token| (token, AccountId::local())),
            jwt: jwt.map(Arc::new),
        })
    }
}

impl Value for JwtSecret {
    const ALLOWED: &'static str = "a text of at least 32 bytes";

    fn read(text: &str) -> Option<Self> {
        (text.len() >= FEWEST_SECRET_BYTES).then(|| Self(text.into()))
    }

    fn show(&self) -> String {
        let Self(secret) = self;
        SecretString::from(secret.expose_secret()).show()
    }
}

impl Value for PublicKeyAlgorithm {
    const ALLOWED: &'static str = "RS256, ES256 or EdDSA";

    fn read(text: &str) -> Option<Self> {
        let all = [Self::Rs256, Self::Es256, Self::EdDsa];
        all.into_iter()
            .find(|algorithm| algorithm.to_string() == text)
    }

    fn show(&self) -> String {
        super::value::quoted(&self.to_string())
    }
}
