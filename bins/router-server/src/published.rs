//! Models that operators publish: made of the rows of the installation, and offered beside those of the catalog's files.
//!
//! Every replica looks at the number of the newest change, and makes models of what is new. A version that cannot be read, as one
//! of a newer program, is left out and told in the log.

mod control;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use providers::Kind;
use router_core::published::{Published, PublishedModels, PublishedVersion};
use router_core::{CallsError, Model, ModelDefinition, ModelId, Withheld};
use serde_json::{Map, Value};
use server_kit::admin::GraphBody;

use crate::catalog::Offer;

pub(crate) use control::PublishedControl;

/// What makes models of graphs: a program that runs workflows has one.
///
/// **Contract.** `make` needs nothing but the text that `derive` gave: what runs here by now says nothing about a version that was
/// published, so that every replica offers the same, also while workers are away.
pub trait ModelMaker: Send + Sync + 'static {
    /// The models that nodes of a graph call.
    fn calls(&self, graph: &Map<String, Value>) -> BTreeSet<ModelId>;

    /// What a version of a model is made of.
    ///
    /// # Errors
    /// With everything that keeps the graph from becoming a model that runs here.
    fn derive(&self, model: &ModelId, body: &GraphBody) -> Result<Arc<str>, Vec<String>>;

    /// The model of a version, under one of its ids.
    ///
    /// # Errors
    /// If its text is of another program.
    fn make(&self, id: &ModelId, version: &PublishedVersion) -> Result<ModelDefinition, String>;
}

/// Models that are a program's own, beside those of partners that are asked over HTTP.
#[derive(Default)]
pub struct OwnModels {
    /// Other kinds of partners among the folders of the catalog.
    pub kinds: Vec<Arc<dyn Kind>>,
    /// What makes models of graphs that operators publish. Without it, nothing is published here.
    pub graphs: Option<Arc<dyn ModelMaker>>,
}

/// Where published models come from.
pub(crate) struct PublishedSource {
    pub(crate) rows: Arc<dyn PublishedModels>,
    pub(crate) maker: Arc<dyn ModelMaker>,
    /// What was made before, by what never changes of a version.
    made: Mutex<HashMap<Key, Made>>,
}

type Key = (ModelId, u32, Timestamp);

/// The models of a version.
#[derive(Clone)]
struct Made {
    /// Under the name.
    named: Arc<Model>,
    /// Under the id of the version.
    versioned: Arc<Model>,
}

/// What is offered beside the files.
#[derive(Default)]
pub(crate) struct PublishedOffer {
    /// Under their names.
    pub(crate) listed: Vec<Arc<Model>>,
    /// Versions under ids of their own.
    pub(crate) unlisted: Vec<Arc<Model>>,
    /// What is not offered, and why.
    pub(crate) withheld: Vec<(ModelId, Withheld)>,
    /// The state of every name.
    pub(crate) states: BTreeMap<ModelId, &'static str>,
}

impl PublishedSource {
    pub(crate) fn new(rows: Arc<dyn PublishedModels>, maker: Arc<dyn ModelMaker>) -> Self {
        Self {
            rows,
            maker,
            made: Mutex::default(),
        }
    }

    pub(crate) async fn load(&self) -> Result<Published, CallsError> {
        self.rows.load().await
    }

    /// What is offered of these versions, beside the files of an offer: the name of a file is the file's.
    pub(crate) fn offer(&self, published: &Published, files: &Offer) -> PublishedOffer {
        let mut offered = PublishedOffer::default();
        let all: Vec<(&PublishedVersion, Made)> = self.all(published);
        for (version, made) in &all {
            let name = &version.model;
            if files.has_id(name) || files.has_id(&version.id()) {
                tracing::warn!(model = %name, "a published model has the id of one of the catalog's files, which is offered in its place");
                continue;
            }
            let is_off = files.switches.is_off(name);
            let versioned = Arc::clone(&made.versioned);
            let id = versioned.id().clone();
            if version.withdrawn_at.is_some() {
                offered.withheld.push((id, Withheld::Withdrawn(versioned)));
            } else if is_off {
                offered
                    .withheld
                    .push((id, Withheld::SwitchedOff(versioned)));
            } else {
                offered.unlisted.push(versioned);
            }
            // The last one of a name decides: the version that is offered, or else the newest.
            let current = published.offered(name);
            let is_current = match current {
                Some(current) => current.version == version.version,
                None => published.of(name).next_back() == Some(version),
            };
            if !is_current {
                continue;
            }
            let named = Arc::clone(&made.named);
            let state = match (current, is_off) {
                (None, _) => {
                    offered
                        .withheld
                        .push((name.clone(), Withheld::Withdrawn(named)));
                    "withdrawn"
                }
                (Some(_), true) => {
                    offered
                        .withheld
                        .push((name.clone(), Withheld::SwitchedOff(named)));
                    "switched_off"
                }
                (Some(_), false) => {
                    offered.listed.push(named);
                    "offered"
                }
            };
            offered.states.insert(name.clone(), state);
        }
        offered
    }

    /// Every version with its models; what was forgotten is forgotten here, too.
    fn all<'p>(&self, published: &'p Published) -> Vec<(&'p PublishedVersion, Made)> {
        let mut before = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = HashMap::new();
        let mut all = Vec::new();
        for version in published.versions() {
            let key = (version.model.clone(), version.version, version.published_at);
            let made = before
                .get(&key)
                .cloned()
                .map_or_else(|| self.make(version), Ok);
            match made {
                Ok(made) => {
                    after.insert(key, made.clone());
                    all.push((version, made));
                }
                Err(reason) => {
                    tracing::warn!(model = %version.id(), reason, "a published model is not offered by this program");
                }
            }
        }
        *before = after;
        all
    }

    fn make(&self, version: &PublishedVersion) -> Result<Made, String> {
        let definition = self.maker.make(&version.model, version)?;
        let versioned = ModelDefinition {
            id: version.id(),
            ..definition.clone()
        };
        let model = |definition| {
            let model = Model::new(definition).map_err(|error| error.to_string())?;
            Ok::<_, String>(Arc::new(model))
        };
        Ok(Made {
            named: model(definition)?,
            versioned: model(versioned)?,
        })
    }

    /// Whether a text makes a model.
    pub(crate) fn try_out(&self, version: &PublishedVersion) -> Result<(), String> {
        self.make(version).map(drop)
    }

    /// The models of a version under its name, if this program can read it.
    pub(crate) fn model(&self, version: &PublishedVersion) -> Option<Arc<Model>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (version.model.clone(), version.version, version.published_at);
        made.get(&key).map(|made| Arc::clone(&made.named))
    }
}
