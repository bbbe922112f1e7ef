//! Curves over stored jobs: the processor time of a look at one, and of a page of them.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::requests::some_jobs;
use super::stored::{LOOK, LOOKED_AT, TURNS, store};
use super::{Bench, cpu_us_each, halves, say};
use crate::client::{Plan, Work};
use crate::curves::{Gate, How, Lines, Series};
use crate::samples::median;
use it::load::server::Server;

/// The figures of this axis.
pub(crate) const STORED: [Series; 2] = [
    Series {
        name: "stored-look",
        what: "Processor time of a look at a job",
        unit: "us",
        gate: Gate::growth(&LOOK),
    },
    Series {
        name: "stored-list",
        what: "Processor time of a page of 20 jobs",
        unit: "us",
        gate: None,
    },
];

/// The newest page of jobs.
const LIST: &str = "GET /api/v2/jobs?limit=20 HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Connections that look.
const CONNECTIONS: usize = 64;
/// For how long jobs are stored, all sizes together.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// Stores more and more jobs and looks at them.
pub(crate) async fn stored(how: &How<'_>, lines: &mut Lines<'_>) -> io::Result<()> {
    let bench = Bench {
        program: how.program.clone(),
        under: Vec::new(),
        client: how.client.to_owned(),
        repository: how.folder.to_owned(),
        folder: how.own_folder()?,
        seconds: how.seconds,
        stored: 0,
        with: Vec::new(),
    };
    let launch = bench.launch("stored", &[]);
    let (until, mut stored) = (Instant::now() + LONGEST, 0);
    for size in &how.sizes {
        say(&format!("{size} jobs"));
        let more = store(&bench, &launch, size - stored);
        timeout_at(until, more)
            .await
            .map_err(|_| too_slow(*size))??;
        stored = *size;
        let server = Server::start(&launch).await?;
        let ids = some_jobs(&mut server.connect().await?, LOOKED_AT).await?;
        let (mut look, mut list) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            look.push(each_us(&bench, &server, Work::Look(ids.clone())).await?);
            let page = Work::InTurn {
                requests: vec![LIST.to_owned()],
                status: 200,
            };
            list.push(each_us(&bench, &server, page).await?);
        }
        server.terminate().await?;
        for (series, each) in STORED.iter().zip([look, list]) {
            lines.take(series, *size, median(each))?;
        }
    }
    Ok(())
}

/// Processor microseconds of the server for each piece of work in one turn.
async fn each_us(bench: &Bench, server: &Server, work: Work) -> io::Result<f64> {
    let plan = Plan {
        seconds: bench.seconds / TURNS as f64,
        ..bench.plan(server, CONNECTIONS, work)
    };
    let (outcome, used) = bench.measure(server, &halves(&plan)).await?;
    Ok(cpu_us_each(used, outcome.samples.len()))
}

fn too_slow(size: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "{size} jobs were not stored within {} minutes: --most-stored leaves larger numbers out",
            LONGEST.as_secs() / 60
        ),
    )
}
