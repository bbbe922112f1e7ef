//! Calls of a model through two replicas, with every check of the router, beside the same calls through nginx.

use std::io;

use serde_json::json;

use super::Bench;
use super::replicas::REPLICAS;
use crate::claim::{Better, Claim};
use crate::report::{Figure, ServerUse, rounded};
use crate::router::replicas::{Calls, Paths};
use crate::samples::Samples;

const CALL: Claim = Claim {
    name: "cloud-call",
    what: "processor time of both replicas for a call with policy, 64 at once, against that of nginx; without PostgreSQL",
    unit: "x nginx",
    better: Better::Lower,
    gate: Some(4.0),
    aim: Some(2.5),
};

/// In how many turns each is measured.
const TURNS: u32 = 10;

pub(super) async fn calls(bench: &Bench) -> io::Result<Vec<Figure>> {
    let paths = Paths {
        program: bench.program.clone(),
        own: bench.client.clone(),
        folder: bench.folder.path(),
        variables: bench.place.variables("calls").await,
    };
    let calls = Calls::start(&paths, REPLICAS).await?;
    let seconds = f64::from(bench.seconds) / f64::from(TURNS);
    let mut database = 0.0;
    let mut tallies = Vec::new();
    // The first turn warms up.
    for turn in 0..=TURNS {
        let nginx = calls.through_nginx(seconds).await?;
        let before = bench.place.database_seconds().await?;
        let replicas = calls.through_replicas(seconds).await?;
        if turn > 0 {
            database += bench.place.database_seconds().await? - before;
            tallies.push([nginx, replicas]);
        }
    }
    let resident_bytes = calls.resident_bytes()?;
    calls.end().await?;
    let sum = |place: usize| {
        let each = tallies.iter().map(|both| &both[place]);
        each.fold((0.0, 0.0, Vec::new()), |mut all, one| {
            all.0 += one.cpu_seconds;
            all.1 += one.seconds;
            all.2.extend(&one.times_us);
            all
        })
    };
    let [nginx, replicas] = [0, 1].map(sum);
    let each = |seconds: f64, calls: &[u64]| seconds * 1e6 / calls.len().max(1) as f64;
    let [of_nginx, of_replicas] = [&nginx, &replicas].map(|one| each(one.0, &one.2));
    let told = |(cpu, seconds, times): &(f64, f64, Vec<u64>)| {
        json!({
            "cpu_us": rounded(each(*cpu, times)),
            "per_second": rounded(times.len() as f64 / seconds),
            "p50_ms": Samples::new(times.clone()).median_ms(),
        })
    };
    Ok(vec![Figure {
        claim: CALL,
        value: of_replicas / of_nginx,
        server: ServerUse {
            cpu_seconds: replicas.0,
            resident_bytes,
        },
        beside: json!({
            "nginx": told(&nginx),
            "replicas": told(&replicas),
            "postgres_cpu_us": rounded(each(database, &replicas.2)),
        }),
        samples: Samples::new(replicas.2),
    }])
}
