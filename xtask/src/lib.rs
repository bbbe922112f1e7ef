//! The repository's own rules and chores, behind `cargo xtask`.
//!
//! Nothing here ships. Start at [`tidy`], which holds the walls of the house up: the table of who may depend on whom is
//! [`tidy::layers::LAYERS`]. A check is a pure function over a [`workspace::Workspace`], so that each has a test on a
//! small invented repository, and one test runs them all on the real one. A new command is a module here and a line in
//! `main.rs`.

#[path = "../bench/src/lib.rs"]
pub mod bench;
pub mod ci;
pub mod commands;
#[path = "../crash/src/lib.rs"]
pub mod crash;
pub mod finding;
#[path = "../../tests/harness/load/form.rs"]
pub mod form;
#[path = "../../tests/harness/load/graphs.rs"]
pub mod graphs;
#[path = "../../tests/harness/load/http.rs"]
pub mod http;
#[path = "../../tests/harness/load/random.rs"]
pub mod random;
#[path = "../../tests/harness/load/server.rs"]
pub mod server;
pub mod source;
pub mod tidy;
pub mod tree;
#[path = "../../tests/harness/load/usage.rs"]
pub mod usage;
pub mod workspace;

pub use crash::power;

use std::path::Path;

/// Returns the root of the repository that this crate was built from.
#[must_use]
pub fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies one level below the root")
}
