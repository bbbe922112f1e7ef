//! What a call would cost, told before it is paid: the body is judged as that of a call, and nothing is dispatched or held.

use std::sync::Arc;

use accounts::Principal;
use bytes::Bytes;
use jiff::Timestamp;
use jiff::civil::Date;

use super::is_json;
use super::prepare::judged;
use super::route::Route;
use crate::router::Purpose;
use crate::{Model, ModelId, Price, Router, RouterError};

/// What a call would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// As far as it is known; of a call that names its providers, at the first one.
    pub price: Price,
    /// What would be held for it: of a call that names its providers, for the dearest one.
    pub hold_cents: u64,
    /// Of which day the partner's prices are, where the definition of the model says.
    pub priced_as_of: Option<Date>,
}

/// A model whose price is asked for, and the providers that the question names.
#[derive(Debug)]
pub struct OpenEstimate {
    model: Arc<Model>,
    route: Option<Box<Route>>,
}

impl Router {
    /// Makes the checks that come before the body of an estimate: rate window, switch, scope, model, entitlement, media type,
    /// providers.
    ///
    /// # Errors
    /// With the first check that fails.
    pub async fn open_estimate(
        &self,
        caller: &Principal,
        (provider, model): (&str, &str),
        (query, content_type): (&str, Option<&str>),
        now: Timestamp,
    ) -> Result<OpenEstimate, RouterError> {
        self.0.enter(caller, Purpose::View, now).await?;
        let id = ModelId::new(provider, model).ok();
        let model = self.0.find(caller, id.as_ref(), (provider, model), now)?;
        if !content_type.is_none_or(is_json) {
            return Err(RouterError::MediaType);
        }
        let route = self.0.route(caller, &model, query, now)?;
        Ok(OpenEstimate { model, route })
    }

    /// What a call with this body would cost: what would be held for it, by the same rules.
    ///
    /// # Errors
    /// If the body could not be called with.
    pub async fn estimate(
        &self,
        OpenEstimate { model, route }: &OpenEstimate,
        body: Bytes,
    ) -> Result<Estimate, RouterError> {
        let judged = judged(&self.0, model, route.as_deref(), &body).await?;
        judged.settlement?;
        let first = judged.legs.as_ref().and_then(|legs| legs.first());
        let priced = first.map_or(model, |first| &first.candidate.model);
        Ok(Estimate {
            price: judged.price,
            hold_cents: judged.hold_cents,
            priced_as_of: priced.provider().priced_as_of(),
        })
    }
}
