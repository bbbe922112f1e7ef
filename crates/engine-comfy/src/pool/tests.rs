//! What a pool knows of its workers together.

use std::sync::Barrier;

use asset_store::MemoryBlobs;
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::*;
use crate::slots::WorkerSlots;

/// How often two workers are met: without an order between the two, one in some meetings loses its classes.
const MEETINGS: usize = 300;

fn definitions(class: &str) -> Arc<Definitions> {
    // Some more, so that putting them together takes a while.
    let names = (0..50).map(|number| format!("{class}-{number}"));
    let entries: Map<String, Value> = names
        .chain([class.to_owned()])
        .map(|name| (name, json!({"input": {"required": {}}})))
        .collect();
    Arc::new(Definitions::read("0.33.0", Value::Object(entries)).expect("definitions"))
}

/// A pool of these workers. Needs a runtime.
fn pool(names: [&str; 2]) -> ComfyPool {
    let config = PoolConfig {
        preview_method: "none".to_owned(),
        asked_previews: |_| None,
        folder: None,
        socket_name: None,
        extra_ca_pem: None,
        slots: WorkerSlots::default(),
        bell: Arc::new(|| {}),
    };
    let pool = ComfyPool::new(Arc::new(MemoryBlobs::new(jiff::Timestamp::now)), config);
    for (name, port) in names.into_iter().zip([1, 2]) {
        let worker = WorkerConfig {
            name: name.to_owned(),
            url: format!("http://127.0.0.1:{port}")
                .parse()
                .expect("an address"),
            headers: Default::default(),
            ca_pem: None,
            slots: None,
            keeps_definitions: false,
        };
        pool.add(worker).expect("a worker");
    }
    pool
}

/// A runtime that nothing drives, so that nobody connects.
fn runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

#[test]
fn a_class_of_drained_workers_alone_is_known_as_such() {
    let runtime = runtime();
    let _guard = runtime.enter();
    let pool = pool(["A", "B"]);
    for (name, class) in [("A", "OfA"), ("B", "OfB")] {
        let worker = pool.shared.worker(name).expect("a worker");
        worker.shared().definitions = Some(definitions(class));
    }
    let states = || {
        let nodes = pool.nodes();
        ["OfA", "OfB"].map(|class| (nodes.get(class).is_some(), nodes.is_drained(class)))
    };
    let (there, drained) = ((true, false), (false, true));
    assert!(pool.drain("A", true));
    assert_eq!(states(), [drained, there]);
    assert!(pool.drain("B", true));
    assert_eq!(states(), [drained, drained]);
    assert!(pool.drain("A", false));
    assert_eq!(states(), [there, drained]);
    assert!(pool.remove("B"));
    assert_eq!(states(), [there, (false, false)]);
}

#[test]
fn two_workers_that_are_met_at_once_both_keep_their_classes() {
    let runtime = runtime();
    let _guard = runtime.enter();
    let names = ["A", "B"];
    let pool = pool(names);
    let shared = &pool.shared;
    let known = |class| shared.merged().catalog.get(class).is_some();
    for meeting in 0..MEETINGS {
        for worker in shared.workers() {
            worker.shared().definitions = None;
        }
        shared.merge();
        assert_eq!(names.map(known), [false, false]);
        let together = Barrier::new(names.len());
        std::thread::scope(|scope| {
            for name in names {
                let (together, worker) = (&together, shared.worker(name).expect("a worker"));
                scope.spawn(move || {
                    let found = definitions(name);
                    together.wait();
                    shared.merge_with(Some((&worker, &found)), || {
                        assert!(known(name), "its classes come before it");
                        worker.shared().definitions = Some(Arc::clone(&found));
                    });
                });
            }
        });
        assert_eq!(names.map(known), [true, true], "meeting {meeting}");
    }
}

#[tokio::test]
async fn a_run_waits_for_a_place_until_every_worker_is_drained_or_gone() {
    let pool = pool(["A", "B"]);
    let (job, needs) = (
        JobId(Uuid::nil()),
        Requirements::of_engine(ComfyPool::name()),
    );
    let acquire = pool.shared.acquire(job, &needs, &[]);
    tokio::pin!(acquire);
    let mut waits = async |why: &str| {
        let looked = timeout(Duration::ZERO, acquire.as_mut()).await;
        assert!(looked.is_err(), "{why}");
    };
    waits("they may connect yet").await;
    assert!(pool.drain("A", true));
    waits("the other one may take it").await;
    assert!(pool.remove("B"));
    assert!(acquire.await.is_none(), "an operator drained the last one");
    assert_eq!(pool.waiting().0, 0);
    assert!(pool.remove("A"));
    assert!(pool.shared.acquire(job, &needs, &[]).await.is_none());
}
