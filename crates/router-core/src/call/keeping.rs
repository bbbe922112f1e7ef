//! What is to be kept of a result: decided once its work has ended, and written down with the end.

use super::execution::Dispatch;
use super::prepare::aside;
use super::settlement::Settlement;
use crate::router::Inner;
use crate::{ResultLink, Router};

/// Whether the results of a generation are to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// As its caller has it.
    Known(bool),
    /// As its account has it: it was taken over, and its caller is gone.
    OfAccount,
}

/// The results to keep of work that has ended.
pub(super) async fn links(
    router: &Inner,
    dispatch: &Dispatch,
    settlement: &Settlement,
) -> Vec<ResultLink> {
    let files = dispatch.model.files();
    let Some(answer) = settlement.answer().filter(|_| !files.is_empty()) else {
        return Vec::new();
    };
    let keeps = match dispatch.keeping {
        Keeping::Known(keeps) => keeps,
        Keeping::OfAccount => of_account(router, dispatch).await,
    };
    if !keeps {
        return Vec::new();
    }
    let (model, body) = (dispatch.model.clone(), answer.body.clone());
    let found = aside(router, body.len(), move || model.files().links(&body)).await;
    // The answer is the caller's whether its files can be kept or not.
    found.unwrap_or_default()
}

async fn of_account(router: &Inner, dispatch: &Dispatch) -> bool {
    let found = router
        .ports
        .accounts
        .by_id(&dispatch.generation.account)
        .await;
    match found {
        Ok(caller) => caller.is_some_and(|caller| caller.tier.router.keep_results),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(generation.id = %dispatch.generation.id, error, "the account of a call cannot be looked up; its results are not kept");
            false
        }
    }
}

impl Router {
    /// Completes when results of a call that ended here are to be fetched.
    pub async fn results_arrive(&self) {
        self.0.results.notified().await;
    }
}
