//! Times the choice of a worker for `cargo xtask bench comfy`: one line of JSON.

#![expect(clippy::print_stdout, reason = "it answers there")]

use std::hint::black_box;
use std::time::Instant;

use engine_comfy::bench::Choices;

/// Choices that are timed together, and how often: a median of means leaves out what other processes take.
const TOGETHER: u32 = 20;
const TIMES: usize = 500;

#[tokio::main]
async fn main() {
    let workers = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let workers = workers.expect("the number of workers");
    let choices = Choices::among(workers);
    let mut times: Vec<f64> = (0..TIMES)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..TOGETHER {
                assert!(black_box(choices.choose()), "some worker takes the job");
            }
            began.elapsed().as_secs_f64() * 1e6 / f64::from(TOGETHER)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[(TIMES - 1) * percent / 100];
    println!(
        "{{\"workers\":{workers},\"median_us\":{:.3},\"p90_us\":{:.3}}}",
        at(50),
        at(90)
    );
}
