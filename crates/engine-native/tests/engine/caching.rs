//! What is kept between runs, for whom, and what is done again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asset_store::BlobStore;
use engine_native::define::{link, output};
use engine_native::{EngineConfig, Value};
use images::codec::png_text;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG};
use crate::toys;

fn save(prefix: &str) -> Json {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": prefix}},
    })
}

#[tokio::test]
async fn a_rerun_tells_the_files_of_before_and_commits_them_for_its_own_job() {
    let bench = Bench::new();
    let first = bench.run(&save("a")).await.expect_success();
    let again = bench.run(&save("a")).await.expect_success();
    let expected = [
        "commit 3/0 a_00001_.png",
        "cached 1,2,3",
        r#"executed 3 {"images":[{"filename":"a_00001_.png","subfolder":"","type":"output"}]}"#,
        "finished 3",
    ];
    assert_eq!(again.events, expected);
    assert_eq!(again.outputs[0].1, first.outputs[0].1);
}

#[tokio::test]
async fn what_is_no_number_is_never_taken_from_the_cache() {
    let bench = Bench::new();
    let graph = |value: &str| {
        json!({
            "1": {"class_type": "PrimitiveFloat", "inputs": {"value": value}},
            "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
        })
    };
    for (value, again) in [("nan", 2), ("1.5", 0)] {
        bench.run(&graph(value)).await.expect_success();
        let told = bench.run(&graph(value)).await.expect_success();
        assert_eq!(
            told.lines(&["started"]).len(),
            again,
            "{value}: {:?}",
            told.events
        );
    }
}

#[tokio::test]
async fn what_a_node_between_others_showed_is_told_again() {
    let bench = Bench::new();
    let source =
        "#version 300 es\nprecision highp float;\nout vec4 c;\nvoid main() { c = vec4(0.5); }";
    let line = json!({"points": [[0, 0], [1, 1]], "interpolation": "linear"});
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "ImageHistogram", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "CurveEditor", "inputs": {"curve": {"__value__": line}, "histogram": ["2", 0]}},
        "4": {"class_type": "GLSLShader", "inputs": {
            "fragment_shader": source, "size_mode": "from_input", "images.image0": ["1", 0], "curves.u_curve0": ["3", 0],
        }},
        "5": {"class_type": "SaveImage", "inputs": {"images": ["4", 0], "filename_prefix": "a"}},
    });
    let first = bench.run(&graph).await.expect_success();
    let again = bench.run(&graph).await.expect_success();
    assert_eq!(again.lines(&["cached", "started"]), ["cached 1,2,3,4,5"]);
    let shown = again.lines(&["executed 3"]);
    assert_eq!(shown.len(), 1, "{:?}", again.events);
    assert_eq!(shown, first.lines(&["executed 3"]));
}

#[tokio::test]
async fn what_an_account_saved_is_no_other_s_and_pure_values_are_everybody_s() {
    let mut bench = Bench::new();
    bench.run(&save("a")).await.expect_success();
    bench.account = "other";
    let told = bench.run(&save("a")).await.expect_success();
    assert_eq!(told.events[..2], ["cached 1,2", "started 3 SaveImage"]);
    assert_eq!(told.lines(&["commit"]), ["commit 3/0 a_00002_.png"]);
}

#[tokio::test]
async fn a_picture_never_carries_the_metadata_of_another_submission() {
    let mut bench = Bench::new();
    bench.run(&save("a")).await.expect_success();
    let mut renumbered = save("a");
    let node = renumbered.as_object_mut().unwrap().remove("2").unwrap();
    renumbered["7"] = node;
    renumbered["3"]["inputs"]["images"] = json!(["7", 0]);
    let told = bench.run(&renumbered).await.expect_success();
    assert_eq!(
        told.lines(&["cached", "started"]),
        ["cached 1,7", "started 3 SaveImage"],
        "values are found by what they are"
    );
    let prompt: Json =
        serde_json::from_str(&png_text(&told.outputs[0].1, 1 << 16).unwrap()[0].text).unwrap();
    assert_eq!(prompt, renumbered);

    bench
        .extra_pnginfo
        .insert("workflow".to_owned(), json!({"version": 1}));
    let told = bench.run(&renumbered).await.expect_success();
    let texts = png_text(&told.outputs[0].1, 1 << 16).unwrap();
    assert_eq!(
        (texts[1].keyword.as_str(), texts[1].text.as_str()),
        ("workflow", r#"{"version": 1}"#)
    );
}

#[tokio::test]
async fn a_file_that_is_gone_is_made_again() {
    let bench = Bench::new();
    let first = bench.run(&save("a")).await.expect_success();
    assert!(
        bench
            .blobs
            .delete(&first.outputs[0].0.hash, Timestamp::MAX)
            .await
            .unwrap()
    );
    let again = bench.run(&save("a")).await.expect_success();
    let expected = [
        "cached 1,2",
        "started 3 SaveImage",
        "commit 3/0 a_00002_.png",
    ];
    assert_eq!(again.lines(&["cached", "started", "commit"]), expected);
    assert_eq!(again.outputs[0].1, first.outputs[0].1);
}

#[tokio::test]
async fn a_file_of_the_same_name_and_other_bytes_is_another_input() {
    let mut bench = Bench::new();
    let made = bench.run(&save("a")).await.expect_success();
    let mut other = save("b");
    other["1"]["inputs"]["color"] = json!(8);
    let other = bench.run(&other).await.expect_success();
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "x.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "c"}},
    });
    bench.upload("x.png", &made.outputs[0].1).await;
    let first = bench.run(&graph).await.expect_success();
    let prompt: Json =
        serde_json::from_str(&png_text(&first.outputs[0].1, 1 << 16).unwrap()[0].text).unwrap();
    assert!(
        prompt["1"]["is_changed"][0]
            .as_str()
            .is_some_and(|digest| digest.len() == 64)
    );
    assert_eq!(bench.run(&graph).await.lines(&["cached"]), ["cached 1,2"]);
    bench.upload("x.png", &other.outputs[0].1).await;
    assert_eq!(bench.run(&graph).await.lines(&["cached"]), ["cached "]);
}

