//! Models that operators publish: the versions that an installation has, and what may become of them.
//!
//! A version is a row. What it is made of is a text that only its maker reads. The newest version that is not withdrawn is
//! offered under the name; each version can also be called under an id of its own. All changes go through [`Published`], which
//! decides, and through the port [`PublishedModels`], which writes a change only if nobody wrote another one meanwhile.

mod cycle;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::{CallsError, ModelId};

pub use memory::MemoryPublishedModels;

/// Most versions that an installation has, withdrawn ones included.
pub const MOST_VERSIONS: usize = 1_000;

/// Most bytes of the texts of all versions: every replica has them in memory.
pub const MOST_TEXT_BYTES: usize = 64 << 20;

/// How long a withdrawn version is kept for calls that run, before a new version may take its place.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

/// What stands between the name of a model and the number of a version in the id of the version.
const VERSION_MARK: &str = ".v";

/// A version of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedVersion {
    /// The model.
    pub model: ModelId,
    /// The number of the version, from 1 on.
    pub version: u32,
    /// What it is made of.
    pub text: Arc<str>,
    /// The models that it calls while it runs.
    pub calls: BTreeSet<ModelId>,
    /// When it was published.
    pub published_at: Timestamp,
    /// Since when it cannot be called any more.
    pub withdrawn_at: Option<Timestamp>,
}

/// All versions of an installation.
#[derive(Clone, Debug, Default)]
pub struct Published {
    revision: u64,
    versions: BTreeMap<(ModelId, u32), PublishedVersion>,
}

/// A change, to be written whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedChange {
    /// The change before it: it is written only after this one.
    pub after: u64,
    /// Versions that are new, or take the place of what was written of them.
    pub write: Vec<PublishedVersion>,
    /// Versions that are deleted.
    pub forget: Vec<(ModelId, u32)>,
}

/// What publishing comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// The version that is offered says the same: nothing is to be done.
    Unchanged(u32),
    /// A new version.
    New(PublishedChange),
}

/// Why a change is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The name is one that versions have, or leaves no room for their numbers.
    #[error(
        "{0} cannot be published: a name does not end with `.v` and a number, which stands for a version, and has at most 116 characters behind the slash"
    )]
    Name(ModelId),
    /// A model would call itself.
    #[error(
        "the models would call each other without end: {}; take the node of one of them out of its graph", shown(.0)
    )]
    Cycle(Vec<ModelId>),
    /// There is no room for another version.
    #[error(
        "the installation has as many published versions as it may, which is {MOST_VERSIONS} with at most {} MiB; withdraw versions that nobody calls, which make room after a day", MOST_TEXT_BYTES >> 20
    )]
    Full,
    /// There is no such model.
    #[error("no model {0} was published here; `model list` shows those that were")]
    NoModel(ModelId),
    /// There is no such version.
    #[error("{0} has no version {1}; `model show {0}` lists its versions")]
    NoVersion(ModelId, u32),
}

/// The rows of published versions.
///
/// **Contract.** Holds for any number of replicas over one store. Every method is one transaction, and what it writes is on disk
/// when it returns. Changes are numbered from 1 on without gaps; `save` writes a change only as the one behind `change.after`, and
/// answers `false` without writing anything if there is another one by now. Texts are never interpreted.
#[async_trait]
pub trait PublishedModels: Send + Sync + 'static {
    /// The number of the newest change; 0 before the first.
    async fn revision(&self) -> Result<u64, CallsError>;

    /// Every version, as of one change.
    async fn load(&self) -> Result<Published, CallsError>;

    /// Writes a change.
    async fn save(&self, change: &PublishedChange) -> Result<bool, CallsError>;
}

impl PublishedVersion {
    /// The id under which this version alone is called.
    ///
    /// # Panics
    /// Never: [`Published::publish`] lets no name through that has no room for it.
    #[must_use]
    pub fn id(&self) -> ModelId {
        let name = format!("{}{VERSION_MARK}{}", self.model.model(), self.version);
        ModelId::new(self.model.provider(), &name).expect("the name leaves room for numbers")
    }
}

impl Published {
    /// What a store has: the number of its newest change, and its rows.
    #[must_use]
    pub fn new(revision: u64, versions: impl IntoIterator<Item = PublishedVersion>) -> Self {
        let key = |version: &PublishedVersion| (version.model.clone(), version.version);
        let versions = versions.into_iter();
        Self {
            revision,
            versions: versions.map(|version| (key(&version), version)).collect(),
        }
    }

