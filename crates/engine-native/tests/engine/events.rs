//! What is told of a run, and in which order.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use engine_native::NodeOutput;
use engine_native::define::link;
use serde_json::json;

use crate::bench::{Bench, CONFIG};
use crate::toys;

#[tokio::test]
async fn a_linear_run_tells_each_node_once_and_in_order() {
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 4, "batch_size": 2, "color": 255}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "golden/a"}},
    });
    let told = Bench::new().run(&graph).await.expect_success();
    let expected = [
        "cached ",
        "started 1 EmptyImage",
        "finished 1",
        "started 2 SaveImage",
        "commit 2/0 golden/a_00001_.png",
        "commit 2/1 golden/a_00002_.png",
        r#"executed 2 {"images":[{"filename":"a_00001_.png","subfolder":"golden","type":"output"},{"filename":"a_00002_.png","subfolder":"golden","type":"output"}]}"#,
        "finished 2",
    ];
    assert_eq!(told.events, expected);
}

#[tokio::test]
async fn many_nodes_at_once_are_told_in_one_order() {
    // Twenty independent chains into twenty outputs: whatever the threads do, the telling is that of a sequential run.
    let mut graph = serde_json::Map::new();
    for chain in 0..20 {
        let (a, b, c) = (
            format!("a{chain}"),
            format!("b{chain}"),
            format!("c{chain}"),
        );
        graph.insert(
            c,
            json!({"class_type": "Show", "inputs": {"value": [b, 0]}}),
        );
        graph.insert(
            b,
            json!({"class_type": "Add", "inputs": {"a": [a, 0], "b": 1}}),
        );
        graph.insert(
            a,
            json!({"class_type": "Add", "inputs": {"a": chain, "b": 1000}}),
        );
    }
    let graph = graph.into();
    let nodes = || vec![toys::add(&Arc::new(AtomicUsize::new(0))), toys::show()];
    let first = Bench::with(CONFIG, nodes())
        .run(&graph)
        .await
        .expect_success();
    assert_eq!(first.lines(&["started", "finished"]).len(), 120);
    // The sources of an output come right before it, because an output that can run is never left waiting.
    assert_eq!(
        first.events[1..4],
        ["started a0 Add", "finished a0", "started b0 Add"].map(str::to_owned)
    );
    for _ in 0..20 {
        let again = Bench::with(CONFIG, nodes())
            .run(&graph)
            .await
            .expect_success();
        assert_eq!(again.events, first.events);
    }
}

#[tokio::test]
async fn a_preview_is_a_small_jpeg_of_its_node_in_its_turn() {
    let inputs = vec![link("image", "IMAGE")];
    let mut watch = toys::toy("Watch", inputs, Vec::new(), |mut inputs, context| {
        context.preview(inputs.image("image")?.first());
        Ok(NodeOutput::none())
    });
    watch.definition.output_node = true;
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 1024, "height": 256, "batch_size": 1, "color": 255}},
        "2": {"class_type": "Watch", "inputs": {"image": ["1", 0]}},
    });
    let bench = Bench::with(CONFIG, vec![Arc::new(watch)]);
    let told = bench.run(&graph).await.expect_success();
    let expected = [
        "cached ",
        "started 1 EmptyImage",
        "finished 1",
        "started 2 Watch",
        "preview 2 image/jpeg 512x128",
        "finished 2",
    ];
    assert_eq!(told.events, expected);
}
