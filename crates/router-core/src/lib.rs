//! The model router: models and their catalog, calls that pay once, and limits that hold.
//!
//! Decides everything about a call to a partner's model and does nothing itself: no clock, no socket, no row, no task.
//! Partners and rows are behind ports ([`Provider`], [`Calls`], [`Usage`]); time and ids are arguments. What is forwarded is
//! never touched: bodies are the bytes that came. Wire formats live above.

mod answer;
mod bucket;
mod calls;
mod error;
mod id;
mod price;
mod provider;
mod timer;
mod usage;

pub use answer::{Answer, Outcome, Refusal};
pub use bucket::{Bucket, KeyAfter};
pub use calls::{
    Calls, CallsError, Claimed, Dispatched, Ending, Generation, KeyClaim, KeyDigest, Settled,
    Unfinished,
};
pub use error::{RouterError, Violation, ViolationStep};
pub use id::{GenerationId, InvalidModelId, ModelId, RequestId};
pub use price::{Charge, Price};
pub use provider::{
    Collected, Done, Failure, Handle, MAX_HANDLE_BYTES, Provider, Ran, Submission, Submitted,
    Written,
};
pub use timer::Timer;
pub use usage::{
    CallRecord, GenerationUsage, ModelTotal, Usage, UsageCursor, UsageQuery, UsageRow,
};
