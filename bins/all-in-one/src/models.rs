//! Models that run here: a model of the router's catalog whose work is a workflow.
//!
//! A folder whose `partner.toml` says `kind = "workflow"` holds them. A model is a file, the graph that it fills in and the
//! schema of its body; adding one needs no Rust. Its calls are ordinary calls of the router (the same keys, limits and rows)
//! and its runs ordinary jobs of the caller's account. This is the only place that knows both.

mod answer;
mod body;
mod definition;
mod failure;
mod kind;
mod publish;
mod runner;
mod template;

use std::sync::Arc;

use accounts::Accounts;
use asset_store::{Assets, LinkKeys};
use router_server::OwnModels;
use workflow_core::{Jobs, Timer};
use workflow_server::Stack;

pub use kind::WorkflowKind;
use publish::GraphModels;

/// What the runs of models need of an installation of workflows.
#[derive(Clone)]
pub struct Workflows {
    jobs: Jobs,
    assets: Assets,
    accounts: Arc<dyn Accounts>,
    link_keys: Arc<LinkKeys>,
    timer: Arc<dyn Timer>,
    /// What links begin with, without a slash at its end.
    base: String,
}

impl Workflows {
    /// Workflows of a stack, whose links begin with `base`: an absolute address without a slash at its end.
    #[must_use]
    pub fn of(stack: &Stack, base: String) -> Self {
        Self {
            jobs: stack.jobs.clone(),
            assets: stack.assets.clone(),
            accounts: stack.accounts.clone(),
            link_keys: stack.link_keys.clone(),
            timer: stack.timer.clone(),
            base,
        }
    }
}

/// What of a router's models is this program's own: those of folders, and those that operators publish.
pub(crate) fn own(workflows: Workflows) -> OwnModels {
    let kind = WorkflowKind::new(workflows);
    OwnModels {
        graphs: Some(Arc::new(GraphModels::of(&kind))),
        kinds: vec![Arc::new(kind)],
    }
}

impl std::fmt::Debug for Workflows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workflows")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}
