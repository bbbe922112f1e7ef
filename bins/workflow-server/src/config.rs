//! What a server of workflows is told besides what every server is told.

use std::path::PathBuf;
use std::sync::Arc;
use std::time;

use accounts::{RateWindow, Tier};
use asset_store::LONGEST_RUN;
use hyper_kit::Host;
use installation::{MinFree, OpenOptions, ReserveOptions};
use jiff::SignedDuration;
use server_kit::config::{
    Auto, AutoSize, ConfigError, Count, DATA_DIR, Duration, Key, Kind, LISTEN, Preset, RateWindows,
    SERVER_KEYS, ServerConfig, Settings, Size, SizeBound, Value,
};

use crate::role::Role;
use crate::workers::WorkerSettings;

/// Everything that is configured, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens, whom it lets in, how it logs and ends.
    pub server: ServerConfig,
    /// What jobs and files may take.
    pub workflows: WorkflowLimits,
    /// The folder of the web page, where one is served.
    pub web_root: Option<PathBuf>,
    /// What it does of the work of the installation.
    pub role: Role,
}

/// What jobs and files may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowLimits {
    /// Most bytes of one upload.
    pub upload_bytes: u64,
    /// Most bytes that files and graphs of one account may have together; `None` for no bound.
    pub stored_bytes: Option<u64>,
    /// Jobs that one account may submit in spans of time.
    pub submissions: Arc<[RateWindow]>,
    /// How much of the disk stays free of uploads; `None` leaves it to the store.
    pub min_free_bytes: Option<u64>,
    /// Room that is given up when the disk is full, for jobs to end.
    pub ballast_bytes: u64,
    /// How long an upload is kept when nothing else is asked for.
    pub upload_retention: SignedDuration,
    /// How long a job and its outputs are kept once it is over.
    pub job_retention: SignedDuration,
    /// How long a signed link works.
    pub link_lifetime: SignedDuration,
    /// How long bytes are kept that nothing refers to.
    pub sweep_grace: SignedDuration,
    /// The pause between two sweeps.
    pub sweep_interval: time::Duration,
    /// The time in which every blob is compared with its hash once.
    pub scrub_interval: SignedDuration,
    /// Jobs of one account that may wait.
    pub queue_per_account: u32,
    /// Jobs that may wait in all.
    pub queue_total: u32,
    /// Event streams of one account that may be open.
    pub streams_per_account: u32,
    /// Jobs of one account that run at once; one more slot is for the others.
    pub job_slots: u32,
    /// Threads that run nodes of one account; one more is for the others.
    pub threads: u32,
    /// Bytes of results that are kept for later jobs.
    pub cache_bytes: u64,
    /// Most bytes of pictures that one job may hold at once.
    pub job_memory_bytes: u64,
    /// How long a job may run.
    pub run_limit: time::Duration,
    /// How long a job may wait.
    pub queue_limit: SignedDuration,
    /// Hosts outside the public internet that pictures may be loaded from.
    pub private_hosts: Vec<Host>,
    /// A PEM file of certificate authorities to trust for pictures and workers, in addition to the public ones.
    pub extra_ca: Option<PathBuf>,
    /// The ComfyUI workers that jobs may run on.
    pub workers: WorkerSettings,
    /// Who sends the bytes of files.
    pub content: Content,
}

/// Who sends the bytes of files to their readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// This server, which compares them with their hash.
    Through,
    /// The bucket: readers get an address there that soon lapses.
    Redirect,
}

/// All keys of a server of workflows.
pub const KEYS: &[&[Key]] = &[&[LISTEN, DATA_DIR], SERVER_KEYS, WORKFLOW_KEYS];

/// The keys that settle what an account gets that is given nothing else, and nothing besides.
pub const LIMITS: &[&str] = &[
    "queue_per_account",
    "stored_bytes_per_account",
    "submissions_per_account",
    "streams_per_account",
    "job_retention",
];

/// While one job has a core, another one waits for the disk.
const SLOTS_PER_CORE: usize = 2;

