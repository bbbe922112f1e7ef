//! What an operator sees of the store of a fleet under load, and what clients are told while no connection to it is free.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::*;

/// The tables that tell their dead rows.
const HOT: [&str; 14] = [
    "call_keys",
    "call_permits",
    "call_windows",
    "credit_holds",
    "credits",
    "generations_running",
    "job_accounts",
    "job_changes",
    "job_queue",
    "job_runs",
    "job_turns",
    "jobs",
    "queued_calls",
    "stored_bytes",
];

const FEW: f64 = 4.0;

/// All values of a replica's metrics, by their names with labels.
async fn metrics(fleet: &Fleet, server: &Server) -> HashMap<String, f64> {
    let text = fleet.get(server, "/metrics").await.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let values = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    values.collect()
}

/// The metrics of a replica once these are so. None of them has an event.
async fn until(
    fleet: &Fleet,
    server: &Server,
    is_so: impl Fn(&HashMap<String, f64>) -> bool,
) -> HashMap<String, f64> {
    let looking = async {
        loop {
            let seen = metrics(fleet, server).await;
            if is_so(&seen) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    in_time(looking).await
}

fn of_store(metrics: &HashMap<String, f64>, name: &str) -> f64 {
    *metrics
        .get(&format!("easel_store_{name}"))
        .unwrap_or_else(|| panic!("{name}: {metrics:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_the_store_are_plausible_under_load() {
    const WAITING: usize = 6;
    const JOBS: usize = 40;
    if !is_possible("metrics of a store").await {
        return;
    }
    // Nobody else writes its log.
    let postgres = PostgresServer::start(&["fsync=off", "full_page_writes=off"]);
    let Some(fleet) = Fleet::over(postgres.url("postgres")).await else {
        return;
    };
    let few = ["--store-connections", "4"];
    let a = fleet
        .replica_with("a", &[&["--role", "api"], &few[..]].concat())
        .await;
    let has_log = |seen: &HashMap<String, f64>| seen.contains_key("easel_store_log_bytes_total");
    let before = of_store(&until(&fleet, &a, has_log).await, "log_bytes_total");
    let mut jobs = Vec::new();
    for n in 0..WAITING {
        jobs.push(fleet.submit(&a, &tiny_graph(n)).await);
    }
    let depth = |queued: usize| {
        move |seen: &HashMap<String, f64>| {
            let known =
                ["easel_jobs_queued", "easel_jobs_running"].map(|name| seen.get(name).copied());
            known == [Some(queued as f64), Some(0.0)]
        }
    };
    // Nobody runs them yet.
    until(&fleet, &a, depth(WAITING)).await;
    let b = fleet.replica_with("b", &few).await;
    let submitting =
        join_all((0..JOBS).map(async |n| fleet.submit(&a, &tiny_graph(100 + n)).await));
    let sampling = async {
        let mut lags = Vec::new();
        loop {
            for server in [&a, &b] {
                let seen = metrics(&fleet, server).await;
                let [used, idle, waiting] = ["used", "idle", "waiting"]
                    .map(|kind| of_store(&seen, &format!("connections_{kind}")));
                assert!(
                    used >= 0.0 && idle >= 0.0 && used + idle <= FEW,
                    "{used} {idle}"
                );
                assert!((0.0..1_000.0).contains(&waiting), "{waiting}");
                lags.push(of_store(&seen, "changes_lag_seconds"));
                let queued = seen["easel_jobs_queued"] + seen["easel_jobs_running"];
                assert!(queued <= (WAITING + JOBS) as f64, "{queued}");
            }
            // What is asked of it takes the time that other tests leave it.
            if lags.len() >= 20 {
                return lags;
            }
        }
    };
    let (submitted, lags) = tokio::join!(submitting, sampling);
    assert!(lags.iter().all(|lag| (0.0..60.0).contains(lag)), "{lags:?}");
    assert!(lags.iter().any(|lag| *lag > 0.0), "{lags:?}");
    jobs.extend(submitted);
    for job in &jobs {
        assert_eq!(fleet.ended(&a, job).await["status"], "succeeded");
    }
    for server in [&a, &b] {
        until(&fleet, server, depth(0)).await;
    }
    // One that starts now reads at once what the others read once in 30 s.
    let c = fleet.replica_with("c", &few).await;
    let seen = until(&fleet, &c, has_log).await;
    let of_job = (of_store(&seen, "log_bytes_total") - before) / jobs.len() as f64;
    assert!(
        (200.0..200_000.0).contains(&of_job),
        "{of_job} bytes of the log for each job"
    );
    for table in HOT {
        let dead = of_store(&seen, &format!("dead_rows{{table=\"{table}\"}}"));
        assert!(dead >= 0.0, "{table}: {dead}");
    }
    for server in [a, b, c] {
        assert!(server.terminate().await.unwrap().success());
    }
}

/// Somebody has a table for himself, so that all connections of a replica wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn callers_are_told_when_no_connection_is_free_and_served_once_one_is() {
    const HOLD: &str =
        "BEGIN; LOCK TABLE jobs, jobs_over IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3600)";
    const HELD: &str = "SELECT count(*) FROM pg_locks WHERE relation = 'jobs'::regclass AND granted
        AND mode = 'AccessExclusiveLock'";
    const LET_GO: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK TABLE%'";
    if !is_possible("a pool that is used up").await {
        return;
    }
    let postgres = std::sync::Arc::new(PostgresServer::start(&["fsync=off"]));
    let Some(fleet) = Fleet::over(postgres.url("postgres")).await else {
        return;
    };
    let a = fleet.replica_with("a", &["--store-connections", "2"]).await;
    let job = fleet.submit(&a, &tiny_graph(1)).await;
    assert_eq!(fleet.ended(&a, &job).await["status"], "succeeded");
    let holding = tokio::spawn({
        let postgres = postgres.clone();
        async move { postgres.try_execute("postgres", HOLD).await }
    });
    let held = async {
        while postgres.value(HELD).await == "0" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(held).await;
    let look = fleet.own(Request::get(&format!("/api/v2/jobs/{job}")));
    let asked = in_time(join_all((0..12).map(|_| a.send(&look)))).await;
    for answer in asked {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 500, "{}", answer.text());
        assert_eq!(
            answer.json()["error"]["code"],
            "upstream_error",
            "{}",
            answer.text()
        );
    }
    postgres.execute("postgres", LET_GO).await;
    assert!(!holding.await.unwrap(), "its session was ended");
    let served = async {
        while a.send(&look).await.unwrap().status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(served).await;
    let job = fleet.submit(&a, &tiny_graph(2)).await;
    assert_eq!(fleet.ended(&a, &job).await["status"], "succeeded");
    assert!(a.terminate().await.unwrap().success());
}
