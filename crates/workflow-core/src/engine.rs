//! The port to what executes a graph.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use asset_store::{Blob, BoxError};
use async_trait::async_trait;
use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    ComputePermit, Epoch, JobError, JobErrorCode, JobId, JobOutput, ModelFile, NodeCatalog,
    NodeEvent, NodeId, OutputKind, OutputName, Plan, Preview, Requirements, ValidGraph,
};

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub account: AccountId,
    /// The graph.
    pub graph: Arc<ValidGraph>,
    /// The order in which its nodes are announced.
    pub plan: Arc<Plan>,
    /// What the submission wants to be written into pictures besides the graph, by key.
    pub extra_pnginfo: Map<String, Value>,
    /// What the API that took the job remembers of it.
    pub origin: Bytes,
}

/// What a run may use. Files are part of the graph: the engine reads their bytes by hash.
#[derive(Clone)]
pub struct RunContext {
    /// The key for partner nodes that came with the submission.
    pub secret: Option<SecretString>,
    /// The claim that the run belongs to.
    pub fence: Epoch,
    /// Fires when the run is to stop.
    pub cancel: CancellationToken,
    /// Its place among the runs of its worker: to be left while the run merely waits for another service, and to be taken
    /// again before anything is computed.
    pub permit: ComputePermit,
    /// Takes what the run tells and makes.
    pub sink: Arc<dyn RunSink>,
}

/// Whether an engine runs jobs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It does.
    Ready,
    /// None of its workers is up, and one may come: submissions are refused for now, and jobs wait.
    NotReady,
    /// The operator stopped it: submissions are refused until the operator starts it again, and jobs wait.
    Stopped,
}

/// How a run ends otherwise than well.
#[derive(Debug, PartialEq, Eq)]
pub enum RunError {
    /// It stopped because it was told to; the node that was about to run, if any.
    Canceled(Option<NodeId>),
    /// Something failed.
    Failed(JobError),
    /// The worker that ran it is gone, and the run with it. The job runs again once if it had committed nothing.
    Lost,
    /// It did not begin: no worker takes jobs any more. The job waits in the queue again.
    NoWorker,
}

/// Why an engine does not take a graph that fits its definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For people.
    pub message: String,
    /// What is wrong by node, as clients of the older API see it: the engine's own words.
    pub node_errors: Map<String, Value>,
}

/// How long [`EngineWorkers::judge`] may take, and how long the answer to a submission waits for the verdict of the worker that takes
/// the job at once; the submission is accepted after that.
pub const JUDGE_TIME: Duration = Duration::from_secs(2);

impl From<Refusal> for JobError {
    /// The failure of a job whose graph is refused when it runs.
    fn from(refusal: Refusal) -> Self {
        Self {
            node_errors: Box::new(refusal.node_errors),
            ..Self::new(JobErrorCode::InvalidWorkflow, refusal.message)
        }
    }
}

/// An output on its way to being committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutput {
    /// The node that made it, as the submission names it.
    pub node_id: NodeId,
    /// Which of the node's outputs it is, from 0.
    pub index: u32,
    /// What kind of thing it is.
    pub kind: OutputKind,
    /// Whether it is a look at something rather than a result.
    pub temp: bool,
    /// How it is to be named.
    pub name: OutputName,
    /// Its media type.
    pub content_type: String,
    /// Its bytes.
    pub content: OutputContent,
}

/// The bytes of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputContent {
    /// Made by this run.
    Bytes(Bytes),
    /// Made by an earlier run with the very same bytes to come out.
    Blob(Blob),
}

/// An output could not be committed; the run is to end with this.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The claim does not count any more: stop.
    #[error("the claim was superseded")]
    Superseded,
    /// The name leads out of the account's outputs.
    #[error(
        "the file name prefix leads outside the output folder; use a relative one without `..`"
    )]
    InvalidName,
    /// The earlier run's bytes are gone: make them again.
    #[error("the bytes of the earlier result are gone")]
    BlobGone,
    /// The account has used up its bytes.
    #[error(
        "the account has used up the bytes that it may store; delete files, or wait until jobs and files expire, and submit again"
    )]
    StorageQuota,
    /// The store failed.
    #[error("the output could not be stored")]
    Store(#[source] BoxError),
}

