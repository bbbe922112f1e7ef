//! Who has the engine's threads: nodes that go on after their job ended are given others in their place, within a bound, and what
//! computes nothing has none.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use engine_native::define::output;
use engine_native::{EngineConfig, Node, Overdue, Value};
use serde_json::{Value as Json, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use workflow_core::RunError;

use crate::bench::{Bench, CONFIG};
use crate::toys;

/// How long a test waits for a thread that another run may keep.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls of `Stuck`: when one began, and how many may end.
#[derive(Clone, Default)]
struct Ends(Arc<State>);

#[derive(Default)]
struct State {
    began: Notify,
    allowed: Mutex<usize>,
    changed: Condvar,
}

impl Ends {
    fn allow(&self, calls: usize) {
        *self.0.allowed.lock().unwrap() += calls;
        self.0.changed.notify_all();
    }

    fn wait(&self) {
        self.0.began.notify_one();
        let mut allowed = self.0.allowed.lock().unwrap();
        while *allowed == 0 {
            allowed = self.0.changed.wait(allowed).unwrap();
        }
        *allowed -= 1;
    }
}

/// `Stuck`: never asks whether to stop.
fn stuck(ends: &Ends) -> Arc<dyn Node> {
    let ends = ends.clone();
    let mut stuck = toys::toy("Stuck", vec![], vec![output("INT")], move |_, _| {
        ends.wait();
        Ok(Value::Int(1).into())
    });
    stuck.definition.not_idempotent = true;
    Arc::new(stuck)
}

fn bench(ends: &Ends) -> Bench {
    let config = EngineConfig {
        threads: 1,
        ..CONFIG
    };
    Bench::with(config, vec![stuck(ends), toys::show()])
}

/// Runs `Stuck`, and cancels the run as soon as it has a thread.
async fn cancel_while_stuck(bench: &Bench, ends: &Ends) {
    let cancel = CancellationToken::new();
    let graph = stuck_graph();
    let run = bench.run_with(&graph, |_| {}, cancel.clone());
    let stop = async {
        ends.0.began.notified().await;
        cancel.cancel();
    };
    let (told, ()) = tokio::join!(run, stop);
    let result = told.result;
    assert!(matches!(result, Err(RunError::Canceled(_))), "{result:?}");
}

fn stuck_graph() -> Json {
    json!({
        "1": {"class_type": "Stuck", "inputs": {}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    })
}

fn well() -> Json {
    json!({"1": {"class_type": "Show", "inputs": {"value": 1}}})
}

fn overdue(abandoned: usize, stuck: usize) -> Overdue {
    Overdue { abandoned, stuck }
}

/// Waits until a thread has done what it has to: threads know no paused clock.
async fn until(bench: &Bench, wanted: Overdue) {
    while bench.engine.overdue() != wanted {
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_only_thread_is_replaced_when_its_node_outlives_the_job() {
    let ends = Ends::default();
    let bench = bench(&ends);
    cancel_while_stuck(&bench, &ends).await;
    assert_eq!(
        bench.engine.overdue(),
        overdue(0, 0),
        "it has some time yet"
    );
    bench.run(&well()).await.expect_success();
    assert_eq!(bench.engine.overdue(), overdue(1, 0));
    ends.allow(1);
    until(&bench, overdue(0, 0)).await;
    bench.run(&well()).await.expect_success();
}

#[tokio::test(start_paused = true)]
async fn an_account_whose_nodes_have_all_its_threads_leaves_one_to_others() {
    let ends = Ends::default();
    let bench = bench(&ends);
    let graph = stuck_graph();
    let others = bench.of_account("other");
    let run = bench.run(&graph);
    let other = async {
        ends.0.began.notified().await;
        others.run(&well()).await.expect_success();
        ends.allow(1);
    };
    let (told, ()) = tokio::join!(run, other);
    told.expect_success();
}

#[tokio::test]
async fn what_is_known_is_told_again_while_every_thread_is_taken() {
    let ends = Ends::default();
    let bench = bench(&ends);
    let (others, known) = (bench.of_account("other"), bench.of_account("third"));
    known.run(&well()).await.expect_success();
    let graph = stuck_graph();
    let (first, second) = (bench.run(&graph), others.run(&graph));
    let both = async {
        let begun = async {
            ends.0.began.notified().await;
            let (told, ()) = tokio::join!(second, async {
                ends.0.began.notified().await;
                let told = known.run(&well()).await.expect_success();
                assert_eq!(told.lines(&["cached", "executed"]).len(), 2, "{told:?}");
                ends.allow(2);
            });
            told
        };
        tokio::join!(first, begun)
    };
    let (first, second) = timeout(PATIENCE, both).await.expect("a thread is free");
    first.expect_success();
    second.expect_success();
}

#[tokio::test]
async fn pictures_that_wait_for_the_store_keep_no_thread() {
    let bench = bench(&Ends::default());
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 2, "color": 1}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "p"}},
    });
    let (commits, mut committing) = tokio::sync::mpsc::unbounded_channel();
    let accounts = ["one", "two"].map(|account| {
        let mut bench = bench.of_account(account);
        bench.takes = Arc::new(Semaphore::new(0));
        bench
    });
    let saving = accounts.each_ref().map(|account| {
        let commits = commits.clone();
        let hear = move |line: &str| {
            if line == "to commit" {
                commits.send(()).unwrap();
            }
        };
        account.run_with(&graph, hear, CancellationToken::new())
    });
    let [one, two] = saving;
    let other = async {
        for _ in &accounts {
            committing.recv().await.unwrap();
        }
        // The first picture of each is on its way and the second waits.
        bench.run(&well()).await.expect_success();
        for account in &accounts {
            account.takes.add_permits(2);
        }
    };
    let all = async { tokio::join!(one, two, other) };
    let (one, two, ()) = timeout(PATIENCE, all).await.expect("a thread is free");
    assert_eq!(one.expect_success().outputs.len(), 2);
    assert_eq!(two.expect_success().outputs.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_ends_soon_after_its_job_keeps_its_thread() {
    let ends = Ends::default();
    let bench = bench(&ends);
    cancel_while_stuck(&bench, &ends).await;
    ends.allow(1);
    // A runtime that idles would move the paused clock on before the thread has ended its call.
    let clock_stands = async {
        loop {
            tokio::task::yield_now().await;
        }
    };
    let graph = well();
    tokio::select! {
        told = bench.run(&graph) => {
            told.expect_success();
        }
        () = clock_stands => {}
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.engine.overdue(), overdue(0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_gives_up_its_thread_too() {
    let ends = Ends::default();
    let bench = bench(&ends);
    let graph = stuck_graph();
    tokio::select! {
        told = bench.run_with(&graph, |_| {}, CancellationToken::new()) => panic!("{told:?}"),
        () = ends.0.began.notified() => {}
    }
    bench.run(&well()).await.expect_success();
    assert_eq!(bench.engine.overdue(), overdue(1, 0));
    ends.allow(1);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_a_stuck_thread_is_replaced_when_another_ends() {
    let ends = Ends::default();
    let bench = bench(&ends);
    for abandoned in 1..=16 {
        cancel_while_stuck(&bench, &ends).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(bench.engine.overdue(), overdue(abandoned, 0));
    }
    cancel_while_stuck(&bench, &ends).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.engine.overdue(), overdue(16, 1));
    // Whichever of the 17 ends now, its thread makes the next call.
    ends.allow(1);
    bench.run(&well()).await.expect_success();
    assert_eq!(bench.engine.overdue(), overdue(16, 0));
    ends.allow(16);
    until(&bench, overdue(0, 0)).await;
    bench.run(&well()).await.expect_success();
}
