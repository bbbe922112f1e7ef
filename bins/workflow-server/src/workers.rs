//! ComfyUI workers: how they are configured, and how operators see and change them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use asset_store::BlobStore;
use engine_comfy::{
    AddError, ComfyPool, PoolConfig, WorkerConfig, WorkerReport, WorkerSlots, WorkerUrl,
};
use server_kit::admin::{Problem, ProblemKind, WorkerAdmin, WorkerBody, WorkerChange};
use server_kit::config::{ConfigError, Settings, Value, array};
use workflow_core::{Engine, EngineName, Engines, Hub, NamedEngine};

use crate::stack::StackError;
use crate::worker_tables::{WorkerTable, WorkerTables};

/// What is configured of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Where they are.
    pub urls: Vec<WorkerUrl>,
    /// Those with more than an address.
    pub tables: Vec<WorkerTable>,
    /// Which engine runs a graph that both can run.
    pub prefer: Preference,
    /// Which previews they make.
    pub previews: PreviewMethod,
    /// How many jobs a worker may have at once that names no number of its own.
    pub slots: WorkerSlots,
    /// The folder in which their definitions are kept; none keeps none.
    pub folder: Option<PathBuf>,
}

/// Which engine runs a graph that both can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The engine of this process.
    Native,
    /// The workers.
    ComfyUi,
}

/// Which previews workers make, as ComfyUI calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewMethod(pub String);

/// How many jobs a worker may have at once.
struct Slots(WorkerSlots);

/// Addresses of workers.
struct Urls(Vec<WorkerUrl>);

impl Value for Urls {
    const ALLOWED: &'static str = "addresses of ComfyUI workers separated by commas, such as http://127.0.0.1:8188,http://gpu-box:8188";

    fn read(text: &str) -> Option<Self> {
        let items = text.split(',').map(str::trim);
        let items = items.filter(|item| !item.is_empty());
        let urls: Option<Vec<WorkerUrl>> = items.map(|item| item.parse().ok()).collect();
        urls.map(Self)
    }

    fn show(&self) -> String {
        array(self.0.iter().map(ToString::to_string))
    }
}

impl Value for Slots {
    const ALLOWED: &'static str =
        "a number from 1 to 16: a worker runs one job, and the inputs of the others are staged";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().and_then(WorkerSlots::new).map(Self)
    }

    fn show(&self) -> String {
        self.0.count().to_string()
    }
}

impl Value for Preference {
    const ALLOWED: &'static str = "native or comfyui";

    fn read(text: &str) -> Option<Self> {
        match text {
            "native" => Some(Self::Native),
            "comfyui" => Some(Self::ComfyUi),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Native => "\"native\"".to_owned(),
            Self::ComfyUi => "\"comfyui\"".to_owned(),
        }
    }
}

impl Value for PreviewMethod {
    const ALLOWED: &'static str = "auto, latent2rgb, taesd or none";