const WORKFLOW_KEYS: &[Key] = &[
    Key {
        preset: Preset::Unset,
        ..key(
            "web_root",
            "DIR",
            "",
            "Folder of the ComfyUI web page to serve at /, as comfyui-frontend-package installs it",
        )
    },
    key(
        "role",
        "ROLE",
        "all",
        "What this replica does: api answers requests, worker runs jobs, all does both; others than all need store and blobs",
    ),
    key(
        "content",
        "HOW",
        "through",
        "Who sends the bytes of files: through this server, or above 16 KiB redirect to the bucket, at addresses that work for a minute",
    ),
    key("upload_limit", "SIZE", "1GiB", "Largest upload"),
    key(
        "min_free",
        "SIZE",
        "auto",
        "Uploads are refused while less of the disk is free; auto is 1GiB or a twentieth of the disk, whichever is more",
    ),
    key(
        "ballast",
        "SIZE",
        "16MiB",
        "Disk space that is reserved so that jobs can end when the disk is full; 0B reserves none",
    ),
    key(
        "upload_retention",
        "TIME",
        "24h",
        "How long an upload is kept, unless its request names another time",
    ),
    key(
        "job_retention",
        "TIME",
        "24h",
        "How long a job and its outputs are kept once it is over",
    ),
    key(
        "link_lifetime",
        "TIME",
        "15m",
        "How long a signed link to a file works",
    ),
    key(
        "sweep_interval",
        "TIME",
        "5m",
        "How often expired jobs and files are deleted",
    ),
    key(
        "sweep_grace",
        "TIME",
        "24h",
        "How long bytes are kept that nothing refers to any more, or not yet",
    ),
    key(
        "scrub_interval",
        "TIME",
        "20h",
        "The time in which all stored bytes are compared with their hashes once",
    ),
    key(
        "queue_per_account",
        "N",
        "1000",
        "Jobs of one account that may wait",
    ),
    key(
        "stored_bytes_per_account",
        "SIZE",
        "none",
        "Bytes that files and graphs of one account may have together; none is no bound",
    ),
    key(
        "submissions_per_account",
        "LIST",
        "none",
        "Jobs that one account may submit in spans of time, such as 60/1m,5000/24h",
    ),
    key("queue_total", "N", "10000", "Jobs that may wait in all"),
    key(
        "streams_per_account",
        "N",
        "1000",
        "Event streams of one account that may be open",
    ),
    key(
        "job_slots",
        "N",
        "auto",
        "Jobs of one account that run at once, with one more slot for others; auto is two for each processor core",
    ),
    key(
        "threads",
        "N",
        "auto",
        "Threads that run nodes of one account, with one more for others; auto is one for each processor core",
    ),
    key(
        "cache_size",
        "SIZE",
        "256MiB",
        "Memory for results that later jobs may use again",
    ),
    key(
        "job_memory",
        "SIZE",
        "2GiB",
        "Memory that the pictures of one job may take",
    ),
    key(
        "run_limit",
        "TIME",
        "1h",
        "How long a job may run before it expires, at most 24h",
    ),
    key(
        "queue_limit",
        "TIME",
        "24h",
        "How long a job may wait before it expires",
    ),
    Key {
        kind: Kind::List("HOST"),
        ..key(
            "private_hosts",
            "",
            "",
            "Hosts outside the public internet that pictures may be loaded from, separated by commas",
        )
    },
    Key {
        preset: Preset::Unset,
        ..key(
            "extra_ca",
            "FILE",
            "",
            "PEM file of certificate authorities to trust for pictures and workers, in addition to the public ones",
        )
    },
    Key {
        kind: Kind::List("URL"),
        ..key(
            "comfyui",
            "",
            "",
            "Addresses of ComfyUI workers, such as http://127.0.0.1:8188; repeat it, or separate them by commas",
        )
    },
    Key {
        kind: Kind::Tables,
        secret: true,
        ..key(
            "worker",
            "",
            "",
            "ComfyUI workers with a name, headers or authorities of their own: tables [[worker]] of the configuration file",
        )
    },
    key(
        "prefer",
        "ENGINE",
        "native",
        "What runs a graph that both can run: native or comfyui",
    ),
    key(
        "comfyui_previews",
        "METHOD",
        "auto",
        "Previews that workers make: auto, latent2rgb, taesd or none",
    ),
    key(
        "comfyui_slots",
        "COUNT",
        "2",
        "Jobs that each worker may have at once, from 1 to 16: one runs, and the inputs of the others are staged meanwhile",
    ),
];

const fn key(
    name: &'static str,
    placeholder: &'static str,
    preset: &'static str,
    help: &'static str,
) -> Key {
    Key {
        name,
        kind: Kind::Value(placeholder),
        preset: Preset::Value(preset),
        help,
        secret: false,
    }
}

impl Config {
    /// The configuration of a server that a program embeds: `values` by the names of [`KEYS`], spelled as in a file.
    /// Everything else is as by default.
    ///
    /// # Errors
    /// If a name is no key, or a value is not allowed.
    pub fn of(values: &[(&str, &str)]) -> Result<Self, ConfigError> {
        Self::read(&mut Settings::of(KEYS, values)?)
    }

    /// Reads all [`KEYS`].
    ///
    /// # Errors
    /// If a value is not allowed.
    pub fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let mut server = ServerConfig::read(settings)?;
        let mut workflows = WorkflowLimits::read(settings)?;
        workflows.workers.folder = Some(server.place.data_dir.join("workers"));
        let web_root = settings.read_optional("web_root")?;
        let role = Role::of(settings, &server.place)?;
        server.in_force = settings.in_force();
        Ok(Self {
            role,
            server,
            workflows,
            web_root,
        })
    }
}

