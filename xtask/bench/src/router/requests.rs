//! Calls that are answered at once: what the way adds to them, and what it takes of the processor.

use std::io;

use serde_json::{Value, json};

use super::subjects::{Peers, Subject};
use super::{Bench, Tally};
use crate::claim::{Better, Claim};
use crate::client::Work;
use crate::disk::Disk;
use crate::report::{Figure, ServerUse, rounded};
use crate::samples::Samples;

const ADDED_P50: Claim = Claim {
    name: "added-p50",
    what: "time that the router adds at 500 calls/s (p50), its rows in memory, against what nginx adds",
    unit: "x nginx",
    better: Better::Lower,
    gate: Some(3.0),
    aim: Some(1.8),
};
const ADDED_P99: Claim = Claim {
    name: "added-p99",
    what: "the same (p99)",
    unit: "x nginx",
    better: Better::Lower,
    gate: Some(6.0),
    aim: Some(2.5),
};
const ON_DISK_P50: Claim = Claim {
    name: "added-p50-disk",
    what: "the same with rows on the disk (p50): at most what nginx adds and two syncs, at best twice that and one",
    ..ADDED_P50
};
const ON_DISK_P99: Claim = Claim {
    name: "added-p99-disk",
    what: "the same (p99), against what a sync takes (p99)",
    unit: "x sync",
    better: Better::Lower,
    gate: Some(5.0),
    aim: Some(3.0),
};
const CPU: Claim = Claim {
    name: "cpu",
    what: "processor time of a call over 64 connections, against that of nginx",
    unit: "x nginx",
    better: Better::Lower,
    gate: Some(2.2),
    aim: Some(1.4),
};
const POLICY: Claim = Claim {
    name: "policy",
    what: "more processor time with tokens, schema, prices and windows than with a fixed token alone",
    unit: "%",
    better: Better::Lower,
    gate: Some(10.0),
    aim: Some(5.0),
};
const KEYED: Claim = Claim {
    name: "keyed",
    what: "processor time of a call with an idempotency key of its own, against that of one without",
    unit: "x",
    better: Better::Lower,
    gate: Some(1.8),
    aim: Some(1.3),
};

/// Calls in a second where latency is measured, and the connections that they go over.
pub(super) const PACE: (f64, usize) = (500.0, 32);
/// Connections where they follow each other without a pause.
pub(super) const CONNECTIONS: usize = 64;

pub(super) async fn latency(bench: &Bench, disk: Disk) -> io::Result<Vec<Figure>> {
    let peers = bench.peers("latency").await?;
    let mut named = subjects(&peers);
    named.push(("memory", &peers.in_memory));
    let loads: Vec<_> = named
        .iter()
        .map(|(_, subject)| (*subject, PACE.1, paced(subject)))
        .collect();
    let tallies = bench.turn_by_turn(&loads).await?;
    let of = |name: &str| tally_of(name, &named, &tallies);
    let direct = of("direct").cloned().unwrap_or_default();
    // A call is on the disk before its partner hears of it.
    let sync_us = disk.overwrite_p50_ms * 1e3;
    let sync =
        of("nginx").map(|nginx| sync_us / (nginx.percentile_us(50.0) - direct.percentile_us(50.0)));
    let on_disk = Claim {
        gate: sync.map(|sync| 1.0 + 2.0 * sync),
        aim: sync.map(|sync| 2.0 + sync),
        ..ON_DISK_P50
    };
    let added =
        |tally: &Tally, percent| tally.percentile_us(percent) - direct.percentile_us(percent);
    let beside = |percent: f64| {
        let mut beside: Value = named
            .iter()
            .zip(&tallies)
            .map(|((name, _), tally)| {
                let added = added(tally, percent);
                (format!("{name}_added_us"), json!(rounded(added)))
            })
            .collect();
        beside["direct_us"] = json!(rounded(direct.percentile_us(percent)));
        beside
    };
    let compared = |claim: Claim, subject: &str, percent: f64| {
        let router = of(subject).cloned().unwrap_or_default();
        let nginx = of("nginx").map(|nginx| added(nginx, percent));
        let ours = added(&router, percent);
        against(claim, ours, nginx, &router, beside(percent))
    };
    let router = of("router").cloned().unwrap_or_default();
    let late = Figure {
        value: added(&router, 99.0) / (disk.overwrite_p99_ms * 1e3),
        ..figure(ON_DISK_P99, &router, beside(99.0))
    };
    Ok(vec![
        compared(ADDED_P50, "memory", 50.0),
        compared(ADDED_P99, "memory", 99.0),
        compared(on_disk, "router", 50.0),
        late,
    ])
}

