//! Thousands of calls in flight: the memory that each takes, and what they do to the calls beside them.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::requests::{CONNECTIONS, PACE, figure, paced};
use super::subjects::{Partner, Peers, Subject};
use super::{Bench, Tally, say};
use crate::claim::{Better, Claim};
use crate::client::{Plan, Work};
use crate::clients::Clients;
use crate::report::{Figure, megabytes, rounded};

const EACH: Claim = Claim {
    name: "held-each",
    what: "memory of a call in flight",
    unit: "KB",
    better: Better::Lower,
    gate: Some(14.0),
    aim: Some(10.0),
};
pub(super) const ALL: Claim = Claim {
    name: "held-all",
    what: "memory of the router with all of them in flight",
    unit: "MB",
    better: Better::Lower,
    gate: Some(150.0),
    aim: Some(110.0),
};
pub(super) const GROWTH: Claim = Claim {
    name: "growth-p50",
    what: "p50 at 500 calls/s with all of them in flight, against none",
    unit: "x",
    better: Better::Lower,
    gate: Some(1.3),
    aim: Some(1.1),
};

/// How often it is looked whether all calls have arrived, and how many times.
const ARRIVAL: (Duration, u32) = (Duration::from_millis(50), 1_200);

/// What thousands of calls in flight did to one subject.
struct Burden {
    bytes_each: f64,
    resident_bytes: u64,
    /// Calls at their pace before and after,
    free: Tally,
    /// and with all of them in flight.
    during: Tally,
}

pub(super) async fn held(bench: &Bench) -> io::Result<Vec<Figure>> {
    let mut peers = bench.peers("held").await?;
    let router = burden(bench, &mut peers, |peers| Some(&peers.router)).await?;
    let nginx = burden(bench, &mut peers, |peers| peers.nginx.as_ref()).await?;
    let proxy = burden(bench, &mut peers, |peers| Some(&peers.proxy)).await?;
    let router = router.ok_or_else(|| io::Error::other("there is always a router"))?;
    let each = |burden: &Option<Burden>| {
        let burden = burden.as_ref();
        burden.map(|burden| rounded(burden.bytes_each / 1e3))
    };
    let growth =
        |burden: &Burden| burden.during.percentile_us(50.0) / burden.free.percentile_us(50.0);
    let cpu_growth = |burden: &Burden| burden.during.cpu_us_each() / burden.free.cpu_us_each();
    let memory = json!({
        "calls": bench.held,
        "nginx_kb_each": each(&nginx),
        "hyper_kb_each": each(&proxy),
        "router_mb": rounded(megabytes(router.resident_bytes)),
    });
    let grown = json!({
        "calls": bench.held,
        "router_p50_us": [rounded(router.free.percentile_us(50.0)), rounded(router.during.percentile_us(50.0))],
        "router_cpu_growth": rounded(cpu_growth(&router)),
        "nginx_p50_growth": nginx.as_ref().map(growth).map(rounded),
        "nginx_cpu_growth": nginx.as_ref().map(cpu_growth).map(rounded),
        "hyper_p50_growth": proxy.as_ref().map(growth).map(rounded),
    });
    let full = Tally {
        resident_bytes: router.resident_bytes,
        ..Tally::default()
    };
    Ok(vec![
        Figure {
            value: router.bytes_each / 1e3,
            ..figure(EACH, &full, memory.clone())
        },
        Figure {
            value: megabytes(router.resident_bytes),
            ..figure(ALL, &full, memory)
        },
        Figure {
            value: growth(&router),
            ..figure(GROWTH, &router.during, grown)
        },
    ])
}

/// Puts calls in flight through a subject and measures before, meanwhile and after; `None` where the subject is not there.
async fn burden(
    bench: &Bench,
    peers: &mut Peers,
    chosen: impl Fn(&Peers) -> Option<&Subject>,
) -> io::Result<Option<Burden>> {
    let Some(subject) = chosen(peers) else {
        return Ok(None);
    };
    // Everything that a first load makes it keep is not the calls' memory.
    let warm = (subject, CONNECTIONS, Work::Post(subject.call()));
    bench.turn_by_turn(&[warm]).await?;
    let load = (subject, PACE.1, paced(subject));
    let mut free = first(bench.turn_by_turn(&[load]).await?);
    let idle_bytes = subject.usage()?.resident_bytes;
    let plan = Plan {
        server: subject.address,
        connections: bench.held,
        work: Work::Held(subject.held()),
        seconds: 3600.0,
        most: u64::MAX,
        first: 0,
    };
    say(&format!("{} calls in flight", bench.held));
    let mut clients = Clients::start(&bench.own, &[plan]).await?;
    arrived(&peers.partner, bench.held).await?;
    let subject = chosen(peers).ok_or_else(gone)?;
    let resident_bytes = subject.usage()?.resident_bytes;
    let load = (subject, PACE.1, paced(subject));
    let during = first(bench.turn_by_turn(&[load]).await?);
    peers.partner.release().await?;
    clients.go().await?;
    clients.outcome().await?;
    // Once more without them: what the machine did meanwhile must not count as theirs.
    let subject = chosen(peers).ok_or_else(gone)?;
    let load = (subject, PACE.1, paced(subject));
    free.add(first(bench.turn_by_turn(&[load]).await?));
    Ok(Some(Burden {
        bytes_each: resident_bytes.saturating_sub(idle_bytes) as f64 / bench.held.max(1) as f64,
        resident_bytes,
        free,
        during,
    }))
}

pub(super) fn first(tallies: Vec<Tally>) -> Tally {
    tallies.into_iter().next().unwrap_or_default()
}

fn gone() -> io::Error {
    io::Error::other("what was measured is there no more")
}

/// Waits until so many calls are at the partner.
pub(super) async fn arrived(partner: &Partner, wanted: usize) -> io::Result<()> {
    for _ in 0..ARRIVAL.1 {
        if partner.holding().await? >= wanted {
            return Ok(());
        }
        sleep(ARRIVAL.0).await;
    }
    Err(io::Error::other(format!(
        "only {} of {wanted} calls arrived at the partner",
        partner.holding().await?
    )))
}
