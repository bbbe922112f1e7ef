//! The repository's own rules and chores, behind `cargo xtask`.
//!
//! Nothing here ships. Start at [`tidy`], which holds the walls of the house up: the table of who may depend on whom is
//! [`tidy::layers::LAYERS`]. A check is a pure function over a [`workspace::Workspace`], so that each has a test on a
//! small invented repository, and one test runs them all on the real one. A new command is a module here and a line in
//! `main.rs`.

pub mod ci;
pub mod commands;
pub mod dist;
pub mod finding;
pub mod source;
pub mod tidy;
pub mod tree;
pub mod workspace;

use std::path::Path;

/// Returns the root of the repository that this crate was built from.
#[must_use]
pub fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies one level below the root")
}
