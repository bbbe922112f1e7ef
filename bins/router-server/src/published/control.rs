//! Published models in the hands of operators: published, looked at and withdrawn.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use router_core::published::{
    Publication, PublishError, Published, PublishedChange, PublishedVersion,
};
use router_core::{CallsError, ModelId};
use serde_json::{Value, json};
use server_kit::admin::{
    GraphBody, ModelAdmin, Problem, ProblemKind, PublishedModelBody, PublishedVersionBody,
};

use super::PublishedSource;
use crate::control::CatalogKeeper;

/// How often a change is tried: it fails if another one is written at the same moment.
const TRIES: usize = 8;

/// Published models as commands and HTTP reach them.
pub(crate) struct PublishedControl {
    keeper: Arc<CatalogKeeper>,
    source: Arc<PublishedSource>,
}

impl PublishedControl {
    pub(crate) fn new(keeper: Arc<CatalogKeeper>, source: Arc<PublishedSource>) -> Self {
        Self { keeper, source }
    }

    /// Writes what `decide` makes of the versions there are. Nothing is written without a change.
    async fn change(
        &self,
        decide: impl Fn(&Published) -> Result<Option<PublishedChange>, PublishError>,
    ) -> Result<(), Problem> {
        for _ in 0..TRIES {
            let published = self.source.load().await.map_err(|error| away(&error))?;
            let change = decide(&published).map_err(|error| refused(&error))?;
            let Some(change) = change else {
                return Ok(());
            };
            let saved = self.source.rows.save(&change).await;
            if saved.map_err(|error| away(&error))? {
                return Ok(());
            }
        }
        Err(Problem::new(
            ProblemKind::InUse,
            "others change published models at this moment; try again",
        ))
    }

    /// Serves what is written by now, and shows a model of it.
    async fn served(&self, id: &ModelId) -> Result<PublishedModelBody, Problem> {
        let refreshed = self.keeper.refresh().await;
        let published = refreshed.map_err(|error| away(&error))?;
        self.body(&published, id, true)
            .ok_or_else(|| refused(&PublishError::NoModel(id.clone())))
    }

    fn body(&self, published: &Published, id: &ModelId, whole: bool) -> Option<PublishedModelBody> {
        let newest = published.of(id).next_back()?;
        let offered = published.offered(id);
        let model = self.source.model(offered.unwrap_or(newest));
        let price = model
            .as_ref()
            .map(|model| model.provider().price(&json!({})));
        let schema = model.and_then(|model| model.input_schema().cloned());
        Some(PublishedModelBody {
            id: id.to_string(),
            state: self.keeper.state_of(id),
            version: offered.map(|offered| offered.version),
            price_cents: price.map(|price| price.hold_cents()),
            inputs: schema.as_ref().map(inputs).unwrap_or_default(),
            schema: schema.filter(|_| whole),
            versions: published.of(id).map(version_body).collect(),
        })
    }
}

#[async_trait]
impl ModelAdmin for PublishedControl {
    async fn list(&self) -> Result<Vec<PublishedModelBody>, Problem> {
        let published = self.keeper.refresh().await.map_err(|error| away(&error))?;
        let mut names: Vec<&ModelId> = published.versions().map(|one| &one.model).collect();
        names.dedup();
        let bodies = names
            .into_iter()
            .filter_map(|id| self.body(&published, id, false));
        Ok(bodies.collect())
    }

    async fn show(&self, model: &str) -> Result<PublishedModelBody, Problem> {
        self.served(&named(model)?).await
    }

    async fn publish(
        &self,
        model: &str,
        graph: GraphBody,
        now: Timestamp,
    ) -> Result<PublishedModelBody, Problem> {
        let id = named(model)?;
        self.keeper.check_name(&id)?;
        let calls = self.source.maker.calls(&graph.graph);
        // Before the graph is judged: the class of a model that is not published yet says nothing about a cycle.
        let published = self.source.load().await.map_err(|error| away(&error))?;
        let fine = published.check_calls(&id, &calls);
        fine.map_err(|error| refused(&error))?;
        let (source, of) = (Arc::clone(&self.source), id.clone());
        let derived = tokio::task::spawn_blocking(move || {
            let text = source.maker.derive(&of, &graph)?;
            let version = PublishedVersion {
                model: of,
                version: 1,
                text,
                calls: Default::default(),
                published_at: now,
                withdrawn_at: None,
            };
            source.try_out(&version).map_err(|reason| vec![reason])?;
            Ok::<_, Vec<String>>(version.text)
        });
        let derived = derived.await.map_err(|_| {
            Problem::new(
                ProblemKind::Fault,
                "reading the graph panicked, which is a fault of this program; report it with the graph",
            )
        })?;
        let text = derived.map_err(|faults| of_graph(&id, faults))?;
        self.change(|published| {
            let made = published.publish(&id, Arc::clone(&text), calls.clone(), now)?;
            Ok(match made {
                Publication::Unchanged(_) => None,
                Publication::New(change) => Some(change),
            })
        })
        .await?;
        self.served(&id).await
    }

    async fn withdraw(
        &self,
        model: &str,
        version: Option<u32>,
        now: Timestamp,
    ) -> Result<PublishedModelBody, Problem> {
        let id = named(model)?;
        self.change(|published| {
            let change = published.withdraw(&id, version, now)?;
            Ok((!change.is_empty()).then_some(change))
        })
        .await?;
        self.served(&id).await
    }
}

/// The fields of a body: their names, and what is to be known of each at a glance.
fn inputs(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(serde_json::Map::keys);
    names.cloned().collect()
}

fn version_body(version: &PublishedVersion) -> PublishedVersionBody {
    let shown = |at: Timestamp| format!("{at:.0}");
    PublishedVersionBody {
        version: version.version,
        id: version.id().to_string(),
        calls: version.calls.iter().map(ToString::to_string).collect(),
        published_at: shown(version.published_at),
        withdrawn_at: version.withdrawn_at.map(shown),
    }
}

fn named(text: &str) -> Result<ModelId, Problem> {
    text.parse().map_err(|error| {
        Problem::new(
            ProblemKind::Invalid,
            format!("\"{text}\" cannot be the id of a model: {error}"),
        )
    })
}

fn of_graph(id: &ModelId, faults: Vec<String>) -> Problem {
    let message = match faults.len() {
        1 => format!("{id} cannot be published: {}", faults[0]),
        count => format!("{id} cannot be published: the graph has {count} faults"),
    };
    Problem {
        faults: if faults.len() == 1 {
            Vec::new()
        } else {
            faults
        },
        ..Problem::new(ProblemKind::Invalid, message)
    }
}

fn refused(error: &PublishError) -> Problem {
    let kind = match error {
        PublishError::Name(_) | PublishError::Cycle(_) | PublishError::Full => ProblemKind::Invalid,
        PublishError::NoModel(_) | PublishError::NoVersion(..) => ProblemKind::Absent,
    };
    Problem::new(kind, error.to_string())
}

fn away(error: &CallsError) -> Problem {
    Problem::new(ProblemKind::Fault, hyper_kit::error_chain(error))
}
