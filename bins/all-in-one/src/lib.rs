//! Everything in one program: the server of workflows and of partner models, and the workflows' stack for a single graph
//! from the command line.
//!
//! The one place that knows both, and so the one where a model may be a workflow ([`models`]). [`assemble`] puts both stacks
//! over one installation and every family on one port; start at [`program`], then at [`run`](mod@run).
//!
#![doc = include_str!("../README.md")]

mod app;
mod catalog;
mod config;
mod families;
mod local;
pub mod models;
mod nodes;
pub mod program;
pub mod run;

pub use app::{App, AssembleError, assemble};
pub use config::{Config, KEYS};
pub use nodes::ResultsError;