pub(super) async fn cpu(bench: &Bench) -> io::Result<Vec<Figure>> {
    let peers = bench.peers("cpu").await?;
    let mut named = subjects(&peers);
    named.push(("unchecked", &peers.unchecked));
    let mut loads: Vec<_> = named
        .iter()
        .map(|(_, subject)| (*subject, CONNECTIONS, Work::Post(subject.call())))
        .collect();
    named.push(("keyed", &peers.router));
    loads.push((&peers.router, CONNECTIONS, Work::Keyed(peers.router.call())));
    let tallies = bench.turn_by_turn(&loads).await?;
    let of = |name: &str| tally_of(name, &named, &tallies);
    let mut beside = serde_json::Map::new();
    for ((name, _), tally) in named.iter().zip(&tallies) {
        beside.insert(format!("{name}_us"), json!(rounded(tally.cpu_us_each())));
        beside.insert(format!("{name}_per_second"), json!(rounded(tally.rate())));
    }
    let beside = Value::Object(beside);
    let router = of("router").cloned().unwrap_or_default();
    let keyed = of("keyed").cloned().unwrap_or_default();
    let plain = of("unchecked").map_or(f64::NAN, Tally::cpu_us_each);
    let nginx = of("nginx").map(Tally::cpu_us_each);
    Ok(vec![
        against(CPU, router.cpu_us_each(), nginx, &router, beside.clone()),
        Figure {
            value: (router.cpu_us_each() / plain - 1.0) * 100.0,
            ..figure(POLICY, &router, beside.clone())
        },
        Figure {
            value: keyed.cpu_us_each() / router.cpu_us_each(),
            ..figure(KEYED, &keyed, beside)
        },
    ])
}

/// The work of a subject at the pace of latencies.
pub(super) fn paced(subject: &Subject) -> Work {
    Work::Paced {
        request: subject.call(),
        per_second: PACE.0,
    }
}

fn subjects(peers: &Peers) -> Vec<(&'static str, &Subject)> {
    let mut named = vec![("direct", &peers.direct)];
    named.extend(peers.nginx.as_ref().map(|nginx| ("nginx", nginx)));
    named.extend([("hyper", &peers.proxy), ("router", &peers.router)]);
    named
}

/// What the turns of one subject gave, by its name.
fn tally_of<'a>(
    name: &str,
    named: &[(&'static str, &Subject)],
    tallies: &'a [Tally],
) -> Option<&'a Tally> {
    let index = named.iter().position(|(known, _)| *known == name)?;
    tallies.get(index)
}

/// A figure in units of what nginx takes; without nginx in microseconds, and without a verdict.
fn against(claim: Claim, ours: f64, nginx: Option<f64>, tally: &Tally, beside: Value) -> Figure {
    match nginx {
        Some(theirs) => Figure {
            value: ours / theirs,
            ..figure(claim, tally, beside)
        },
        None => Figure {
            value: ours,
            ..figure(without_verdict(claim), tally, beside)
        },
    }
}

fn without_verdict(claim: Claim) -> Claim {
    Claim {
        unit: "us",
        gate: None,
        aim: None,
        ..claim
    }
}

/// A figure of a subject's turns; its value is still to be set.
pub(super) fn figure(claim: Claim, tally: &Tally, beside: Value) -> Figure {
    Figure {
        claim,
        value: f64::NAN,
        samples: Samples::new(tally.times_us.clone()),
        server: ServerUse {
            cpu_seconds: tally.cpu_seconds,
            resident_bytes: tally.resident_bytes,
        },
        beside,
    }
}
