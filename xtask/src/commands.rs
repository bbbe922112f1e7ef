//! The commands of `cargo xtask`, and which module does each.

use std::io::{self, Write};

use clap::Subcommand;

use bench::{cloud, comfy, counts, curves, engine, fair, router, v2, webhooks};
use crash::{fleet, pool, power};

use crate::{ci, dist, repository_root, tidy};

/// One command with its options.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check layers, domain purity, file shapes and documents.
    Tidy,
    /// Run formatting, clippy, tidy and every test; stop at the first failure.
    Ci,
    /// Make what a release ships: archives of the programs with licences, manual pages, a bill of materials and checksums.
    Dist(dist::Options),
    /// Measure the real binary against the figures that it must reach.
    #[command(subcommand)]
    Bench(Bench),
    /// Kill the real binary again and again and check that nothing acknowledged is lost.
    Crash(crash::Options),
    /// Let everything go wrong around many replicas, and judge what their clients were told.
    Fleet(fleet::Options),
    /// The same as `crash` on a disk that loses what was not synced.
    Power(power::Options),
    /// Let ComfyUI workers go wrong, die and race with cancels, and judge what clients were told.
    Pool(pool::Options),
    /// A process of clients, started by a bench; takes its plan from standard input.
    #[command(hide = true)]
    BenchClient,
    /// A process of the bench of fairness; takes its role from standard input.
    #[command(hide = true)]
    BenchFairRole,
    /// A partner that a bench of the router calls.
    #[command(hide = true)]
    BenchPartner,
    /// A plain proxy beside the router that is measured.
    #[command(hide = true)]
    BenchProxy {
        /// Where everything goes.
        partner: std::net::SocketAddr,
    },
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// The v2 API and jobs.
    V2(v2::Options),
    /// Nodes, codecs and graphs of the native engine.
    Engine(engine::Options),
    /// The model router, beside nginx and a plain proxy.
    Router(router::Options),
    /// What one account feels while another attacks.
    Fair(fair::Options),
    /// Replicas over PostgreSQL and a bucket, beside other queues in the same PostgreSQL.
    Cloud(cloud::Options),
    /// Messages to receivers that hang, fail, redirect and answer slowly.
    Webhooks(webhooks::Options),
    /// Jobs at ComfyUI workers: what they cost, how soon a worker is chosen, and what four workers do.
    Comfy(comfy::Options),
    /// Instructions of calls and jobs, held against those that are committed.
    Counts(counts::Options),
    /// How cost grows with stored jobs, calls in flight, models, queued requests and accounts, as lines and pictures.
    Curves(curves::Options),
}

impl Command {
    /// Runs the command and writes its report; returns whether everything was as it should be.
    ///
    /// # Errors
    /// When something could not be read, started or written; the report then says nothing about the code.
    pub fn run(self, out: &mut dyn Write) -> io::Result<bool> {
        match self {
            Self::Tidy => tidy::run(repository_root(), out),
            Self::Ci => ci::run(repository_root(), out),
            Self::Dist(options) => dist::run(repository_root(), &options, out),
            Self::Bench(Bench::V2(options)) => v2::run(repository_root(), &options, out),
            Self::Bench(Bench::Engine(options)) => engine::run(repository_root(), &options, out),
            Self::Bench(Bench::Router(options)) => router::run(repository_root(), &options, out),
            Self::Bench(Bench::Fair(options)) => fair::run(repository_root(), &options, out),
            Self::Bench(Bench::Cloud(options)) => cloud::run(repository_root(), &options, out),
            Self::Bench(Bench::Webhooks(options)) => {
                webhooks::run(repository_root(), &options, out)
            }
            Self::Bench(Bench::Comfy(options)) => comfy::run(repository_root(), &options, out),
            Self::Bench(Bench::Counts(options)) => counts::run(repository_root(), &options, out),
            Self::Bench(Bench::Curves(options)) => curves::run(repository_root(), &options, out),
            Self::Crash(options) => crash::run(repository_root(), options, out),
            Self::Fleet(options) => fleet::run(repository_root(), options, out),
            Self::Pool(options) => pool::run(repository_root(), &options, out),
            Self::Power(options) => power::run(repository_root(), options, out),
            Self::BenchClient => bench::client::main(out),
            Self::BenchFairRole => fair::roles::main(out),
            Self::BenchPartner => router::partner::main(out),
            Self::BenchProxy { partner } => router::proxy::main(partner, out),
        }
    }
}
