//! What a call would cost, told before it is paid: the body is judged as that of a call, and nothing is dispatched or held.

use std::sync::Arc;

use accounts::Principal;
use bytes::Bytes;
use jiff::Timestamp;
use jiff::civil::Date;

use super::is_json;
use super::prepare::{aside, judge};
use crate::router::Purpose;
use crate::{Model, ModelId, Price, Router, RouterError};

/// What a call would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// As far as it is known.
    pub price: Price,
    /// Of which day the partner's prices are, where the definition of the model says.
    pub priced_as_of: Option<Date>,
}

impl Router {
    /// Makes the checks that come before the body of an estimate: rate window, switch, scope, model, entitlement, media type.
    ///
    /// # Errors
    /// With the first check that fails.
    pub async fn open_estimate(
        &self,
        caller: &Principal,
        (provider, model): (&str, &str),
        content_type: Option<&str>,
        now: Timestamp,
    ) -> Result<Arc<Model>, RouterError> {
        self.0.enter(caller, Purpose::View, now).await?;
        let id = ModelId::new(provider, model).ok();
        let found = self.0.find(caller, id.as_ref(), (provider, model), now)?;
        if !content_type.is_none_or(is_json) {
            return Err(RouterError::MediaType);
        }
        Ok(found)
    }

    /// What a call with this body would cost: what would be held for it, by the same rules.
    ///
    /// # Errors
    /// If the body could not be called with.
    pub async fn estimate(&self, model: &Arc<Model>, body: Bytes) -> Result<Estimate, RouterError> {
        let called = Arc::clone(model);
        let judged = aside(&self.0, body.len(), move || judge(&called, &body)).await?;
        judged.settlement?;
        Ok(Estimate {
            price: judged.price,
            priced_as_of: model.provider().priced_as_of(),
        })
    }
}
