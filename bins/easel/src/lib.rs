//! The command line of users: runs graphs on a server, calls partner models, and looks after jobs and assets.
//!
//! It speaks the public contract through the crate `client` and knows nothing of how a server works. Standard output has
//! what was asked for, standard error everything else. It asks questions only on a terminal. Start at `program`.
//!
#![doc = include_str!("../README.md")]

pub mod program;

mod arguments;
mod commands;
mod credentials;
mod failure;
mod fields;
mod follow;
mod graph;
mod inputs;
mod media;
mod outputs;
mod pictures;
mod progress;
mod session;
mod terminal;
mod text;
