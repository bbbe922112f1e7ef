//! Answers that come as streams: how much later their first byte is there than without anything in between.

use std::io;

use serde_json::{Value, json};

use super::Bench;
use super::requests::figure;
use super::subjects::Subject;
use crate::claim::{Better, Claim};
use crate::client::Work;
use crate::report::{Figure, rounded};

const FIRST_BYTE: Claim = Claim {
    name: "first-byte",
    what: "time that the router adds to the first byte of a stream (p50), its rows on the disk",
    unit: "ms",
    better: Better::Lower,
    gate: Some(2.0),
    aim: Some(0.5),
};

/// Streams in a second, and the connections that they go over.
const PACE: (f64, usize) = (100.0, 16);

pub(super) async fn streams(bench: &Bench) -> io::Result<Vec<Figure>> {
    let peers = bench.peers("streams").await?;
    let named = [
        ("direct", &peers.direct),
        ("hyper", &peers.proxy),
        ("memory", &peers.in_memory),
        ("router", &peers.router),
    ];
    let work = |subject: &Subject| Work::Streamed {
        request: subject.streamed(),
        per_second: PACE.0,
    };
    let loads = named.map(|(_, subject)| (subject, PACE.1, work(subject)));
    let tallies = bench.turn_by_turn(&loads).await?;
    let [direct, .., router] = tallies.as_slice() else {
        return Err(io::Error::other("a load was left out"));
    };
    let added_ms = |percent| (router.percentile_us(percent) - direct.percentile_us(percent)) / 1e3;
    let told = named.iter().zip(&tallies).map(|((name, _), tally)| {
        let times = json!({
            "p50_us": rounded(tally.percentile_us(50.0)),
            "p99_us": rounded(tally.percentile_us(99.0)),
        });
        ((*name).to_owned(), times)
    });
    let mut beside: Value = told.collect();
    beside["added_p99_ms"] = json!(rounded(added_ms(99.0)));
    Ok(vec![Figure {
        value: added_ms(50.0),
        ..figure(FIRST_BYTE, router, beside)
    }])
}
