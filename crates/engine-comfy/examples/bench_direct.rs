//! Runs a graph at a worker, again and again, for `cargo xtask bench comfy`: `bench_direct URL SECONDS GRAPH`.
//!
//! Says `ready` when what is done once is done, then how many graphs ran, and stays until its input ends, so that what it took can be
//! read of the process.

#![expect(clippy::print_stdout, reason = "it answers there")]

use std::io::Read;
use std::time::{Duration, Instant};

use engine_comfy::bench::{Direct, DirectError};
use serde_json::Value;

/// Graphs before it counts.
const WARM: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), DirectError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, seconds, graph] = words.as_slice() else {
        panic!("the worker's address, how many seconds, and a graph");
    };
    let seconds = seconds.parse().expect("how many seconds");
    let graph: Value = serde_json::from_str(graph).expect("a graph");
    let mut direct = Direct::open(url).await?;
    for _ in 0..WARM {
        direct.run(&graph).await?;
    }
    println!("ready");
    let (began, mut ran) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        direct.run(&graph).await?;
        ran += 1;
    }
    println!("{ran}");
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("its input ends");
    Ok(())
}
