//! A client of the public contract, the v2 workflow API and the model router, and of the admin API, over HTTP with TLS.
//!
//! It knows the wire and nothing of how a server works inside, so it talks to every server of the contract: it ignores
//! fields that it does not know and keeps them, and it treats optional routes as optional. It prints nothing, reads no
//! environment and spawns no task. Start at [`Client::new`]; follow a job with [`Client::follow`].
//!
#![doc = include_str!("../README.md")]

mod address;
mod admin;
mod assets;
mod document;
mod error;
mod events;
mod follow;
mod jobs;
mod models;
mod multipart;
mod refusal;
mod transport;
mod wire;

pub use address::{BaseUrl, BaseUrlError};
pub use admin::{Area, UsageFilter};
pub use assets::{Fetched, FileToUpload};
pub use document::InputSchema;
pub use error::ClientError;
pub use events::{Event, EventReader};
pub use follow::{FollowOptions, Follower, Update};
pub use http::Method;
pub use jobs::{JobFilter, Submission};
pub use models::{CallAnswer, CallNews};
pub use refusal::Refusal;
pub use transport::{Client, ClientConfig, Probe};
pub use wire::{
    Asset, Job, JobError, JobLog, JobPage, Model, ModelPage, Output, Preview, Progress, StatusEvent,
};
