//! Making a token, for operators: `token issue`.

use accounts::{AccountId, Scope, Scopes};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::{JwtConfig, JwtKey, backend};

/// Why no token can be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// Tokens are signed elsewhere: this installation only has public keys.
    #[error("this installation has public keys only; sign tokens where the private key is")]
    NoSecret,
    /// The backend does not sign.
    #[error("the token cannot be signed")]
    Signing(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Serialize)]
struct Claims<'a> {
    workspace: &'a str,
    scopes: Vec<&'static str>,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

/// Makes a token for `account` that allows `scopes` and counts from `now` for `lifetime`, as `config` takes it.
///
/// # Errors
/// [`IssueError::NoSecret`] where tokens are not signed with a secret.
pub fn issue(
    config: &JwtConfig,
    account: &AccountId,
    scopes: Scopes,
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<SecretString, IssueError> {
    let JwtKey::Secret(secret) = &config.key else {
        return Err(IssueError::NoSecret);
    };
    backend::install().map_err(|error| IssueError::Signing(Box::new(error)))?;
    let allowed = Scope::ALL.into_iter().filter(|scope| scopes.allow(*scope));
    let claims = Claims {
        workspace: account.as_str(),
        scopes: allowed.map(Scope::name).collect(),
        iat: now.as_second(),
        exp: now.as_second().saturating_add(lifetime.as_secs()),
        iss: config.issuer.as_deref(),
        aud: config.audience.as_deref(),
    };
    let key = EncodingKey::from_secret(secret.expose_secret().as_bytes());
    let token = encode(&Header::new(Algorithm::HS256), &claims, &key);
    let token = token.map_err(|error| IssueError::Signing(Box::new(error)))?;
    Ok(token.into())
}