/// How long a job may run.
struct RunLimit(time::Duration);

impl Value for RunLimit {
    const ALLOWED: &'static str =
        "a whole number with a unit and more than 0, such as 30s, 15m or 1h, at most 24h";

    fn read(text: &str) -> Option<Self> {
        let Duration(limit) = Duration::<1>::read(text)?;
        (limit <= LONGEST_RUN.unsigned_abs()).then_some(Self(limit))
    }

    fn show(&self) -> String {
        Duration::<1>(self.0).show()
    }
}

impl Value for Content {
    const ALLOWED: &'static str = "through or redirect";

    fn read(text: &str) -> Option<Self> {
        match text {
            "through" => Some(Self::Through),
            "redirect" => Some(Self::Redirect),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let name = match self {
            Self::Through => "through",
            Self::Redirect => "redirect",
        };
        format!("\"{name}\"")
    }
}

impl WorkflowLimits {
    /// What is kept of the disk for what must still be written when it is full.
    #[must_use]
    pub fn reserve(&self) -> ReserveOptions {
        ReserveOptions {
            min_free: self.min_free_bytes.map_or(MinFree::Auto, MinFree::Bytes),
            ballast_bytes: self.ballast_bytes,
        }
    }

    /// How an installation is opened for these limits, never anew where its rows are gone.
    #[must_use]
    pub fn opening(&self) -> OpenOptions {
        OpenOptions {
            tier: self.tier(),
            reserve: self.reserve(),
            fresh: false,
        }
    }

    /// Jobs that run at once: one more than one account may have, so that the others find a slot.
    pub(crate) fn slots(&self) -> u32 {
        self.job_slots.saturating_add(1)
    }

    /// What an account gets that is told nothing else.
    #[must_use]
    pub fn tier(&self) -> Tier {
        Tier {
            // Jobs at workers take no slot of this process.
            concurrent_jobs: self.job_slots.saturating_add(self.workers.jobs()),
            queued_jobs: self.queue_per_account,
            streams: self.streams_per_account,
            upload_bytes: self.upload_bytes,
            stored_bytes: self.stored_bytes.unwrap_or(Tier::UNBOUNDED_BYTES),
            submissions: self.submissions.clone(),
            upload_retention: self.upload_retention,
            job_retention: self.job_retention,
            ..Tier::standard()
        }
    }

    /// Reads their keys alone.
    pub(crate) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let mut size = |name| settings.read::<Size>(name).map(|size| size.0);
        let upload_bytes = size("upload_limit")?;
        let cache_bytes = size("cache_size")?;
        let job_memory_bytes = size("job_memory")?;
        let mut room = |name| {
            settings.read::<AutoSize>(name).map(|size| match size {
                AutoSize::Auto => None,
                AutoSize::Bytes(bytes) => Some(bytes),
            })
        };
        let min_free_bytes = room("min_free")?;
        let ballast_bytes = room("ballast")?.unwrap_or(ReserveOptions::BALLAST_BYTES);
        let mut count = |name| settings.read::<Count>(name).map(|count| count.0);
        let queue_per_account = count("queue_per_account")?;
        let queue_total = count("queue_total")?;
        let streams_per_account = count("streams_per_account")?;
        let job_slots = settings.read::<Auto<SLOTS_PER_CORE>>("job_slots")?.0;
        let threads = settings.read::<Auto<1>>("threads")?.0;
        let mut time = |name| {
            settings
                .read::<Duration<1>>(name)
                .map(|duration| duration.0)
        };
        let sweep_interval = time("sweep_interval")?;
        let mut span = |name| {
            time(name).map(|duration| SignedDuration::from_millis(duration.as_millis() as i64))
        };
        let job_retention = span("job_retention")?;
        let upload_retention = span("upload_retention")?;
        let link_lifetime = span("link_lifetime")?;
        let queue_limit = span("queue_limit")?;
        let sweep_grace = span("sweep_grace")?;
        let scrub_interval = span("scrub_interval")?;
        let RunLimit(run_limit) = settings.read("run_limit")?;
        let SizeBound(stored_bytes) = settings.read("stored_bytes_per_account")?;
        let RateWindows(submissions) = settings.read("submissions_per_account")?;
        Ok(Self {
            stored_bytes,
            submissions,
            private_hosts: settings.read("private_hosts")?,
            extra_ca: settings.read_optional("extra_ca")?,
            workers: WorkerSettings::read(settings)?,
            content: settings.read("content")?,
            upload_bytes,
            min_free_bytes,
            ballast_bytes,
            upload_retention,
            job_retention,
            link_lifetime,
            sweep_grace,
            sweep_interval,
            scrub_interval,
            queue_per_account,
            queue_total,
            streams_per_account,
            job_slots,
            threads,
            cache_bytes,
            job_memory_bytes,
            run_limit,
            queue_limit,
        })
    }
}

#[cfg(test)]
mod tests;
