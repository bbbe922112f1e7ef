//! Who calls: the owner of the key that came with the submission, or else the account whose job it is.

use accounts::{AccountId, AccountsError, Principal};
use engine_native::NodeError;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use identity::IdentityError;
use secrecy::{ExposeSecret, SecretString};

use super::Partners;
use super::problem;

impl Partners {
    /// The principal that a call is made with. A key that counts no more is not replaced by the account's own principal.
    ///
    /// # Errors
    /// If there is none.
    pub(super) async fn payer(
        &self,
        account: &str,
        secret: Option<&SecretString>,
    ) -> Result<Principal, NodeError> {
        let unknown = || {
            let message = "the account of this job may not run anything now";
            NodeError::new("PermissionError", message)
        };
        let away = |error: &AccountsError| {
            let error: &dyn std::error::Error = error;
            tracing::warn!(error, "the caller of a partner node cannot be looked up");
            problem::unusable("the account cannot be looked up now; submit the job again")
        };
        let Some(secret) = secret else {
            let id: AccountId = account.parse().map_err(|_| unknown())?;
            let found = self.accounts.0.by_id(&id).await;
            return found.map_err(|error| away(&error))?.ok_or_else(unknown);
        };
        let refused = || {
            let message = "the key that came with the submission for partner nodes is not valid here; \
                           send a key of this server as `api_key_service_org`, or none";
            NodeError::new("UnauthorizedError", message)
        };
        let bearer = format!("Bearer {}", secret.expose_secret());
        let mut bearer = HeaderValue::try_from(bearer).map_err(|_| refused())?;
        bearer.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        let now = self.caller.clock().now();
        match self.identity.verify_named(&headers, now).await {
            Ok(principal) => Ok(principal),
            Err(IdentityError::Unauthorized) => Err(refused()),
            Err(IdentityError::Accounts(error)) => Err(away(&error)),
        }
    }
}
