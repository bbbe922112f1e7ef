//! The catalog that is served: loaded at start, and again whenever its folder changes.
//!
//! A folder is judged whole. One that is wrong changes nothing: the catalog before stays, and every fault is logged with
//! its file, line and reason.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use providers::{
    Fault, Kind, Loaded, LoadedModel, PartnerStatus, Settings, Source, Switch, Switches, Watch,
};
use router_core::{Catalog, ModelId, Timer, Withheld};
use tokio_util::sync::CancellationToken;

use crate::config::PartnerConfig;
use crate::control::CatalogKeeper;
use crate::published::PublishedOffer;

/// How often the folder is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// Most bytes of a credential: one that is longer is none, and is cut.
const MOST_CREDENTIAL_BYTES: u64 = 64 * 1024;

/// The files are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogFaults(pub Vec<Fault>);

/// How partners are reached cannot be settled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PartnerError {
    /// The authorities cannot be read.
    #[error("the authorities in {} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// They are none.
    #[error("there is no certificate in PEM form in {}", .0.display())]
    NoAuthorities(PathBuf),
}

/// Where the catalog comes from, and how it is loaded.
pub(crate) struct CatalogSource {
    source: Source,
    settings: Settings,
    /// Since before the first load: what changes while a server starts is read again, too.
    watch: Option<Watch>,
}

/// What a catalog offers here.
pub struct Offer {
    /// The models that can be run.
    pub models: Vec<LoadedModel>,
    /// Those that are switched off.
    pub switched_off: Vec<LoadedModel>,
    /// The models whose partner has no credentials, and what it lacks.
    pub without_credentials: Vec<(ModelId, String)>,
    /// What the operator has switched off.
    pub switches: Switches,
    /// Every partner.
    pub partners: Vec<PartnerStatus>,
}

impl CatalogSource {
    pub(crate) fn new(config: &PartnerConfig, timer: Arc<dyn Timer>) -> Result<Self, PartnerError> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| PartnerError::Unreadable(path.clone(), error))
        };
        let extra_ca = config.extra_ca.as_ref().map(read).transpose()?;
        let settings = Settings::new(
            config.exempt.clone(),
            config.relocations.clone(),
            extra_ca,
            timer,
        );
        let settings = settings.map_err(|_| {
            PartnerError::NoAuthorities(config.extra_ca.clone().unwrap_or_default())
        })?;
        Ok(Self {
            source: Source::with_builtin(config.catalog.clone()),
            settings,
            watch: config.catalog.clone().map(Watch::new),
        })
    }

    /// The same, with other kinds of partners among the folders.
    pub(crate) fn with_kinds(mut self, kinds: Vec<Arc<dyn Kind>>) -> Self {
        for kind in kinds {
            self.settings = self.settings.with_kind(kind);
        }
        self
    }

    /// Loads the catalog with the credentials in the environment, and in the files that it names.
    pub(crate) fn load(&self) -> Result<Offer, CatalogFaults> {
        offer(&self.source, &self.settings)
    }

    /// The folder that adds to what is compiled in.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.source.folder.as_deref()
    }

    /// How partners are reached.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Notices changes of the folder, if there is one; since before the first load, so that what changes while a server starts
    /// is read again, too.
    pub(crate) fn take_watch(&mut self) -> Option<Watch> {
        self.watch.take()
    }
}

