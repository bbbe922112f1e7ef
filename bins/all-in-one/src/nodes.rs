//! Partner nodes: every model of the router's catalog is a class of nodes.
//!
//! A node fills in the body of its model from its inputs, calls the model through the router as any caller does (the same
//! checks, keys, limits, credits and rows), and gives what the answer holds. While it waits it keeps no thread and no job
//! slot. The engine knows nothing of this: it gets classes as any embedder's.

mod alias;
mod answer;
mod class;
mod fields;
mod node;
mod payer;
mod price;
mod problem;
mod schema;

use std::path::PathBuf;
use std::sync::Arc;

use accounts::Accounts;
use engine_native::{NativeEngine, Node};
use hyper_kit::{AddressPolicy, Client, ClientConfig, Host};
use identity::Identity;
use router_core::{Catalog, CatalogFollower};
use router_server::{Caller, PartnerConfig, RouterStack};
use tokio::task::JoinSet;
use workflow_server::Stack;

use crate::config::Config;

pub(crate) use class::{is_partner_class, model_of};
use node::PartnerNode;

/// What nodes call models with.
#[derive(Debug)]
pub(crate) struct Partners {
    caller: Caller,
    accounts: AccountsPort,
    identity: Identity,
    /// Fetches results.
    client: Client,
    /// The hosts and ports whose results may come without TLS.
    exempt: Vec<Host>,
}

struct AccountsPort(Arc<dyn Accounts>);

/// Results cannot be fetched as configured.
#[derive(Debug, thiserror::Error)]
#[error("the authorities in {} cannot be used", .0.display())]
pub struct ResultsError(PathBuf);

/// Makes every model of the catalog a class of nodes, and keeps it so while the catalog changes.
pub(crate) async fn offer(
    stack: &Stack,
    router: &RouterStack,
    identity: &Identity,
    config: &Config,
    base: &str,
) -> Result<JoinSet<()>, ResultsError> {
    let partners = Partners::new(
        router.caller(),
        stack.accounts.clone(),
        identity.clone(),
        &config.router.partners,
        base,
    );
    let partners = Arc::new(partners.await?);
    let catalog = router.router.catalog();
    stack.native.offer(&partners.classes(&catalog.current()));
    let mut offering = JoinSet::new();
    offering.spawn(partners.keep_offered(stack.native.clone(), catalog.follow()));
    Ok(offering)
}

impl Partners {
    /// Calls as `caller` does, and fetches results as partners are reached. Links of this server begin with `base`: models that
    /// run here answer them.
    ///
    /// # Errors
    /// If the file of authorities cannot be used.
    pub(crate) async fn new(
        caller: Caller,
        accounts: Arc<dyn Accounts>,
        identity: Identity,
        partners: &PartnerConfig,
        base: &str,
    ) -> Result<Self, ResultsError> {
        let file = partners.extra_ca.as_ref();
        let unusable = || ResultsError(file.cloned().unwrap_or_default());
        let extra_ca_pem = match file {
            Some(file) => Some(tokio::fs::read(file).await.map_err(|_| unusable())?),
            None => None,
        };
        let relocated = partners.relocations.iter();
        let relocated = relocated.map(|to| to.base_url.host().clone());
        let own = base.parse().ok().and_then(|base: http::Uri| {
            let own = Host::parse(base.authority()?.as_str());
            own.filter(|_| base.scheme_str() == Some("http"))
        });
        let exempt = partners.exempt.iter().cloned().chain(relocated);
        let exempt: Vec<Host> = exempt.chain(own).collect();
        let client = Client::new(ClientConfig {
            policy: AddressPolicy {
                // Who may go without TLS is decided address by address.
                https_only: exempt.is_empty(),
                allow_private: exempt.clone(),
            },
            extra_ca_pem,
            user_agent: Some(http::HeaderValue::from_static("easel")),
            ..ClientConfig::default()
        });
        Ok(Self {
            caller,
            accounts: AccountsPort(accounts),
            identity,
            client: client.map_err(|_| unusable())?,
            exempt,
        })
    }

    /// The classes of a catalog's models, by ComfyUI's own names too.
    pub(crate) fn classes(self: &Arc<Self>, catalog: &Catalog) -> Vec<Arc<dyn Node>> {
        let models = catalog.models().iter();
        let nodes = models.map(|model| PartnerNode::new(Arc::clone(model), Arc::clone(self)));
        let known = alias::all().iter().filter_map(|alias| {
            let id = alias.model()?;
            let model = catalog.models().iter().find(|model| *model.id() == id)?;
            let (model, partners) = (Arc::clone(model), Arc::clone(self));
            Some(PartnerNode::known_as(alias, model, partners))
        });
        let all = nodes.chain(known);
        all.map(|node| -> Arc<dyn Node> { Arc::new(node) })
            .collect()
    }

    /// Offers the classes of whatever catalog is served from now on.
    pub(crate) async fn keep_offered(
        self: Arc<Self>,
        engine: NativeEngine,
        mut catalogs: CatalogFollower,
    ) {
        while let Some(catalog) = catalogs.next().await {
            engine.offer(&self.classes(&catalog));
        }
    }
}

impl std::fmt::Debug for AccountsPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Accounts")
    }
}
