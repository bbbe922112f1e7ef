//! Single requests: submissions until they are durable, and looks at jobs.

use std::io;

use serde_json::json;

use super::{Bench, cpu_us_each, halves, say};
use crate::claim::{Better, Claim};
use crate::client::{Plan, Work, job_id};
use crate::report::{Figure, rounded};
use it::http::{Connection, post_json};
use it::load::graphs::Graph;

const SUBMIT_64: Claim = Claim {
    name: "submit-64",
    what: "submissions until their 201, 64 clients, while the jobs run",
    unit: "1/s",
    better: Better::Higher,
    gate: Some(15_000.0),
    aim: Some(30_000.0),
};
const SUBMIT_1: Claim = Claim {
    name: "submit-1",
    what: "a submission until its 201, one client, the job before it done (p50)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(0.8),
    aim: Some(0.4),
};
const LOOK_64: Claim = Claim {
    name: "look-64",
    what: "GET of one of 1,000 finished jobs, 64 clients",
    unit: "1/s",
    better: Better::Higher,
    gate: Some(60_000.0),
    aim: Some(120_000.0),
};

/// Jobs that are looked at.
const LOOKED_AT: u64 = 1_000;

pub(super) async fn submit(bench: &Bench) -> io::Result<Vec<Figure>> {
    let server = bench.server("submit-1").await?;
    let plan = bench.plan(&server, 1, Work::Submit(Graph::Trivial));
    let (outcome, used) = bench.measure(&server, &[plan]).await?;
    let times = outcome.times();
    let one = Figure {
        claim: SUBMIT_1,
        value: times.median_ms().unwrap_or(f64::INFINITY),
        beside: json!({"submissions_per_second": rounded(outcome.rate())}),
        samples: times,
        server: used,
    };
    server.kill().await?;

    say("64 clients");
    let server = bench.server("submit-64").await?;
    let plan = bench.plan(&server, 64, Work::Submit(Graph::Trivial));
    let (outcome, used) = bench.measure(&server, &halves(&plan)).await?;
    let many = Figure {
        claim: SUBMIT_64,
        value: outcome.rate(),
        beside: json!({"server_cpu_us_each": rounded(cpu_us_each(used, outcome.samples.len()))}),
        samples: outcome.times(),
        server: used,
    };
    server.kill().await?;
    Ok(vec![one, many])
}

pub(super) async fn look(bench: &Bench) -> io::Result<Vec<Figure>> {
    let server = bench.server("look-64").await?;
    let store = Plan {
        most: LOOKED_AT,
        ..bench.plan(&server, 8, Work::Finish(Graph::Trivial))
    };
    bench.measure(&server, &[store]).await?;
    let ids = some_jobs(&mut server.connect().await?, LOOKED_AT).await?;
    let plan = bench.plan(&server, 64, Work::Look(ids));
    let (outcome, used) = bench.measure(&server, &halves(&plan)).await?;
    server.kill().await?;
    Ok(vec![Figure {
        claim: LOOK_64,
        value: outcome.rate(),
        beside: json!({"server_cpu_us_each": rounded(cpu_us_each(used, outcome.samples.len()))}),
        samples: outcome.times(),
        server: used,
    }])
}

/// The ids of the newest jobs, at most `most`, read from the list page by page.
pub(super) async fn some_jobs(connection: &mut Connection, most: u64) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    let mut cursor = String::new();
    while (ids.len() as u64) < most {
        let target = format!("/api/v2/jobs?limit=100{cursor}");
        let answer = connection.send(&it::http::request("GET", &target)).await?;
        let page = answer.expect_status(200)?.try_json()?;
        let jobs = page["jobs"].as_array().into_iter().flatten();
        ids.extend(jobs.filter_map(|job| job["id"].as_str()).map(str::to_owned));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    Ok(ids)
}

/// Submits a job and returns its id.
pub(super) async fn submit_one(connection: &mut Connection, body: &str) -> io::Result<String> {
    let answer = connection
        .send(&post_json("/api/v2/jobs", "", body))
        .await?;
    Ok(job_id(&answer.expect_status(201)?.body)?.to_owned())
}
