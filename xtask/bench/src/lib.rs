//! Measures the real binary, driven by client processes, against the figures that it must reach.
//!
//! A figure is only worth something beside what the machine could do at that moment. Every report therefore shows the
//! machine, how busy it was and what its disk took for an fsync, and what has a floor is measured against it in the same
//! run, turn by turn.

pub mod against;
pub mod claim;
pub mod client;
pub mod clients;

pub mod cloud;
pub mod comfy;
pub mod counts;
pub mod curves;
pub mod disk;
pub mod engine;
pub mod fair;
pub mod machine;
pub mod report;
pub mod router;
pub mod samples;
pub mod v2;
pub mod webhooks;

use std::future::Future;
use std::io::{self, Write};

/// The program that benches run as clients and partners: the one whose hidden commands they are.
const DRIVER: &str = "xtask";

/// Writes to standard error how far the run is; the report alone goes to standard output.
pub(crate) fn say(what: &str) {
    let _ = writeln!(io::stderr(), "bench: {what}");
}

/// Runs a bench to its end or to an interrupt. Dropping the work kills every process that it started.
fn until_interrupted<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        tokio::select! {
            outcome = work => outcome,
            interrupt = tokio::signal::ctrl_c() => {
                interrupt?;
                Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted; nothing is left behind"))
            }
        }
    })
}
