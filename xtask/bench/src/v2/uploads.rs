//! Uploads of 100 MB beside copying and hashing the same file, turn by turn.

use std::fs::{self, File};
use std::io::{self, Write};

use serde_json::json;

use super::{Bench, say};
use crate::claim::{Better, Claim};
use crate::client::{Plan, Work};
use crate::disk::copy_and_hash;
use crate::report::{Figure, ServerUse, megabytes, rounded};
use crate::samples::{Samples, median};
use it::random::Random;

const UPLOAD: Claim = Claim {
    name: "upload-100mb",
    what: "an upload of 100 MB (median)",
    unit: "MB/s",
    better: Better::Higher,
    gate: None,
    aim: None,
};
const AGAINST_COPY: Claim = Claim {
    name: "upload-ratio",
    what: "its rate against copying and hashing the file, neither synced (median of turns)",
    unit: "x",
    better: Better::Higher,
    gate: Some(0.7),
    aim: Some(0.85),
};

const BYTES: usize = 100_000_000;
/// Uploads, each beside a copy.
const TURNS: u64 = 7;

pub(super) async fn upload(bench: &Bench) -> io::Result<Vec<Figure>> {
    let server = bench.server("upload").await?;
    let path = bench.folder.path().join("file");
    let (mut times, mut used) = (Vec::new(), ServerUse::default());
    let (mut ratios, mut copies, mut synced_copies) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..TURNS {
        say(&format!("turn {} of {TURNS}", turn + 1));
        File::create(&path)?.write_all(&Random::of_all(&[turn]).bytes(BYTES))?;
        let (copy, synced) = copy_and_hash(&path, bench.folder.path())?;
        let plan = Plan {
            most: 1,
            first: turn,
            ..bench.plan(&server, 1, Work::Upload(path.clone()))
        };
        let (outcome, once) = bench.measure(&server, &[plan]).await?;
        used = ServerUse {
            cpu_seconds: used.cpu_seconds + once.cpu_seconds,
            resident_bytes: once.resident_bytes,
        };
        let seconds = outcome.samples.iter().sum::<u64>() as f64 / 1e6;
        ratios.push(copy.as_secs_f64() / seconds);
        copies.push(rate(copy.as_secs_f64()));
        synced_copies.push(rate(synced.as_secs_f64()));
        times.extend(outcome.samples);
    }
    let peak = server.usage()?.peak_bytes;
    server.kill().await?;
    fs::remove_file(path)?;
    let samples = Samples::new(times);
    let median_rate = |rates| median(rates).map(rounded);
    let beside = json!({
        "copy_and_hash_mb_s": median_rate(copies),
        "synced_copy_and_hash_mb_s": median_rate(synced_copies),
        "server_peak_mb": rounded(megabytes(peak)),
    });
    let figure = |claim, value| Figure {
        claim,
        value,
        samples: samples.clone(),
        server: used,
        beside: beside.clone(),
    };
    let seconds = samples.median_ms().unwrap_or(f64::INFINITY) / 1e3;
    Ok(vec![
        figure(UPLOAD, rate(seconds)),
        figure(AGAINST_COPY, median(ratios).unwrap_or(0.0)),
    ])
}

fn rate(seconds: f64) -> f64 {
    megabytes(BYTES as u64) / seconds
}
