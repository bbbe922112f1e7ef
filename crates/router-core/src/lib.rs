//! The model router: models and their catalog, calls that pay once, and limits that hold.
//!
//! Decides everything about a call to a partner's model and does nothing itself: no clock, no socket, no row, no task.
//! Partners and rows are behind ports ([`Provider`], [`Calls`], [`CallQueue`], [`Quota`], [`Admissions`], [`Usage`], [`KeptResults`],
//! [`CallRetention`], [`published::PublishedModels`]); time and ids are arguments. What is forwarded is
//! never touched: bodies are the bytes that came. Wire formats live above. Start at [`Router`] for what a caller may ask, at
//! [`OpenCall`] for how a call runs, at [`Bucket`] for how it fails.
//!
#![doc = include_str!("../README.md")]

mod admissions;
mod answer;
mod blocking_pool;
mod body;
mod bucket;
mod call;
mod calls;
mod catalog;
mod cursor;
mod error;
mod form;
mod id;
mod json;
mod kept;
mod labels;
mod lease;
mod limit;
mod memory;
mod model;
mod price;
mod provider;
mod queue;
mod quota;
mod router;
mod schema;
mod serving;
mod stream;
mod timer;
mod usage;

pub mod contract;
pub mod published;

pub use admissions::{Admissions, CallAdmission, CallEnd, SequentialAdmissions, SequentialCalls};
pub use answer::{Answer, Outcome, REPLAY_CAP_BYTES, Refusal};
pub use blocking_pool::BlockingPool;
pub use bucket::{Bucket, KeyAfter};
pub use call::{
    Answered, CallHead, Delivery, Estimate, Execution, OpenCall, OpenEstimate, QueuedResult,
    RenewError, RequestStatus, RequestsPage, SubmittedRequest, Waiter,
};
pub use calls::{
    Acceptance, CallRetention, Calls, CallsError, Claimed, Dispatched, Ending, Generation,
    KeyClaim, KeyDigest, KeyStage, KeyTells, KnownKey, Settled, Unfinished,
};
pub use catalog::{Catalog, CatalogFollower, DuplicateModel, LiveCatalog, Page, Withheld, nearest};
pub use cursor::{CursorKey, InvalidCursor};
pub use error::{LeftCall, RouterError, Violation, ViolationStep};
pub use form::{ModelForm, PictureEncoding, ReturnKind, Returns};
pub use id::{GenerationId, InvalidModelId, ModelId, RequestId};
pub use json::read_leniently;
pub use kept::{
    DueResult, KeepFault, KeepOutcome, KeptFile, KeptResult, KeptResults, KeptState,
    MOST_ADDRESS_BYTES, MOST_RESULTS, ResultAddress, ResultId, ResultLeases, ResultLink,
    ResultPointers, ResultTurn,
};
pub use labels::{read_labels, write_labels};
pub use lease::{Lease, OwnerId, Ownership, Ownerships};
pub use limit::parse as read_limit;
pub use memory::MemoryCalls;
pub use model::{ChargesOnPolicyRejection, Model, ModelDefinition, Polling};
pub use price::{Charge, Function, Operator, Price, PricedMember, Term};
pub use provider::{
    Collected, Contact, Done, Failure, Handle, MAX_HANDLE_BYTES, Provider, Ran, Submission,
    Submitted,
};
pub use queue::{
    CallQueue, Cancelled, Enqueued, QueueBounds, QueueFailure, QueueState, QueuedCall,
    QueuedRequest, Turns, WaitingCall,
};
pub use quota::{Admission, Load, MemoryQuota, Permit, Permits, Quota, QuotaError};
pub use router::{ListQuery, ModelPage, Router, RouterConfig, RouterPorts};
pub use schema::{SchemaDocument, SchemaError};
pub use serving::{Alternate, FailedAttempt, Serving, Translated, Translation, Unsaid};
pub use stream::{AnswerSink, AnswerStream, StreamEnding, StreamStep};
pub use timer::Timer;
pub use usage::{
    Breakdown, CallRecord, GenerationUsage, ModelTotal, Usage, UsageCursor, UsageQuery, UsageRow,
};

/// What the fuzzer calls of what is private otherwise.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Opens a page cursor: see `cursor::fuzzing`.
    pub fn cursor(bytes: &[u8]) {
        crate::cursor::fuzzing::cursor(bytes);
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with tests that read seeds from files, and that may stop"
)]
#[path = "../../../tests/fuzz/entries/changed.rs"]
mod fuzzed;
