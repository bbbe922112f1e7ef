//! The older v1 dialect, translated: what its clients send into submissions, and jobs into what its clients expect.
//!
//! Pure: no clock, no wire, no state machine of its own. A v1 status, a frame of its socket, an entry of its history or
//! queue is a view of a `Job` and of what its run told; what v1 must remember of a submission travels in the job's opaque
//! `origin` bytes ([`Origin`]). The one port is [`UserFiles`]: settings and saved workflows of an account. Start at
//! [`PromptRequest`] for what comes in, at [`Projector`] for what a socket hears.
//!
#![doc = include_str!("../README.md")]

mod entry;
mod exception;
mod files;
mod frames;
mod node_info;
mod origin;
mod parts;
mod problem;
mod projector;
mod prompt;
mod prompt_id;
mod status;
mod user_files;
mod view;

pub mod contract;

pub use entry::{
    JobRecord, Queued, history_entry, history_v2_entry, history_v2_item, job_detail, job_entry,
    queue_item,
};
pub use exception::{exception_type, failure};
pub use files::{FileKind, UnknownFileKind};
pub use frames::Frame;
pub use node_info::node_info;
pub use origin::{Origin, preview_method, workflow_of};
pub use parts::Parts;
pub use problem::{PromptProblem, node_errors, validation_problem};
pub use projector::Projector;
pub use prompt::{PromptRefusal, PromptRequest};
pub use prompt_id::{job_of, labels, prompt_id};
pub use status::{JobWord, status_word};
pub use user_files::{
    FileContent, FileWrite, MemoryUserFiles, Renamed, UserFile, UserFiles, UserFilesBounds,
    UserFilesError,
};
pub use view::{InvalidView, Shown, ViewRequest, ViewTarget};
