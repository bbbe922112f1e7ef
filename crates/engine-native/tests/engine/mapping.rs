//! Lists, blockers, lazy inputs and expansions (execution contract 2.3 and 2.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine_native::Node;
use serde_json::json;
use workflow_core::RunError;

use crate::bench::{Bench, CONFIG};
use crate::toys;

fn bench(calls: &Arc<AtomicUsize>) -> Bench {
    let nodes: Vec<Arc<dyn Node>> = vec![
        toys::add(calls),
        toys::count(),
        toys::sum(),
        toys::show(),
        toys::block(),
        toys::choose(),
        toys::double(),
        toys::fail(),
    ];
    Bench::with(CONFIG, nodes)
}

#[tokio::test]
async fn a_node_is_called_for_each_item_and_shorter_lists_repeat_their_last() {
    let graph = json!({
        "1": {"class_type": "Count", "inputs": {"n": 4}},
        "2": {"class_type": "Count", "inputs": {"n": 2}},
        "3": {"class_type": "Add", "inputs": {"a": ["1", 0], "b": ["2", 0]}},
        "4": {"class_type": "Show", "inputs": {"value": ["3", 0]}},
        "5": {"class_type": "Sum", "inputs": {"n": ["3", 0]}},
        "6": {"class_type": "Show", "inputs": {"value": ["5", 0]}},
        "7": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    });
    let calls = Arc::default();
    let told = bench(&calls).run(&graph).await.expect_success();
    let texts = told.texts();
    assert_eq!(
        texts["4"],
        ["0", "2", "3", "4"],
        "what is shown is joined over the calls"
    );
    assert_eq!(texts["6"], ["9"], "a node that takes lists is called once");
    assert_eq!(texts["7"], ["0", "1", "2", "3"]);
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    assert_eq!(
        told.lines(&["commit"]).len(),
        4,
        "every text is an output of the job"
    );
}

#[tokio::test]
async fn pictures_and_masks_are_told_by_their_sides() {
    let sides = json!({"width": 3, "height": 2, "value": 0.5, "batch_size": 4, "color": 0});
    let told = Bench::new()
        .run(&json!({
            "1": {"class_type": "SolidMask", "inputs": sides},
            "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
            "3": {"class_type": "EmptyImage", "inputs": sides},
            "4": {"class_type": "PreviewAny", "inputs": {"source": ["3", 0]}},
        }))
        .await
        .expect_success();
    let texts = told.texts();
    assert_eq!(texts["2"], ["MASK [1, 2, 3]"]);
    assert_eq!(texts["4"], ["IMAGE [4, 2, 3, 3]"]);
}

#[tokio::test]
async fn an_empty_list_fails_with_the_input_s_name() {
    let graph = json!({
        "1": {"class_type": "Count", "inputs": {"n": 0}},
        "2": {"class_type": "Add", "inputs": {"a": ["1", 0], "b": 1}},
        "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
    });
    let told = bench(&Arc::default()).run(&graph).await;
    let Err(RunError::Failed(error)) = told.result else {
        panic!("it fails")
    };
    assert!(error.message.contains("\"a\""), "{}", error.message);
}

#[tokio::test]
async fn a_blocker_skips_its_own_call_only_and_is_told_once() {
    let graph = json!({
        "1": {"class_type": "Count", "inputs": {"n": 4}},
        "2": {"class_type": "Block", "inputs": {"value": ["1", 0]}},
        "3": {"class_type": "Add", "inputs": {"a": ["2", 0], "b": 10}},
        "4": {"class_type": "Show", "inputs": {"value": ["3", 0]}},
    });
    let calls = Arc::default();
    let bench = bench(&calls);
    let told = bench.run(&graph).await.expect_success();
    assert_eq!(told.texts()["4"], ["10", "12"]);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let blocked = "text 3 Execution Blocked: odd numbers stay outside";
    assert_eq!(
        told.lines(&["text"]),
        [blocked, blocked],
        "once per blocker, where it is met first"
    );
}

#[tokio::test]
async fn a_lazy_input_is_evaluated_only_when_asked_for() {
    let graph = |which: i64| {
        json!({
            "a": {"class_type": "Add", "inputs": {"a": 1, "b": 1}},
            "b": {"class_type": "Fail", "inputs": {}},
            "choose": {"class_type": "Choose", "inputs": {"which": which, "a": ["a", 0], "b": ["b", 0]}},
            "show": {"class_type": "Show", "inputs": {"value": ["choose", 0]}},
        })
    };
    let calls = Arc::default();
    let bench = bench(&calls);
    let told = bench.run(&graph(0)).await.expect_success();
    assert_eq!(told.texts()["show"], ["2"]);
    assert_eq!(
        told.lines(&["started"]),
        [
            "started a Add",
            "started choose Choose",
            "started show Show"
        ]
    );
    let told = bench.run(&graph(1)).await;
    let Err(RunError::Failed(error)) = told.result else {
        panic!("the other one fails")
    };
    assert_eq!(error.node_id, Some("b".into()));
    assert_eq!(
        told.events[0], "cached a",
        "what is known is told of, needed or not"
    );
}

