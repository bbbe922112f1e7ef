//! Workflows: graphs, their validation, the job machine, the queue, progress, events and the worker loop.
//!
//! Decides everything about a job and does nothing itself: no clock, no file, no socket, no task. Rows, bytes and engines
//! are behind ports ([`JobStore`], [`JobQueue`], [`Changes`], [`Engine`], [`ImageTools`]); time and ids are arguments. Wire
//! formats live above. Start at [`Jobs`] for what a caller may ask, at [`Worker`] for how a job runs, at [`Job::apply`] for
//! its states.
//!
#![doc = include_str!("../README.md")]

mod blocking_pool;
mod changes;
mod completion_rate;
pub mod deployment;
mod engine;
mod engines;
mod fair_queue;
mod graph;
mod hub;
mod id;
mod image_tools;
mod job;
mod jobs;
mod memory;
mod node;
mod output;
mod permit;
mod plan;
mod progress;
mod python;
mod queue;
mod references;
mod report;
mod requirements;
mod secrets;
mod shares;
mod store;
mod timer;
mod validate;
mod worker;

pub mod contract;

pub use blocking_pool::{Abandoned, BlockingPool};
pub use changes::{Change, ChangeKind, ChangeNumber, Changes, ChangesSince, OneReplica, Report};
pub use completion_rate::CompletionRate;
pub use engine::{
    Availability, CommitError, Engine, EngineWorkers, FrameRefused, JUDGE_TIME, OutputContent,
    Refusal, RunContext, RunError, RunOutput, RunSink, Ticket, WorkerNote,
};
pub use engines::{Engines, NamedEngine};
pub use fair_queue::{FairQueue, Next, QueuedAs, turn};
pub use graph::{
    AssetReference, Graph, GraphError, Input, MAX_NODE_ID_BYTES, MAX_NODES, MAX_TEXT_BYTES, Node,
    NodeInput, ResolvedFile, ResolvedFiles, ValidGraph, ValidNode,
};
pub use hub::{
    AccountEvent, AccountFollower, AccountNews, AccountTold, Follower, Hub, JobChange, Live,
    Preview,
};
pub use id::{JobId, NodeId, WorkerId};
pub use image_tools::{
    ImageTools, ImageToolsError, MadePicture, PictureChannel, PictureInfo, PreviewFormat,
    PreviewOptions,
};
pub use job::{Epoch, IllegalEvent, Job, JobError, JobErrorCode, JobEvent, JobStatus, Metadata};
pub use jobs::{
    Explanation, JobPage, JobPorts, JobView, Jobs, JobsConfig, JobsError, Submission, Submitted,
    WholeJob,
};
pub use memory::MemoryJobs;
pub use node::{
    Autogrow, AutogrowNames, DynamicOption, FileSource, HiddenInput, InputDefinition, MATCH_TYPE,
    NO_FILE, NodeCatalog, NodeDefinition, OutputDefinition, Partner, Socket,
};
pub use output::{JobOutput, NewOutput, OutputKind, OutputName};
pub use permit::ComputePermit;
pub use plan::Plan;
pub use progress::{NodeEvent, Progress, ProgressTracker};
pub use python::{python_repr, python_str};
pub use queue::{
    Claim, ClaimRequest, Demand, JobQueue, LeaseNews, PresentWorkers, QueueDepth, Rooms,
    WaitingJobs, overdue,
};
pub use references::Reference;
pub use report::{NodeReport, RunReport};
pub use requirements::{EngineName, ModelFile, RequirementId, RequirementSet, Requirements};
pub use secrets::Secrets;
pub use shares::{Share, Shares, Taken};
pub use store::{
    Durability, InsertFacts, InsertJob, InsertJobOutcome, JobBody, JobCursor, JobLog, JobQuery,
    JobStore, Placement, QueueBounds, SaveJob, SaveOutcome, StoreError,
};
pub use timer::Timer;
pub use validate::{
    ComfyuiNeed, NodeErrors, Validation, ValidationError, ValidationErrorKind, comfyui_classes,
    needs_comfyui_worker, validate,
};
pub use worker::{Worker, WorkerConfig};