    fn read(text: &str) -> Option<Self> {
        let is_known = ["auto", "latent2rgb", "taesd", "none"].contains(&text);
        is_known.then(|| Self(text.to_owned()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl WorkerSettings {
    /// No workers.
    #[must_use]
    pub fn none() -> Self {
        Self {
            urls: Vec::new(),
            tables: Vec::new(),
            prefer: Preference::Native,
            previews: PreviewMethod("auto".to_owned()),
            slots: WorkerSlots::default(),
            folder: None,
        }
    }

    /// Reads their keys. Definitions are kept nowhere.
    pub(crate) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let Urls(urls) = settings.read("comfyui")?;
        let WorkerTables(tables) = settings.read("worker")?;
        let Slots(slots) = settings.read("comfyui_slots")?;
        Ok(Self {
            urls,
            tables,
            prefer: settings.read("prefer")?,
            previews: settings.read("comfyui_previews")?,
            slots,
            folder: None,
        })
    }

    /// Where the logs of deployments and the records of their processes are: beside the folder of definitions.
    pub(crate) fn deployments(&self) -> PathBuf {
        let beside = self.folder.as_ref().and_then(|folder| folder.parent());
        let beside = beside.map_or_else(std::env::temp_dir, Into::into);
        beside.join("deployments")
    }

    /// How many jobs of one account may be at workers besides those that run here.
    pub(crate) fn jobs(&self) -> u32 {
        let named = self.tables.iter().map(|table| table.slots);
        let all = self.urls.iter().map(|_| None).chain(named);
        all.map(|slots| slots.unwrap_or(self.slots).count()).sum()
    }
}

/// How many jobs of an account may run at once, by its tier and with so many places at workers that the default does not count.
pub(crate) fn room(of_tier: u32, default: u32, places: u32) -> u32 {
    // Jobs at workers take no slot of this process; a limit that an operator gave an account stands.
    match of_tier == default {
        true => of_tier.saturating_add(places),
        false => of_tier,
    }
}

/// How pools of workers are made. `hub` rings when a worker may take a job.
pub(crate) fn pool_config(
    settings: &WorkerSettings,
    extra_ca_pem: Option<Vec<u8>>,
    hub: Arc<Hub>,
) -> PoolConfig {
    let folder = settings.folder.as_ref();
    PoolConfig {
        preview_method: settings.previews.0.clone(),
        asked_previews: workflow_http::preview_method,
        folder: settings.folder.clone(),
        socket_name: folder.map(|folder| folder.display().to_string()),
        extra_ca_pem,
        slots: settings.slots,
        bell: Arc::new(move || hub.ring()),
    }
}

/// The pool of the configured workers.
///
/// # Errors
/// If the authorities cannot be used, or a worker is configured twice.
pub(crate) fn pool(
    settings: &WorkerSettings,
    config: PoolConfig,
    blobs: Arc<dyn BlobStore>,
) -> Result<ComfyPool, StackError> {
    let pool = ComfyPool::new(blobs, config);
    for url in &settings.urls {
        let config = WorkerConfig {
            name: name_of(url),
            url: url.clone(),
            headers: Default::default(),
            ca_pem: None,
            slots: None,
            keeps_definitions: true,
        };
        pool.add(config).map_err(StackError::Worker)?;
    }
    for table in &settings.tables {
        let name = table.name.clone().unwrap_or_else(|| name_of(&table.url));
        pool.add(table.config(name)?).map_err(StackError::Worker)?;
    }
    pool.add_kept();
    Ok(pool)
}

/// What a worker is called that has no name: its host and port.
fn name_of(url: &WorkerUrl) -> String {
    let text = url.as_str();
    let name = text.split_once("://").map_or(text, |(_, rest)| rest);
    name.to_owned()
}

/// The engines in the order in which they are preferred. A pool without workers runs nothing.
pub(crate) fn engines(
    native: Arc<dyn Engine>,
    pool: &ComfyPool,
    settings: &WorkerSettings,
) -> Engines {
    let native = NamedEngine {
        name: EngineName::NATIVE.into(),
        engine: native,
    };
    let workers = NamedEngine {
        name: ComfyPool::name(),
        engine: Arc::new(pool.clone()),
    };
    match settings.prefer {
        Preference::Native => Engines::new([native, workers]),
        Preference::ComfyUi => Engines::new([workers, native]),
    }
}

/// The workers, as commands see them.
#[derive(Debug)]
pub(crate) struct Workers(pub(crate) ComfyPool);

impl WorkerAdmin for Workers {
    fn list(&self) -> Vec<WorkerBody> {
        self.0.workers().into_iter().map(body).collect()
    }

    fn change(&self, change: WorkerChange) -> Result<(), Problem> {
        let unknown = |name: &str| {
            let message = format!("there is no worker {name}; `worker list` shows those there are");
            Problem::new(ProblemKind::Absent, message)
        };
        let found = match &change {
            WorkerChange::Add { name, url } => {
                let url: WorkerUrl = url.parse().map_err(|_| {
                    // The text may have a password: it is not repeated.
                    let message = "`url` is no address of a ComfyUI; write it like http://127.0.0.1:8188, without a user name, \
                                   query or fragment";
                    Problem::new(ProblemKind::Invalid, message)
                })?;
                let config = WorkerConfig {
                    name: name.clone().unwrap_or_else(|| name_of(&url)),
                    url,
                    headers: Default::default(),
                    ca_pem: None,
                    slots: None,
                    keeps_definitions: true,
                };
                return self
                    .0
                    .add_and_keep(config)
                    .map_err(|error| not_added(&error));
            }
            WorkerChange::Drain { name, draining } => self
                .0
                .drain(name, *draining)
                .then_some(())
                .ok_or_else(|| unknown(name)),
            WorkerChange::Remove { name } => self
                .0
                .remove(name)
                .then_some(())
                .ok_or_else(|| unknown(name)),
        };
        found?;
        self.0.keep_added().map_err(|error| {
            let message = format!("it is done, and could not be kept for the next start: {error}");
            Problem::new(ProblemKind::Fault, message)
        })
    }
}

fn not_added(error: &AddError) -> Problem {
    let kind = match error {
        AddError::Taken => ProblemKind::Taken,
        AddError::Full => ProblemKind::Invalid,
        AddError::NotKept(_) | AddError::ExtraCa => ProblemKind::Fault,
    };
    Problem::new(kind, error.to_string())
}

fn body(report: WorkerReport) -> WorkerBody {
    WorkerBody {
        name: report.name,
        url: report.url,
        state: report.state.name().to_owned(),
        since: report.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        why: report.why,
        version: report.version,
        classes: report.classes as u64,
        jobs: report.jobs as u64,
        slots: u64::from(report.slots),
        breaker: report.breaker.name().to_owned(),
        answer_ms: report.answers.last().map(millis),
        job_ms: report.runs.mean().map(millis),
        succeeded: report.succeeded,
        failed: report.failed,
        lost: report.lost,
        staged_bytes: report.staged_bytes,
        output_bytes: report.output_bytes,
    }
}

/// As milliseconds, to the microsecond.
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
