//! Jobs while a transaction of somebody else stays open, beside as many jobs over a database where none does.
//!
//! Both databases are in one PostgreSQL: vacuum looks at the transactions of a database alone. What the machine does besides, it does
//! to both. If the replicas over one of them become slower, the others have more of the machine, so the figure is rather too low.

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::{sleep, sleep_until};

use super::replicas::Replicas;
use super::{Bench, CLIENTS, plans};
use crate::claim::{Better, Claim};
use crate::client::Work;
use crate::clients::Clients;
use crate::report::{Figure, rounded};
use crate::samples::Samples;
use crate::say;
use it::load::graphs::Graph;

const OPEN: Claim = Claim {
    name: "cloud-open",
    what: "jobs/s at the end of a transaction that stays open, in percent of the rate over a second database without such a transaction",
    unit: "%",
    better: Better::Higher,
    gate: Some(75.0),
    aim: Some(90.0),
};

/// Over how long a rate is counted, at most.
const WINDOW: Duration = Duration::from_secs(60);
/// How long replicas run before the first rate is counted.
const WARM: Duration = Duration::from_secs(5);

pub(super) async fn open(bench: &Bench) -> io::Result<Vec<Figure>> {
    let both = [
        bench.replicas("all", "open").await?,
        bench.replicas("all", "closed").await?,
    ];
    let window = WINDOW.min(bench.open / 2);
    let seconds = (WARM + window + bench.open).as_secs_f64() + 1.0;
    let mut clients = Vec::new();
    for replicas in &both {
        let work = || Work::Finish(Graph::Trivial);
        let plans = plans(replicas, CLIENTS / both.len(), seconds, work);
        clients.push(Clients::start(&bench.client, &plans).await?);
    }
    for clients in &mut clients {
        clients.go().await?;
    }
    sleep(WARM).await;
    let before = rates(bench, &both, window).await?;
    let end = tokio::time::Instant::now() + bench.open;
    // It sees what was there at its beginning, so nothing that is deleted after that can be cleaned up.
    let sql = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM job_queue; SELECT pg_sleep({}); COMMIT",
        bench.open.as_secs()
    );
    let stays_open = bench.place.database.execute(&both[0].name, &sql);
    let last = async {
        // The last window ends with the transaction.
        while tokio::time::Instant::now() + window * 2 <= end {
            let rates = rates(bench, &both, window).await?;
            say(&format!(
                "{:.0} jobs/s with it, {:.0} without",
                rates[0], rates[1]
            ));
        }
        sleep_until(end - window).await;
        rates(bench, &both, window).await
    };
    let ((), last) = tokio::join!(stays_open, last);
    let last = last?;
    let mut tables = Vec::new();
    for replicas in &both {
        let sql =
            "SELECT relname, n_dead_tup FROM pg_stat_user_tables ORDER BY n_dead_tup DESC LIMIT 5";
        tables.push(bench.place.database.query(&replicas.name, sql).await);
    }
    let mut jobs = 0;
    for clients in clients {
        jobs += clients.outcome().await?.samples.len();
    }
    let used = both[0].usage()?;
    for replicas in both {
        replicas.end().await?;
    }
    let told = |rates: [f64; 2]| rates.map(rounded);
    Ok(vec![Figure {
        claim: OPEN,
        value: 100.0 * last[0] / last[1],
        samples: Samples::default(),
        server: used,
        beside: json!({
            "seconds": bench.open.as_secs(),
            "jobs": jobs,
            "jobs_per_second_before": told(before),
            "jobs_per_second_at_the_end": told(last),
            "dead_rows": tables,
        }),
    }])
}

/// How many jobs of each end in a second, counted for so long.
async fn rates(bench: &Bench, both: &[Replicas; 2], time: Duration) -> io::Result<[f64; 2]> {
    let ended = async || {
        let sql = "SELECT count(*) FROM jobs_over";
        let [one, other] = both.each_ref().map(|replicas| &*replicas.name);
        tokio::try_join!(bench.place.number(one, sql), bench.place.number(other, sql))
    };
    let (began, before) = (Instant::now(), ended().await?);
    sleep(time).await;
    let after = ended().await?;
    let seconds = began.elapsed().as_secs_f64();
    let each = |before: i64, after: i64| (after - before) as f64 / seconds;
    Ok([each(before.0, after.0), each(before.1, after.1)])
}
