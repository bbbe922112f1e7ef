//! Curves over accounts: the processor time of a job and of a call, each time of another account.

use std::io;

use serde_json::json;

use super::super::requests::CONNECTIONS;
use super::super::subjects::{Partner, Subject, write_catalog};
use super::super::token::token;
use super::super::{Bench, NO_END, Tally, say};
use super::{FEW_MODELS, LONG, TURNS, bench, each_us, router};
use crate::client::{Plan, Work};
use crate::curves::{How, Lines, Series};
use it::http::post_json;
use it::load::graphs::Graph;

/// The figures of this axis.
pub(crate) const ACCOUNTS: [Series; 2] = [
    Series {
        name: "accounts-job",
        what: "Processor time of a job, submission to end",
        unit: "us",
        gate: None,
    },
    Series {
        name: "accounts-call",
        what: "Processor time of a call",
        unit: "us",
        gate: None,
    },
];

/// Bounds of an account that one alone would meet.
const RAISED: [&str; 3] = [
    "--queue-per-account=10000000",
    "--queue-total=10000000",
    "--streams-per-account=100000",
];
/// Connections that add accounts.
const ADDERS: usize = 8;
/// How many graphs a turn has for itself, so that no result is there already: more than it can run.
const GRAPHS: u64 = 1 << 19;

/// Adds more and more accounts, and runs jobs and calls of each in turn.
pub(crate) async fn accounts(how: &How<'_>, lines: &mut Lines<'_>) -> io::Result<()> {
    let bench = bench(how, &RAISED)?;
    let partner = Partner::start(&bench).await?;
    let models = write_catalog(&bench, "accounts", partner.address, FEW_MODELS)?;
    let router = router(&bench, &partner, &models);
    let (server, process) = router.start(&bench, "accounts").await?;
    let (mut headers, mut turns) = (Vec::new(), 0_u64..);
    for size in &how.sizes {
        let new: Vec<String> = (headers.len() as u64..*size).map(name).collect();
        say(&format!("{size} accounts"));
        add(&bench, &server, &new).await?;
        headers.extend(
            new.iter()
                .map(|account| bearer(account, &["jobs:write", "jobs:read", "router:run"])),
        );
        let calls = headers.iter().map(|headers| server.call_as(headers));
        let call = Work::InTurn {
            requests: calls.collect(),
            status: 200,
        };
        let job = Work::FinishAs(Graph::Trivial, headers.clone());
        let (mut jobs, mut calls) = (Tally::default(), Tally::default());
        // The first turn warms up and does not count.
        for (turn, number) in (0..=TURNS).zip(&mut turns) {
            let done = [
                turn_of(&bench, &server, &job, number).await?,
                turn_of(&bench, &server, &call, number).await?,
            ];
            if turn > 0 {
                let [job, call] = done;
                jobs.add(job);
                calls.add(call);
            }
        }
        for (series, tally) in ACCOUNTS.iter().zip([jobs, calls]) {
            lines.take(series, *size, each_us(&tally))?;
        }
    }
    process.kill().await
}

async fn turn_of(bench: &Bench, server: &Subject, work: &Work, number: u64) -> io::Result<Tally> {
    let plan = Plan {
        server: server.address,
        connections: CONNECTIONS,
        work: work.clone(),
        seconds: bench.turn_seconds(),
        most: NO_END,
        first: number * GRAPHS,
    };
    bench.carry_out(server, plan).await
}

/// Adds accounts as an operator does.
async fn add(bench: &Bench, server: &Subject, names: &[String]) -> io::Result<()> {
    let operator = bearer("local", &["admin"]);
    let requests = names.iter().map(|name| {
        let body = json!({"id": name}).to_string();
        let request = post_json("/api/v2/admin/accounts", &operator, &body);
        String::from_utf8(request).expect("it is made of texts")
    });
    let plan = Plan {
        server: server.address,
        connections: ADDERS,
        work: Work::InTurn {
            requests: requests.collect(),
            status: 201,
        },
        seconds: LONG,
        most: names.len() as u64,
        first: 0,
    };
    bench.carry_out(server, plan).await.map(drop)
}

fn name(number: u64) -> String {
    format!("account-{number}")
}

fn bearer(account: &str, scopes: &[&str]) -> String {
    format!("Authorization: Bearer {}\r\n", token(account, scopes))
}
