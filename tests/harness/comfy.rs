//! A simulated ComfyUI: its routes, its socket, its queue and its ways to go wrong, on demand.
//!
//! What it says and in which order is that of the recorded conversations. Its nodes make bytes that name the inputs they were
//! made of, so a test can tell whose output it got.

mod catalog;
mod execute;
mod http;
mod routes;
mod socket;
mod world;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use world::{Fault, Ran, Version};
use world::{Shared, World};

/// A running ComfyUI. Dropping it ends it.
#[derive(Debug)]
pub struct Comfy {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Comfy {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start(version: Version) -> io::Result<Self> {
        Self::start_with(version, &["a.safetensors"], &[]).await
    }

    /// Starts one with these checkpoints, and without these classes.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start_with(
        version: Version,
        checkpoints: &[&str],
        without: &[&str],
    ) -> io::Result<Self> {
        Self::start_at(0, version, checkpoints, without).await
    }

    /// As [`Comfy::start_with`], on this port.
    ///
    /// # Errors
    /// If the port cannot be had.
    pub async fn start_at(
        port: u16,
        version: Version,
        checkpoints: &[&str],
        without: &[&str],
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(World::new(version, checkpoints, without)));
        let mut tasks = JoinSet::new();
        tasks.spawn(http::accept(listener, Arc::clone(&shared)));
        tasks.spawn(execute::run(Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            tasks,
        })
    }

    /// Its address, as it is configured.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Goes wrong in this way from now on, or the next time.
    pub fn fault(&self, fault: Fault) {
        self.shared.set(fault);
    }

    /// Answers only requests that have this header, with this value, from now on.
    pub fn require(&self, name: &str, value: &str) {
        let required = (name.to_ascii_lowercase(), value.to_owned());
        self.shared.world().required = Some(required);
    }

    /// Loses its queue, its history and its connections, as a process does that is killed and started again.
    pub fn restart(&self) {
        self.shared.restart();
    }

    /// Writes down in this file what it runs from now on.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep_book(&self, path: &Path) -> io::Result<()> {
        let book = File::options().create(true).append(true).open(path)?;
        self.shared.world().book = Some(book);
        Ok(())
    }

    /// How long every step of a sampler and every wait takes from now on.
    pub fn pace(&self, step: Duration) {
        self.shared.world().step = step;
    }

    /// Ends no wait before there is this file, from now on.
    pub fn hold(&self, until: &Path) {
        self.shared.world().held_until = Some(until.to_owned());
    }

    /// The prompts that it began, in order, and how each ended.
    #[must_use]
    pub fn ran(&self) -> Vec<Ran> {
        self.shared.world().ran.clone()
    }

    /// How often a prompt was interrupted that nobody asked to interrupt.
    #[must_use]
    pub fn wrong_interrupts(&self) -> usize {
        self.shared.world().wrong_interrupts
    }

    /// How often it was asked to interrupt what runs, rather than to cancel a prompt.
    #[must_use]
    pub fn interrupts(&self) -> usize {
        self.shared.world().interrupts
    }

    /// How many files were uploaded.
    #[must_use]
    pub fn uploads(&self) -> usize {
        self.shared.world().uploads
    }

    /// The bodies of all submissions that it took.
    #[must_use]
    pub fn submissions(&self) -> Vec<serde_json::Value> {
        self.shared.world().submissions.clone()
    }

    /// The traces that submissions named.
    #[must_use]
    pub fn traces(&self) -> Vec<String> {
        self.shared.world().traces.clone()
    }

    /// Puts a prompt of somebody else into its queue, and answers its id.
    pub fn foreign(&self, graph: &serde_json::Value) -> String {
        self.shared.foreign(graph)
    }

    /// Waits until something about its prompts is so.
    ///
    /// # Panics
    /// If it is not so within half a minute.
    pub async fn until(&self, is_so: impl Fn(&[Ran]) -> bool) {
        self.until_world(|world| is_so(&world.ran)).await;
    }

    /// Waits until it takes an upload slowly.
    ///
    /// # Panics
    /// If it does not within half a minute.
    pub async fn until_slow(&self) {
        self.until_world(|world| world.was_slow).await;
    }

    async fn until_world(&self, is_so: impl Fn(&World) -> bool) {
        let waited = async {
            loop {
                let changed = self.shared.changed.notified();
                if is_so(&self.shared.world()) {
                    return;
                }
                // The clock as well: what is waited for may have happened before.
                let _ = tokio::time::timeout(Duration::from_millis(20), changed).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), waited).await;
        assert!(waited.is_ok(), "waited in vain: {:?}", self.ran());
    }

    /// Ends it for good: its port refuses connections.
    pub async fn stop(mut self) {
        self.shared.restart();
        self.tasks.shutdown().await;
    }
}
