//! A large catalog against a small one: the same calls, lists and estimates over both, turn by turn.

use std::io;

use serde_json::{Value, json};

use super::requests::{CONNECTIONS, figure};
use super::subjects::{Router, UNBOUNDED, write_catalog};
use super::{Bench, Tally};
use crate::claim::{Better, Claim};
use crate::client::Work;
use crate::report::{Figure, rounded};

pub(super) const CALL: Claim = Claim {
    name: "catalog-call",
    what: "processor time of a call with the large catalog, against the small one",
    unit: "x",
    better: Better::Lower,
    gate: Some(1.1),
    aim: Some(1.05),
};
pub(super) const LIST: Claim = Claim {
    name: "catalog-list",
    what: "the same of a list of models",
    unit: "x",
    better: Better::Lower,
    gate: Some(1.1),
    aim: Some(1.05),
};
pub(super) const ESTIMATE: Claim = Claim {
    name: "catalog-estimate",
    what: "the same of an estimate",
    unit: "x",
    better: Better::Lower,
    gate: Some(1.1),
    aim: Some(1.05),
};

/// Models of the small catalog.
const FEW: u32 = 10;
/// Models of a page: in both catalogs there are more, so that both have to tell where the next page begins.
pub(super) const PAGE: u32 = 5;

pub(super) async fn catalog(bench: &Bench) -> io::Result<Vec<Figure>> {
    let peers = bench.peers("catalog").await?;
    let partner = peers.direct.address;
    let models = write_catalog(bench, "catalog-small", partner, FEW)?;
    let over = |models| Router {
        folder: bench.folder.path(),
        models,
        partner,
        checked: true,
        concurrent_calls: UNBOUNDED,
    };
    let (few, _few) = over(&models).start(bench, "catalog-few").await?;
    let models = write_catalog(bench, "catalog-large", partner, bench.models)?;
    let (many, _many) = over(&models).start(bench, "catalog-many").await?;
    let call = |subject: &super::Subject| Work::Post(subject.call());
    let list = |subject: &super::Subject| Work::Post(subject.list(PAGE));
    let loads = [
        (&few, CONNECTIONS, call(&few)),
        (&many, CONNECTIONS, call(&many)),
        (&few, CONNECTIONS, list(&few)),
        (&many, CONNECTIONS, list(&many)),
        (&few, CONNECTIONS, Work::Post(few.estimate())),
        (&many, CONNECTIONS, Work::Post(many.estimate())),
    ];
    let tallies = bench.turn_by_turn(&loads).await?;
    let [
        call_few,
        call_many,
        list_few,
        list_many,
        estimate_few,
        estimate_many,
    ] = tallies.as_slice()
    else {
        return Err(io::Error::other("a load was left out"));
    };
    Ok(vec![
        compared(bench, CALL, call_few, call_many),
        compared(bench, LIST, list_few, list_many),
        compared(bench, ESTIMATE, estimate_few, estimate_many),
    ])
}

fn compared(bench: &Bench, claim: Claim, few: &Tally, many: &Tally) -> Figure {
    let told = |tally: &Tally| -> Value {
        json!({
            "cpu_us": rounded(tally.cpu_us_each()),
            "p50_us": rounded(tally.percentile_us(50.0)),
            "per_second": rounded(tally.rate()),
        })
    };
    let beside = json!({"models": [FEW, bench.models], "few": told(few), "many": told(many)});
    Figure {
        value: many.cpu_us_each() / few.cpu_us_each(),
        ..figure(claim, many, beside)
    }
}
