//! The catalog: an immutable snapshot of models, and the place where one snapshot replaces another.

mod live;
mod suggestions;

use std::sync::Arc;

use accounts::Entitlements;
use foldhash::HashMap;

use crate::{Model, ModelId};

pub use live::{CatalogFollower, LiveCatalog};
pub use suggestions::nearest;

/// Models by id and in the order of their ids. Never changes; looking up and listing cost the same in a large one.
#[derive(Debug, Default)]
pub struct Catalog {
    by_id: HashMap<ModelId, Arc<Model>>,
    /// By id: the order of pages.
    ordered: Vec<Arc<Model>>,
    /// By the second segment, then the first: for suggestions across providers.
    by_name: Vec<Arc<Model>>,
    /// Models that are there and not offered.
    withheld: HashMap<ModelId, Withheld>,
}

/// Why a model that is there is not offered.
#[derive(Clone, Debug)]
pub enum Withheld {
    /// The operator switched it off. What runs goes on, also after a restart.
    SwitchedOff(Arc<Model>),
    /// Its partner cannot be asked for this reason, which names the variable or file; it is for the operator alone.
    NoCredentials(String),
    /// The operator withdrew it. What runs goes on, also after a restart.
    Withdrawn(Arc<Model>),
}

/// Two models of a catalog have the same id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two models have the id `{0}`")]
pub struct DuplicateModel(pub ModelId);

/// A page of models.
#[derive(Debug)]
pub struct Page {
    /// The models, in the order of their ids.
    pub models: Vec<Arc<Model>>,
    /// Whether others follow.
    pub has_more: bool,
}

impl Catalog {
    /// A catalog of these models.
    ///
    /// # Errors
    /// If two have the same id.
    pub fn new(models: Vec<Arc<Model>>) -> Result<Self, DuplicateModel> {
        let mut by_id = HashMap::default();
        by_id.reserve(models.len());
        for model in &models {
            if by_id
                .insert(model.id().clone(), Arc::clone(model))
                .is_some()
            {
                return Err(DuplicateModel(model.id().clone()));
            }
        }
        let mut ordered = models;
        ordered.sort_by(|a, b| a.id().cmp(b.id()));
        let mut by_name = ordered.clone();
        by_name.sort_by(|a, b| a.id().model().cmp(b.id().model()));
        Ok(Self {
            by_id,
            ordered,
            by_name,
            withheld: HashMap::default(),
        })
    }

    /// The same, with models that are there and not offered: neither listed nor suggested.
    #[must_use]
    pub fn withholding(mut self, withheld: impl IntoIterator<Item = (ModelId, Withheld)>) -> Self {
        self.withheld.extend(withheld);
        self
    }

    /// The same, with models that can be called and are neither listed nor suggested. An id that there is already stays what it is.
    #[must_use]
    pub fn with_unlisted(mut self, models: impl IntoIterator<Item = Arc<Model>>) -> Self {
        for model in models {
            self.by_id.entry(model.id().clone()).or_insert(model);
        }
        self
    }

    /// Why a model is not offered, if it is there all the same.
    #[must_use]
    pub fn withheld(&self, id: &ModelId) -> Option<&Withheld> {
        self.withheld.get(id)
    }

    /// A model by its id, also one that is switched off or withdrawn: for what was dispatched before.
    pub(crate) fn runnable(&self, id: &ModelId) -> Option<&Arc<Model>> {
        let withheld = || match self.withheld.get(id)? {
            Withheld::SwitchedOff(model) | Withheld::Withdrawn(model) => Some(model),
            Withheld::NoCredentials(_) => None,
        };
        self.get(id).or_else(withheld)
    }

    /// A model by its id.
    #[must_use]
    pub fn get(&self, id: &ModelId) -> Option<&Arc<Model>> {
        self.by_id.get(id)
    }

    /// Every model that is listed, in the order of their ids.
    #[must_use]
    pub fn models(&self) -> &[Arc<Model>] {
        &self.ordered
    }

    /// The models behind `after` that the caller may view, at most `limit`.
    #[must_use]
    pub fn page(&self, after: Option<&ModelId>, limit: usize, visible: &Entitlements) -> Page {
        let start = after.map_or(0, |after| {
            self.ordered.partition_point(|model| model.id() <= after)
        });
        let mut rest = self.ordered[start..]
            .iter()
            .filter(|model| is_visible(model.id(), visible));
        let models: Vec<_> = rest.by_ref().take(limit).cloned().collect();
        let has_more = rest.next().is_some();
        Page { models, has_more }
    }

    /// Ids like `text` among the models that the caller may view, at most 3, the closest first.
    #[must_use]
    pub fn suggest(&self, text: &str, visible: &Entitlements) -> Vec<ModelId> {
        suggestions::of(self, text, visible)
    }
}

/// Whether a caller may view and call a model.
pub(crate) fn is_visible(id: &ModelId, visible: &Entitlements) -> bool {
    visible.allow(id.provider(), id.model())
}

#[cfg(test)]
pub(crate) mod tests;
