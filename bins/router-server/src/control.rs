//! The catalog in the hands of operators: listed, and read again when they ask for it or its folder changes.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use router_core::published::Published;
use router_core::{CallsError, Catalog, ModelId, Router};
use server_kit::admin::{
    CatalogBody, CatalogControl, ModelBody, PartnerBody, Problem, ProblemKind,
};

use crate::catalog::{CatalogFaults, CatalogSource, Offer};
use crate::published::{PublishedOffer, PublishedSource};

/// What serves a catalog and keeps it fresh. One reading at a time: the newest files and rows are served last.
pub(crate) struct CatalogKeeper {
    pub(crate) source: CatalogSource,
    published: Option<Arc<PublishedSource>>,
    router: Router,
    served: Mutex<Served>,
    turn: tokio::sync::Mutex<()>,
}

/// What is served now.
#[derive(Clone)]
pub(crate) struct Served {
    offer: Arc<Offer>,
    published: Arc<Published>,
    listed: CatalogBody,
}

impl Served {
    /// What is served at start, and its catalog.
    pub(crate) async fn first(
        offer: &Arc<Offer>,
        source: Option<&PublishedSource>,
    ) -> Result<(Self, Catalog), CallsError> {
        let published = match source {
            Some(source) => source.load().await?,
            None => Published::default(),
        };
        Ok(Self::of(offer, Arc::new(published), source))
    }

    /// The files of an offer, and published models beside them.
    fn of(
        offer: &Arc<Offer>,
        published: Arc<Published>,
        source: Option<&PublishedSource>,
    ) -> (Self, Catalog) {
        let beside = source.map(|source| source.offer(&published, offer));
        let beside = beside.unwrap_or_default();
        let served = Self {
            listed: listed(offer, &beside),
            offer: Arc::clone(offer),
            published,
        };
        (served, offer.catalog(beside))
    }
}

impl CatalogKeeper {
    /// Over a router that serves this already.
    pub(crate) fn new(
        source: CatalogSource,
        published: Option<Arc<PublishedSource>>,
        router: Router,
        served: Served,
    ) -> Arc<Self> {
        Arc::new(Self {
            source,
            published,
            router,
            served: Mutex::new(served),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// Reads the folder and serves it, or answers its faults and changes nothing. It touches the disk on a thread of its own.
    pub(crate) async fn read_again(self: &Arc<Self>) -> Result<CatalogBody, Vec<String>> {
        let _turn = self.turn.lock().await;
        let keeper = Arc::clone(self);
        let loaded = tokio::task::spawn_blocking(move || keeper.source.load()).await;
        let Ok(loaded) = loaded else {
            return Err(vec!["reading it panicked".to_owned()]);
        };
        let offer = loaded.map_err(|CatalogFaults(faults)| {
            let faults = faults.iter().map(ToString::to_string);
            faults.collect::<Vec<_>>()
        })?;
        let published = Arc::clone(&self.served().published);
        Ok(self.serve(&Arc::new(offer), published))
    }

    /// Serves what is published by now, and answers it.
    pub(crate) async fn refresh(&self) -> Result<Arc<Published>, CallsError> {
        let Some(source) = &self.published else {
            return Ok(Arc::default());
        };
        let _turn = self.turn.lock().await;
        let Served {
            offer, published, ..
        } = self.served().clone();
        if source.rows.revision().await? == published.revision() {
            return Ok(published);
        }
        let published = Arc::new(source.load().await?);
        self.serve(&offer, Arc::clone(&published));
        Ok(published)
    }

    /// Whether models are published here.
    pub(crate) fn publishes(&self) -> bool {
        self.published.is_some()
    }

    fn serve(&self, offer: &Arc<Offer>, published: Arc<Published>) -> CatalogBody {
        let (served, catalog) = Served::of(offer, published, self.published.as_deref());
        let listed = served.listed.clone();
        self.router.catalog().replace(catalog, Timestamp::now());
        *self.served() = served;
        listed
    }

    /// The state of a model in what is served.
    pub(crate) fn state_of(&self, id: &ModelId) -> String {
        let served = self.served();
        let mut models = served.listed.models.iter();
        let found = models.find(|model| model.id == id.as_str());
        found.map_or("unusable", |model| &model.state).to_owned()
    }

    /// Whether a model of this name may be published: files of the catalog have names of their own, and partners too.
    pub(crate) fn check_name(&self, id: &ModelId) -> Result<(), Problem> {
        let offer = Arc::clone(&self.served().offer);
        let taken = if offer.has_id(id) {
            format!("{id} is a model of the catalog's files; publish it under another name")
        } else if offer.is_partner(id.provider()) {
            format!(
                "{} is a partner of the catalog; begin the name with another word, such as easel/{}",
                id.provider(),
                id.model()
            )
        } else {
            return Ok(());
        };
        Err(Problem::new(ProblemKind::Taken, taken))
    }

    fn served(&self) -> std::sync::MutexGuard<'_, Served> {
        // Every change is one assignment: a panic elsewhere cannot have left it half-made.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an offer has, as operators read it.
fn listed(offer: &Offer, beside: &PublishedOffer) -> CatalogBody {
    let offered = offer.models.iter().map(|it| (it.model.id(), "offered"));
    let off = offer.switched_off.iter();
    let off = off.map(|it| (it.model.id(), "switched_off"));
    let lacking = offer.without_credentials.iter();
    let lacking = lacking.map(|(id, _)| (id, "no_credentials"));
    let published = beside.states.iter().map(|(id, state)| (id, *state));
    let models = offered.chain(off).chain(lacking).chain(published);
    let mut models: Vec<ModelBody> = models
        .map(|(id, state)| ModelBody {
            id: id.to_string(),
            state: state.to_owned(),
        })
        .collect();
    models.sort_by(|a, b| a.id.cmp(&b.id));
    let partners = offer.partners.iter().map(|partner| PartnerBody {
        id: partner.id.clone(),
        name: partner.name.clone(),
        missing: partner.missing.clone(),
    });
    let mut partners: Vec<PartnerBody> = partners.collect();
    partners.sort_by(|a, b| a.id.cmp(&b.id));
    CatalogBody { models, partners }
}

/// The keeper as commands and HTTP reach it.
pub(crate) struct Control(pub(crate) Arc<CatalogKeeper>);

#[async_trait]
impl CatalogControl for Control {
    async fn list(&self) -> CatalogBody {
        self.0.served().listed.clone()
    }

    async fn reload(&self) -> Result<CatalogBody, Vec<String>> {
        self.0.read_again().await
    }
}