    /// The number of the newest change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Every version, in the order of models and numbers.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = &PublishedVersion> {
        self.versions.values()
    }

    /// The versions of a model, oldest first.
    pub fn of(&self, model: &ModelId) -> impl DoubleEndedIterator<Item = &PublishedVersion> {
        let all = (model.clone(), 0)..=(model.clone(), u32::MAX);
        self.versions.range(all).map(|(_, version)| version)
    }

    /// The version that is offered under the name of a model.
    #[must_use]
    pub fn offered(&self, model: &ModelId) -> Option<&PublishedVersion> {
        self.of(model)
            .rev()
            .find(|version| version.withdrawn_at.is_none())
    }

    /// Makes a new version of a model, or its first one.
    ///
    /// # Errors
    /// If models would call each other without end, the name cannot be used, or there is no room.
    pub fn publish(
        &self,
        model: &ModelId,
        text: Arc<str>,
        calls: BTreeSet<ModelId>,
        now: Timestamp,
    ) -> Result<Publication, PublishError> {
        self.check_calls(model, &calls)?;
        if let Some(offered) = self.offered(model)
            && offered.text == text
        {
            return Ok(Publication::Unchanged(offered.version));
        }
        let last = self.of(model).next_back();
        let version = PublishedVersion {
            model: model.clone(),
            version: last.map_or(1, |last| last.version + 1),
            text,
            calls,
            published_at: now,
            withdrawn_at: None,
        };
        let forget = self.make_room(version.text.len(), now)?;
        Ok(Publication::New(PublishedChange {
            after: self.revision,
            write: vec![version],
            forget,
        }))
    }

    /// Whether a model of this name may call these models.
    ///
    /// # Errors
    /// If models would call each other without end, or the name cannot be used.
    pub fn check_calls(
        &self,
        model: &ModelId,
        calls: &BTreeSet<ModelId>,
    ) -> Result<(), PublishError> {
        if !is_name(model) {
            return Err(PublishError::Name(model.clone()));
        }
        let found = cycle::through(model, calls, |model| {
            self.offered(model).map(|version| &version.calls)
        });
        found.map_or(Ok(()), |cycle| Err(PublishError::Cycle(cycle)))
    }

    /// Withdraws a version of a model, or all of them. What is withdrawn already stays so.
    ///
    /// # Errors
    /// If there is none, or the version that is offered then would make models call each other without end.
    pub fn withdraw(
        &self,
        model: &ModelId,
        version: Option<u32>,
        now: Timestamp,
    ) -> Result<PublishedChange, PublishError> {
        if self.of(model).next().is_none() {
            return Err(PublishError::NoModel(model.clone()));
        }
        let named = |one: &&PublishedVersion| version.is_none_or(|version| one.version == version);
        let mut chosen = self.of(model).filter(named).peekable();
        if let (None, Some(version)) = (chosen.peek(), version) {
            return Err(PublishError::NoVersion(model.clone(), version));
        }
        let open = chosen.filter(|one| one.withdrawn_at.is_none());
        let withdrawn = open.map(|one| PublishedVersion {
            withdrawn_at: Some(now),
            ..one.clone()
        });
        let write: Vec<PublishedVersion> = withdrawn.collect();
        let mut then = self.clone();
        for version in &write {
            let key = (version.model.clone(), version.version);
            then.versions.insert(key, version.clone());
        }
        // An older version is offered again, and may call what came after it.
        if let Some(offered) = then.offered(model) {
            then.check_calls(model, &offered.calls)?;
        }
        Ok(PublishedChange {
            after: self.revision,
            write,
            forget: Vec::new(),
        })
    }

    /// The withdrawn versions that give way to a new one with a text of this length: those that were withdrawn first.
    fn make_room(&self, bytes: usize, now: Timestamp) -> Result<Vec<(ModelId, u32)>, PublishError> {
        let mut count = self.versions.len() + 1;
        let texts = self.versions().map(|version| version.text.len());
        let mut sum = texts.sum::<usize>() + bytes;
        let old = self.versions().filter_map(|version| {
            let at = version.withdrawn_at?;
            (at <= now - KEPT_FOR).then_some((at, version))
        });
        let mut old: Vec<_> = old.collect();
        old.sort_by_key(|(at, _)| *at);
        let mut forgotten = Vec::new();
        let mut old = old.into_iter();
        while count > MOST_VERSIONS || sum > MOST_TEXT_BYTES {
            let (_, oldest) = old.next().ok_or(PublishError::Full)?;
            count -= 1;
            sum -= oldest.text.len();
            forgotten.push((oldest.model.clone(), oldest.version));
        }
        Ok(forgotten)
    }
}

impl PublishedChange {
    /// Whether nothing is to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.write.is_empty() && self.forget.is_empty()
    }
}

/// Whether a model can be published under this name.
fn is_name(model: &ModelId) -> bool {
    let name = model.model();
    let is_version = name
        .rsplit_once(VERSION_MARK)
        .is_some_and(|(_, digits)| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let longest = format!("{name}{VERSION_MARK}{}", u32::MAX);
    !is_version && ModelId::new(model.provider(), &longest).is_ok()
}

fn shown(cycle: &[ModelId]) -> String {
    let ids: Vec<&str> = cycle.iter().map(ModelId::as_str).collect();
    ids.join(" -> ")
}

#[cfg(test)]
mod tests;