/// Why a picture that is shown and not kept was not handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameRefused {
    /// The claim does not count any more, and nobody takes the pictures of its run.
    #[error("nobody takes the pictures of this run any more")]
    Superseded,
    /// Who waits for it follows another replica, or nobody waits.
    #[error(
        "the picture reached nobody: it is shown and not kept, and no client follows the job at the server that ran it; open the socket at a server that runs jobs, or keep the picture with SaveImage"
    )]
    NobodyHere,
}

impl FrameRefused {
    /// How it ends the run of the node that made the picture.
    #[must_use]
    pub fn ends_run(self, node: NodeId, class: String) -> RunError {
        match self {
            Self::Superseded => RunError::Canceled(Some(node)),
            Self::NobodyHere => RunError::Failed(JobError {
                node_id: Some(node),
                class_type: Some(class),
                exception_type: Some("ConnectionError".to_owned()),
                ..JobError::new(JobErrorCode::NodeExecutionError, self.to_string())
            }),
        }
    }
}

/// Executes graphs.
///
/// **Contract.** The order of nodes is the engine's own, and it may run nodes that are not in the plan; what clients see of the
/// progress never goes backwards all the same. A failing or panicking node ends its own run and nothing else. The run ends soon
/// after `cancel` fires, with [`RunError::Canceled`]. A run whose worker is gone ends with [`RunError::Lost`]; the engine runs the
/// job elsewhere when it comes again. One that waits within [`Engine::run`] while no worker takes jobs any more ends with
/// [`RunError::NoWorker`], and [`Engine::capacity`] is 0 until one does. A refusal that comes after the submission ends the run with
/// the [`JobError`] made of it. A run that computes in another process moves out of its permit ([`ComputePermit::move_out`]).
/// Whatever a run makes goes through the sink;
/// nothing of it is kept by the engine but results that another run may use.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Whether it runs jobs now.
    fn availability(&self) -> Availability;

    /// The classes it can run, as far as it is known: also while it is not available.
    fn nodes(&self) -> NodeCatalog;

    /// How many more jobs with these needs could begin now; 0 as well if it lacks something that they need. A hint: a run
    /// beyond it waits within [`Engine::run`].
    fn capacity(&self, needs: &Requirements) -> usize;

    /// The files that a graph names besides those of its account, such as checkpoints.
    fn model_files(&self, graph: &ValidGraph) -> BTreeSet<ModelFile>;

    /// Its workers, if it runs graphs in other processes.
    fn workers(&self) -> Option<&dyn EngineWorkers>;

    /// Runs a graph to its end.
    async fn run(&self, ticket: Ticket, context: RunContext) -> Result<(), RunError>;
}

/// The workers of an engine that runs graphs in other processes.
#[async_trait]
pub trait EngineWorkers: Send + Sync {
    /// Looks at a graph that fits the definitions before it is taken in, within [`JUDGE_TIME`]. Workers that cannot tell by then
    /// accept. What was accepted may still never come to run.
    async fn judge(&self, ticket: &Ticket) -> Result<(), Refusal>;

    /// Whether a worker with nothing to do has all that a job needs, so that it takes the job, or refuses it, at once.
    fn is_idle_for(&self, needs: &Requirements) -> bool;

    /// Every worker, and why it does not take a job with these needs now.
    fn explain(&self, job: JobId, needs: &Requirements) -> Vec<WorkerNote>;

    /// How long one of them took to start, where that was measured.
    fn start_time(&self) -> Option<Duration>;
}

/// What there is to say of a worker and a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerNote {
    /// The name of the worker.
    pub worker: String,
    /// Whether it has the job.
    pub has_job: bool,
    /// Why it does not take the job, such as `missing class KSampler`; nothing if it has the job, or could take it now.
    pub why_not: Option<String>,
}

/// Takes what a run tells and makes.
#[async_trait]
pub trait RunSink: Send + Sync {
    /// A node got on. Never blocks.
    fn progress(&self, event: NodeEvent);

    /// There is something to look at; the latest wins. Never blocks.
    fn preview(&self, preview: Preview);

    /// A node wrote a line. Never blocks.
    fn text(&self, node: &NodeId, line: &str);

    /// A finished picture (PNG) that is shown and not kept: in order, none left out; waits while the other side is busy.
    /// Pictures do not travel between replicas: where others share the store, and may have the follower, somebody must follow here.
    async fn frame(&self, node: &NodeId, png: Bytes) -> Result<(), FrameRefused>;

    /// Makes an output durable and visible; answers it with its name.
    async fn commit(&self, output: RunOutput) -> Result<JobOutput, CommitError>;
}