/// Serves what the folder of `keeper` holds and what is published whenever it changes, until `stop`. It touches the disk on threads of its own.
pub(crate) async fn keep_fresh(
    keeper: Arc<CatalogKeeper>,
    watch: Option<Watch>,
    stop: CancellationToken,
) {
    if watch.is_none() && !keeper.publishes() {
        return;
    }
    let mut watch = watch;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        // What other replicas published.
        if let Err(error) = keeper.refresh().await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "published models cannot be read; trying again");
        }
        let Some(mut looked_at) = watch.take() else {
            continue;
        };
        let looked = tokio::task::spawn_blocking(move || {
            let changed = looked_at.has_changed();
            (looked_at, changed)
        });
        let Ok((seen, changed)) = looked.await else {
            tracing::error!(
                "looking for changes of the catalog panicked; changes are no longer noticed"
            );
            return;
        };
        watch = Some(seen);
        if !changed {
            continue;
        }
        match keeper.read_again().await {
            Ok(listed) => {
                let offered = listed
                    .models
                    .iter()
                    .filter(|model| model.state == "offered");
                let models = offered.count();
                tracing::info!(models, "the catalog changed and was read again");
            }
            Err(faults) => {
                for fault in faults {
                    tracing::error!(%fault, "the changed catalog is refused; the one before stays");
                }
            }
        }
    }
}

/// The variable of this name, or what the file holds that the variable with `_FILE` behind its name has: a file can be replaced
/// while a server runs.
fn credential(name: &str) -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable(name).or_else(|| {
        let path = variable(&format!("{name}_FILE"))?;
        let read = read_credential(Path::new(&path));
        let read = read.inspect_err(|error| {
            tracing::warn!(%error, path, "the file that {name}_FILE names cannot be read; the credential counts as not set");
        });
        read.ok()
    })
}

fn read_credential(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?
        .take(MOST_CREDENTIAL_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Loads a catalog with the credentials in the environment, and in the files that it names.
///
/// # Errors
/// With everything that is wrong with its files.
pub fn offer(source: &Source, settings: &Settings) -> Result<Offer, CatalogFaults> {
    let Loaded {
        models,
        switched_off,
        without_credentials,
        switches,
        partners,
    } = providers::load(source, settings, &credential).map_err(CatalogFaults)?;
    Ok(Offer {
        models,
        switched_off,
        without_credentials,
        switches,
        partners,
    })
}

impl Offer {
    /// The catalog of these files, with published models beside them.
    pub(crate) fn catalog(&self, published: PublishedOffer) -> Catalog {
        let of_files = self.models.iter().map(|loaded| Arc::clone(&loaded.model));
        let catalog = Catalog::new(of_files.chain(published.listed).collect());
        let catalog = catalog.expect(
            "files of one folder have names of their own, and what is published has others",
        );
        let off = self.switched_off.iter().map(|loaded| {
            let model = Arc::clone(&loaded.model);
            (model.id().clone(), Withheld::SwitchedOff(model))
        });
        let lacking = self.without_credentials.iter().cloned();
        let lacking = lacking.map(|(id, lacks)| (id, Withheld::NoCredentials(lacks)));
        let withheld = lacking.chain(off).chain(published.withheld);
        catalog
            .with_unlisted(published.unlisted)
            .withholding(withheld)
    }

    /// Whether the files have a model of this id.
    pub(crate) fn has_id(&self, id: &ModelId) -> bool {
        self.ids().any(|known| known == id)
    }

    /// Whether models of this partner run elsewhere: only it has such names.
    pub(crate) fn is_partner(&self, partner: &str) -> bool {
        let all = self.models.iter().chain(&self.switched_off);
        let asked = all.filter(|loaded| loaded.runner.is_some());
        let asked = asked.map(|loaded| loaded.model.id());
        let lacking = self.without_credentials.iter().map(|(id, _)| id);
        asked.chain(lacking).any(|id| id.provider() == partner)
    }

    /// The models of the files, whether they can be called or not.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &ModelId> {
        let usable = self.models.iter().chain(&self.switched_off);
        let usable = usable.map(|loaded| loaded.model.id());
        usable.chain(self.without_credentials.iter().map(|(id, _)| id))
    }

    /// Whether the files have a model that a switch names.
    pub(crate) fn has(&self, switch: &Switch) -> bool {
        self.ids().any(|id| switch.names(id))
    }
}

impl fmt::Display for CatalogFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the catalog cannot be used:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for CatalogFaults {}

impl fmt::Debug for CatalogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogSource")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("partners", &self.partners)
            .finish_non_exhaustive()
    }
}