#[tokio::test]
async fn two_nodes_that_come_to_the_same_run_once_and_both_save() {
    let mut graph = save("a");
    for (from, to) in [("2", "5"), ("3", "6")] {
        graph[to] = graph[from].clone();
    }
    graph["6"]["inputs"]["images"] = json!(["5", 0]);
    let told = Bench::new().run(&graph).await.expect_success();
    assert_eq!(
        told.lines(&["started"]),
        [
            "started 1 EmptyImage",
            "started 2 ImageInvert",
            "started 3 SaveImage"
        ]
    );
    assert_eq!(
        told.lines(&["commit"]),
        ["commit 3/0 a_00001_.png", "commit 6/0 a_00001_.png"]
    );
    assert_eq!(
        told.lines(&["finished"]),
        [
            "finished 1",
            "finished 2",
            "finished 3",
            "finished 5",
            "finished 6"
        ]
    );
    let shown = told.lines(&["executed 6"]);
    assert_eq!(
        shown,
        [r#"executed 6 {"images":[{"filename":"a_00001_.png","subfolder":"","type":"output"}]}"#]
    );
}

#[tokio::test]
async fn nothing_is_kept_without_room_for_it() {
    let config = EngineConfig {
        cache_bytes: 0,
        ..CONFIG
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let bench = Bench::with(config, vec![toys::add(&calls), toys::show()]);
    let graph = json!({
        "1": {"class_type": "Add", "inputs": {"a": 1, "b": 2}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    });
    for _ in 0..3 {
        assert_eq!(bench.run(&graph).await.expect_success().texts()["2"], ["3"]);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_part_that_did_not_change_is_not_done_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let bench = Bench::with(CONFIG, vec![toys::add(&calls), toys::show()]);
    let graph = |last: i64| {
        json!({
            "1": {"class_type": "Add", "inputs": {"a": 1, "b": 2}},
            "2": {"class_type": "Add", "inputs": {"a": ["1", 0], "b": last}},
            "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
        })
    };
    bench.run(&graph(1)).await.expect_success();
    let told = bench.run(&graph(5)).await.expect_success();
    assert_eq!(told.events[0], "cached 1");
    assert_eq!(told.texts()["3"], ["8"]);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_picture_that_nobody_else_holds_is_handed_over_to_be_changed_in_place() {
    let owned = || {
        let inputs = vec![link("image", "IMAGE")];
        Arc::new(toys::toy(
            "Owned",
            inputs,
            vec![output("INT")],
            |mut inputs, _| {
                let mut frames = inputs.image("image")?.into_frames();
                let is_owned = frames.iter_mut().all(|frame| Arc::get_mut(frame).is_some());
                Ok(Value::Int(is_owned.into()).into())
            },
        ))
    };
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "Owned", "inputs": {"image": ["2", 0]}},
        "4": {"class_type": "Show", "inputs": {"value": ["3", 0]}},
    });
    for (cache_bytes, is_owned) in [(0, "1"), (1 << 20, "0")] {
        let config = EngineConfig {
            cache_bytes,
            ..CONFIG
        };
        let told = Bench::with(config, vec![owned(), toys::show()])
            .run(&graph)
            .await
            .expect_success();
        assert_eq!(
            told.texts()["4"],
            [is_owned],
            "a kept picture is never changed"
        );
    }
}
