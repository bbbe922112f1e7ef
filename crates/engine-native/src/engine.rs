//! Runs graphs: several jobs at once, several nodes of one graph at once, on threads of its own.
//!
//! What is decided (what may run, what may be told) lies in `machine`; what a result is known by in `key`; one node's turn on
//! a thread in `call`; `run` moves values between them and speaks to the sink. Nothing recurses over a graph.

mod announce;
mod cache;
mod call;
mod compile;
mod download;
mod got;
mod host;
mod key;
mod machine;
mod memory;
mod run;
mod threads;

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use asset_store::BlobStore;
use async_trait::async_trait;
use tokio::sync::oneshot;
use workflow_core::{
    Availability, Engine, EngineWorkers, JobError, JobErrorCode, ModelFile, NodeCatalog,
    NodeDefinition, Requirements, RunContext, RunError, Ticket, ValidGraph,
};

use crate::Node;
use crate::node::{Digests, Files};
use cache::Cache;
use compile::{Classes, compile, is_quick};
pub use download::Downloads;
use run::Run;
use threads::NodeThreads;
pub use threads::Overdue;

/// How much an engine may use.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Threads that nodes of one account run on. One more is left to the others, and as many share the work on large pictures.
    pub threads: usize,
    /// Bytes of results kept for later runs.
    pub cache_bytes: u64,
    /// Bytes that one job may hold while it runs.
    pub job_memory_bytes: u64,
    /// How files behind `https` addresses are fetched; without it, graphs that name some fail.
    pub downloads: Option<Downloads>,
}

/// Runs graphs in this process.
///
/// Cheap to clone; clones share threads and results. Needs a tokio runtime around [`Engine::run`], to read files and to hand
/// on what is made.
#[derive(Clone)]
pub struct NativeEngine {
    inner: Arc<Inner>,
}

struct Inner {
    /// The classes that it was made with, and their definitions.
    own: Vec<Defined>,
    /// Those and what is offered besides; a run keeps what it began with.
    offer: RwLock<Arc<Offer>>,
    blobs: Arc<dyn BlobStore>,
    digests: Arc<Digests>,
    cache: Cache,
    threads: Arc<NodeThreads>,
    job_memory_bytes: u64,
    downloads: Option<Downloads>,
}

/// Classes, and what is told of them.
struct Offer {
    classes: Classes,
    catalog: NodeCatalog,
}

/// A definition and its class. A definition has some kilobytes, so it is made once.
type Defined = (Arc<NodeDefinition>, Arc<dyn Node>);

fn defined(node: Arc<dyn Node>) -> Defined {
    (Arc::new(node.definition()), node)
}

impl Offer {
    /// Of two classes with one name the later stands.
    fn of(defined: impl Iterator<Item = Defined> + Clone) -> Arc<Self> {
        let definitions = defined.clone().map(|(definition, _)| definition);
        let classes = defined.map(|(definition, node)| (definition.class.clone(), node));
        Arc::new(Self {
            classes: classes.collect(),
            catalog: NodeCatalog::of(definitions),
        })
    }
}

impl NativeEngine {
    /// An engine with all classes of [`crate::nodes::all`].
    ///
    /// # Errors
    /// If its threads cannot be started.
    pub fn new(blobs: Arc<dyn BlobStore>, config: EngineConfig) -> io::Result<Self> {
        Self::with_nodes(blobs, config, crate::nodes::all())
    }