#[tokio::test]
async fn asking_for_an_input_that_is_not_linked_is_an_error() {
    let graph = json!({
        "a": {"class_type": "Add", "inputs": {"a": 1, "b": 1}},
        "mute": {"class_type": "Mute", "inputs": {"which": 0, "a": ["a", 0], "b": 3}},
        "show": {"class_type": "Show", "inputs": {"value": ["mute", 0]}},
    });
    let mut mute = toys::choose_toy();
    mute.definition.class = "Mute".to_owned();
    mute.lazy = |_| vec!["nothing".to_owned()];
    let bench = Bench::with(
        CONFIG,
        vec![Arc::new(mute), toys::add(&Arc::default()), toys::show()],
    );
    let told = bench.run(&graph).await;
    let Err(RunError::Failed(error)) = told.result else {
        panic!("it fails")
    };
    assert_eq!(error.node_id, Some("mute".into()));
    assert!(error.message.contains("nothing"), "{}", error.message);
}

#[tokio::test]
async fn an_expansion_runs_inside_its_node() {
    let graph = |show: i64| {
        json!({
            "1": {"class_type": "Count", "inputs": {"n": 3}},
            "2": {"class_type": "Double", "inputs": {"value": ["1", 0], "show": show}},
            "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
        })
    };
    let calls = Arc::default();
    let bench = bench(&calls);
    let told = bench.run(&graph(0)).await.expect_success();
    assert_eq!(told.texts()["3"], ["0", "2", "4"]);
    assert_eq!(
        told.lines(&["started"]),
        ["started 1 Count", "started 2 Double", "started 3 Show"]
    );
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert_eq!(
        bench.run(&graph(0)).await.events[0],
        "cached 1,2,3",
        "the whole of it is kept"
    );

    let told = bench.run(&graph(1)).await.expect_success();
    assert_eq!(
        told.texts()["2"],
        ["0", "2", "4"],
        "what its output nodes show is shown at the node"
    );
    assert_eq!(
        bench.run(&graph(1)).await.lines(&["cached"]),
        ["cached 1"],
        "what it shows must be shown again"
    );
}

#[tokio::test]
async fn a_failure_inside_an_expansion_is_told_of_the_submitted_node() {
    use engine_native::define::output;
    use engine_native::{ExpandedNode, Expansion, NodeOutput, Slot};
    let broken = toys::toy("Broken", vec![], vec![output("INT")], |_, _| {
        let inner = ExpandedNode {
            class: "Fail".to_owned(),
            inputs: [].into(),
        };
        let expansion = Expansion {
            nodes: [("inner".to_owned(), inner)].into(),
        };
        let slots = vec![Slot::Expanded {
            node: "inner".to_owned(),
            slot: 0,
        }];
        Ok(NodeOutput {
            slots,
            expansion: Some(expansion),
            ..NodeOutput::none()
        })
    });
    let bench = Bench::with(CONFIG, vec![Arc::new(broken), toys::fail(), toys::show()]);
    let graph = json!({
        "1": {"class_type": "Broken", "inputs": {}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    });
    let told = bench.run(&graph).await;
    let Err(RunError::Failed(error)) = told.result else {
        panic!("it fails")
    };
    assert_eq!(
        (error.node_id, error.class_type.as_deref()),
        (Some("1".into()), Some("Broken"))
    );
    assert_eq!(error.exception_type.as_deref(), Some("ToyError"));
}

#[tokio::test]
async fn a_chain_of_fifty_thousand_nodes_runs() {
    let mut graph = serde_json::Map::new();
    graph.insert(
        "0".to_owned(),
        json!({"class_type": "Add", "inputs": {"a": 0, "b": 0}}),
    );
    for at in 1..49_999 {
        let before = (at - 1).to_string();
        graph.insert(
            at.to_string(),
            json!({"class_type": "Add", "inputs": {"a": [before, 0], "b": 1}}),
        );
    }
    graph.insert(
        "show".to_owned(),
        json!({"class_type": "Show", "inputs": {"value": ["49998", 0]}}),
    );
    let told = bench(&Arc::default())
        .run(&graph.into())
        .await
        .expect_success();
    assert_eq!(told.texts()["show"], ["49998"]);
}
