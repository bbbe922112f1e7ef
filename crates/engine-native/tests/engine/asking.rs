//! Nodes that ask another service and wait: without a thread, without a slot, and no longer than their run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine_native::define::{classic, int_input, output};
use engine_native::{EngineConfig, Inputs, Node, NodeContext, NodeError, NodeOutput, Value, Wait};
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use workflow_core::{NodeDefinition, RunError};

use crate::bench::{Bench, CONFIG};
use crate::toys::{add, count, show};

/// `Ask`: twice a number, once the test lets the answer through.
struct Ask {
    gate: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
    waiting: Arc<AtomicUsize>,
}

/// Counts who waits.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Node for Ask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![int_input("n", json!({}))],
            outputs: vec![output("INT")],
            ..classic("Ask", "tests", "tests")
        }
    }

    fn ask(&self, inputs: &mut Inputs, context: &NodeContext) -> Result<Option<Wait>, NodeError> {
        let n: i128 = inputs.int("n")?;
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = Guard(Arc::clone(&self.waiting));
        let gate = Arc::clone(&self.gate);
        context.text("asking");
        Ok(Some(Wait::for_answer(async move {
            let _guard = guard;
            gate.acquire().await.expect("it is never closed").forget();
            match n {
                13 => Err(NodeError::new("AnswerError", "nobody answers that")),
                14 => panic!("at 0x7ffe_dead_beef"),
                n => Ok(n * 2),
            }
        })))
    }

    fn run(&self, mut inputs: Inputs, _: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(Value::Int(inputs.awaited::<i128>()?).into())
    }
}

/// A bench of one thread with `Ask` among its classes, and what lets answers through.
struct Rig {
    bench: Arc<Bench>,
    gate: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
    waiting: Arc<AtomicUsize>,
    added: Arc<AtomicUsize>,
}

impl Rig {
    fn new() -> Self {
        let (gate, asked) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
        let (waiting, added) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let ask = Ask {
            gate: Arc::clone(&gate),
            asked: Arc::clone(&asked),
            waiting: Arc::clone(&waiting),
        };
        let config = EngineConfig {
            threads: 1,
            ..CONFIG
        };
        let nodes: Vec<Arc<dyn Node>> = vec![Arc::new(ask), add(&added), count(), show()];
        Self {
            bench: Arc::new(Bench::with(config, nodes)),
            gate,
            asked,
            waiting,
            added,
        }
    }
}

fn one(n: i32) -> Json {
    json!({
        "1": {"class_type": "Ask", "inputs": {"n": n}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    })
}

fn shown(node: &str, texts: &[&str]) -> String {
    format!("executed {node} {}", json!({"text": texts}))
}

#[tokio::test]
async fn a_node_that_waits_keeps_no_thread() {
    let rig = Rig::new();
    let graph = json!({
        "1": {"class_type": "Ask", "inputs": {"n": 4}},
        "2": {"class_type": "Add", "inputs": {"a": 1, "b": 2}},
        "3": {"class_type": "Add", "inputs": {"a": ["1", 0], "b": ["2", 0]}},
        "4": {"class_type": "Show", "inputs": {"value": ["3", 0]}},
    });
    let (bench, run_graph) = (Arc::clone(&rig.bench), graph.clone());
    let run = tokio::spawn(async move { bench.run(&run_graph).await });
    // The only thread is free for another node of the run, and for another run.
    while rig.added.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let other = json!({
        "1": {"class_type": "Add", "inputs": {"a": 5, "b": 5}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    });
    let told = rig.bench.run(&other).await.expect_success();
    assert!(told.events.contains(&shown("2", &["10"])), "{told:?}");
    assert_eq!(rig.waiting.load(Ordering::SeqCst), 1);

    rig.gate.add_permits(1);
    let told = run.await.unwrap().expect_success();
    assert!(told.events.contains(&shown("4", &["11"])), "{told:?}");
    assert_eq!(rig.waiting.load(Ordering::SeqCst), 0);

    // An answer that is kept is not asked for again.
    let told = rig.bench.run(&graph).await.expect_success();
    assert!(told.events.contains(&shown("4", &["11"])), "{told:?}");
    assert_eq!(rig.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn every_item_of_a_list_is_asked_for_in_its_turn() {
    let rig = Rig::new();
    rig.gate.add_permits(3);
    let graph = json!({
        "1": {"class_type": "Count", "inputs": {"n": 3}},
        "2": {"class_type": "Ask", "inputs": {"n": ["1", 0]}},
        "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
    });
    let told = rig.bench.run(&graph).await.expect_success();
    assert!(
        told.events.contains(&shown("3", &["0", "2", "4"])),
        "{told:?}"
    );
    assert_eq!(rig.asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_run_that_is_stopped_waits_no_longer() {
    let rig = Rig::new();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let hear = move |line: &str| {
        if line.starts_with("started 1") {
            stop.cancel();
        }
    };
    let told = rig.bench.run_with(&one(4), hear, cancel).await;
    assert_eq!(told.result, Err(RunError::Canceled(Some("1".into()))));
    assert_eq!(rig.waiting.load(Ordering::SeqCst), 0, "nobody waits on");
}

#[tokio::test]
async fn an_answer_that_fails_or_panics_fails_its_node() {
    for (n, exception) in [(13, "AnswerError"), (14, "PanicError")] {
        let rig = Rig::new();
        rig.gate.add_permits(1);
        let told = rig.bench.run(&one(n)).await;
        let Err(RunError::Failed(error)) = told.result else {
            panic!("{n} fails")
        };
        assert_eq!(error.exception_type.as_deref(), Some(exception));
        assert_eq!(error.node_id, Some("1".into()));
        assert!(!error.message.contains("beef"), "{}", error.message);
    }
}

#[tokio::test]
async fn classes_may_be_offered_and_taken_away_while_it_runs() {
    let rig = Rig::new();
    let engine = &rig.bench.engine;
    let has = |class| workflow_core::Engine::nodes(engine).get(class).is_some();
    let before = workflow_core::Engine::nodes(engine);
    let built_in = before.len();
    engine.offer(&[crate::toys::fail()]);
    assert!(has("Fail") && has("Ask"));
    let now = workflow_core::Engine::nodes(engine);
    let same = |known| now.get(known).zip(before.get(known));
    let (now, before) = same("SaveImage").expect("it is built in");
    assert!(Arc::ptr_eq(now, before), "what is built in is defined once");
    engine.offer(&[crate::toys::panics()]);
    assert!(has("Panic") && !has("Fail"));
    engine.offer(&[]);
    assert_eq!(workflow_core::Engine::nodes(engine).len(), built_in);

    // What began with a class ends with it.
    let ask = Ask {
        gate: Arc::clone(&rig.gate),
        asked: Arc::clone(&rig.asked),
        waiting: Arc::clone(&rig.waiting),
    };
    let bench = Arc::new(Bench::with(CONFIG, vec![show()]));
    bench.engine.offer(&[Arc::new(ask)]);
    let run = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.run(&one(4)).await })
    };
    while rig.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    bench.engine.offer(&[]);
    rig.gate.add_permits(1);
    let told = run.await.unwrap().expect_success();
    assert!(told.events.contains(&shown("2", &["8"])), "{told:?}");
}
