//! The catalog in the hands of operators: listed, and read again when they ask for it or its folder changes.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use router_core::Router;
use server_kit::admin::{CatalogBody, CatalogControl, ModelBody, PartnerBody};

use crate::catalog::{CatalogFaults, CatalogSource, Offer};

/// What serves a catalog and keeps it fresh. One reading at a time: the newest files are served last.
pub(crate) struct CatalogKeeper {
    pub(crate) source: CatalogSource,
    router: Router,
    served: Mutex<CatalogBody>,
    turn: tokio::sync::Mutex<()>,
}

impl CatalogKeeper {
    /// Over a router that serves what `served` lists.
    pub(crate) fn new(source: CatalogSource, router: Router, served: CatalogBody) -> Arc<Self> {
        Arc::new(Self {
            source,
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
        let listed = listed(&offer);
        self.router
            .catalog()
            .replace(offer.catalog, Timestamp::now());
        *self.served() = listed.clone();
        Ok(listed)
    }

    fn served(&self) -> std::sync::MutexGuard<'_, CatalogBody> {
        // Every change is one assignment: a panic elsewhere cannot have left it half-made.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an offer has, as operators read it.
pub(crate) fn listed(offer: &Offer) -> CatalogBody {
    let offered = offer.models.iter().map(|it| (it.model.id(), "offered"));
    let off = offer.switched_off.iter();
    let off = off.map(|it| (it.model.id(), "switched_off"));
    let lacking = offer.without_credentials.iter();
    let lacking = lacking.map(|(id, _)| (id, "no_credentials"));
    let models = offered.chain(off).chain(lacking);
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
        self.0.served().clone()
    }

    async fn reload(&self) -> Result<CatalogBody, Vec<String>> {
        self.0.read_again().await
    }
}