    /// An engine with these classes; of two with one name the later stands.
    ///
    /// # Errors
    /// If its threads cannot be started.
    pub fn with_nodes(
        blobs: Arc<dyn BlobStore>,
        config: EngineConfig,
        nodes: Vec<Arc<dyn Node>>,
    ) -> io::Result<Self> {
        let threads = NodeThreads::start(config.threads.max(1))?;
        let own: Vec<Defined> = nodes.into_iter().map(defined).collect();
        let inner = Inner {
            offer: RwLock::new(Offer::of(own.iter().cloned())),
            own,
            blobs,
            digests: Arc::default(),
            cache: Cache::new(config.cache_bytes),
            threads: Arc::new(threads),
            job_memory_bytes: config.job_memory_bytes,
            downloads: config.downloads,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Offers these classes besides those that it was made with, in place of whatever was offered before; of two with one
    /// name the later stands. What runs goes on with what it began with.
    pub fn offer(&self, nodes: &[Arc<dyn Node>]) {
        let more: Vec<Defined> = nodes.iter().cloned().map(defined).collect();
        let offer = Offer::of(self.inner.own.iter().chain(&more).cloned());
        *self
            .inner
            .offer
            .write()
            .unwrap_or_else(PoisonError::into_inner) = offer;
    }
}

impl NativeEngine {
    /// Calls of nodes that go on after their jobs ended.
    #[must_use]
    pub fn overdue(&self) -> Overdue {
        self.inner.threads.overdue()
    }

    /// How many calls of one account run at a time.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.inner.threads.count()
    }

    /// Does work on one of the engine's threads; `None` if it panics.
    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        self.inner.threads.spawn(move || {
            // If nobody waits any more, the run was given up.
            let _ = done.send(work());
        });
        answer.await.ok()
    }
}

impl Inner {
    fn offer(&self) -> Arc<Offer> {
        Arc::clone(&self.offer.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Engine for NativeEngine {
    /// It lives in this process, so it is always ready.
    fn availability(&self) -> Availability {
        Availability::Ready
    }

    fn nodes(&self) -> NodeCatalog {
        self.inner.offer().catalog.clone()
    }

    /// As much as its worker has slots for: its threads take turns.
    fn capacity(&self, needs: &Requirements) -> usize {
        let offer = self.inner.offer();
        let has = |class: &String| offer.catalog.get(class).is_some();
        match needs.files.is_empty() && needs.classes.iter().all(has) {
            true => usize::MAX,
            false => 0,
        }
    }

    /// None: its nodes read files of the account alone.
    fn model_files(&self, _: &ValidGraph) -> BTreeSet<ModelFile> {
        BTreeSet::new()
    }

    /// Its definitions say everything.
    fn workers(&self) -> Option<&dyn EngineWorkers> {
        None
    }

    /// Announces nodes in plan order.
    async fn run(&self, ticket: Ticket, context: RunContext) -> Result<(), RunError> {
        if context.cancel.is_cancelled() {
            return Err(RunError::Canceled(ticket.plan.order.first().cloned()));
        }
        let ticket = Arc::new(ticket);
        let files = Arc::new(Files {
            blobs: Arc::clone(&self.inner.blobs),
            runtime: tokio::runtime::Handle::current(),
            digests: Arc::clone(&self.inner.digests),
        });
        let inner = Arc::clone(&self.inner);
        let ticket_to_compile = Arc::clone(&ticket);
        let compiling = move || {
            let classes = &inner.offer().classes;
            compile(&ticket_to_compile, classes, &files, &inner.cache)
        };
        let compiled = match is_quick(&ticket) {
            true => catch_unwind(AssertUnwindSafe(compiling))
                .inspect_err(|_| tracing::error!("the engine panicked outside a node"))
                .ok(),
            false => self.on_thread(compiling).await,
        };
        let compiled = compiled.ok_or_else(|| {
            let message = "the engine failed while it prepared the run; submit the job again";
            RunError::Failed(JobError::new(JobErrorCode::EngineError, message))
        })?;
        let compiled = compiled.map_err(RunError::Failed)?;
        Run::new(Arc::clone(&self.inner), ticket, context, compiled)
            .finish()
            .await
    }
}

impl std::fmt::Debug for NativeEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeEngine")
            .field("classes", &self.inner.offer().catalog.len())
            .field("threads", &self.threads())
            .finish_non_exhaustive()
    }
}
