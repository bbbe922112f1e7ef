//! How runs end otherwise than well, and that nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine_native::define::{int_input, output};
use engine_native::{EngineConfig, NodeError, Value};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use workflow_core::{JobErrorCode, RunError};

use crate::bench::{Bench, CONFIG, Told};
use crate::toys::{self, Gate};

/// Code, node and class, exception type, message.
pub(crate) fn failure(told: &Told) -> (JobErrorCode, String, String, String) {
    let Err(RunError::Failed(error)) = &told.result else {
        panic!("{:?}", told.result)
    };
    let node = error.node_id.as_ref().map_or("", |node| node.as_str());
    let class = error.class_type.clone().unwrap_or_default();
    (
        error.code,
        format!("{node} {class}"),
        error.exception_type.clone().unwrap_or_default(),
        error.message.clone(),
    )
}

#[tokio::test]
async fn a_failing_node_ends_the_run_in_its_turn() {
    // As recorded: the output that is ready comes before the node that fails.
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 1, "height": 1, "batch_size": 1, "color": 7}},
        "2": {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "blur_radius": 5, "sigma": 1.0}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "a"}},
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    });
    let told = Bench::new().run(&graph).await;
    let begun = [
        "started 1 EmptyImage",
        "finished 1",
        "started 4 PreviewImage",
        "finished 4",
        "started 2 ImageBlur",
    ];
    assert_eq!(told.lines(&["started", "finished"]), begun);
    let (code, place, exception, message) = failure(&told);
    assert_eq!(
        (code, place.as_str(), exception.as_str()),
        (
            JobErrorCode::NodeExecutionError,
            "2 ImageBlur",
            "RuntimeError"
        )
    );
    assert!(message.contains("smaller radius"), "{message}");
}

#[tokio::test]
async fn failures_have_the_names_of_the_exceptions_of_a_real_one() {
    let image = json!({"class_type": "EmptyImage", "inputs": {"width": 1, "height": 1, "batch_size": 1, "color": 7}});
    for (class, inputs, exception) in [
        (
            "ImageToMask",
            json!({"image": ["image", 0], "channel": "alpha"}),
            "IndexError",
        ),
        (
            "RegexReplace",
            json!({"string": "a", "regex_pattern": "(", "replace": "b"}),
            "re.error",
        ),
        (
            "RegexMatch",
            json!({"string": "1", "regex_pattern": r"\N{DIGIT ONE}",
            "case_insensitive": true, "multiline": false, "dotall": false}),
            "re.error",
        ),
        (
            "ComfyMathExpression",
            json!({"expression": "b", "values.a": 1}),
            "simpleeval.NameNotDefined",
        ),
        (
            "ComfyMathExpression",
            json!({"expression": "b(a)", "values.a": 1}),
            "simpleeval.FunctionNotDefined",
        ),
        (
            "JsonExtractString",
            json!({"json_string": r#"{"a": "\ud800"}"#, "key": "a"}),
            "ValueError",
        ),
    ] {
        let told = Bench::new()
            .run(&json!({
                "image": image,
                "node": {"class_type": class, "inputs": inputs},
                "show": {"class_type": "PreviewAny", "inputs": {"source": ["node", 0]}},
            }))
            .await;
        assert_eq!(failure(&told).2, exception, "{class} {inputs}");
    }
}

#[tokio::test]
async fn the_failure_that_is_told_is_that_of_the_first_node_in_order() {
    // The second failing node is done at once, the first only after a while: still the first is told.
    let gate = Gate::default();
    let wait = gate.clone();
    let slow = toys::toy("Slow", vec![], vec![output("INT")], move |_, _| {
        wait.pass();
        Err(NodeError::new("SlowError", "it broke late"))
    });
    let graph = json!({
        "1": {"class_type": "Slow", "inputs": {}},
        "2": {"class_type": "Fail", "inputs": {}},
        "3": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
        "4": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
    });
    let bench = Bench::with(CONFIG, vec![Arc::new(slow), toys::fail(), toys::show()]);
    let hear = move |line: &str| {
        if line == "started 1 Slow" {
            gate.open();
        }
    };
    let told = bench.run_with(&graph, hear, CancellationToken::new()).await;
    assert_eq!(failure(&told).1, "1 Slow");
}

#[tokio::test]
async fn a_panic_fails_its_job_alone_and_tells_nothing_of_the_inside() {
    let bench = Bench::with(CONFIG, vec![toys::panics(), toys::show()]);
    let graph = json!({
        "1": {"class_type": "Panic", "inputs": {}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    });
    for _ in 0..4 {
        let told = bench.run(&graph).await;
        let (code, place, exception, message) = failure(&told);
        assert_eq!(
            (code, place.as_str(), exception.as_str()),
            (JobErrorCode::NodeExecutionError, "1 Panic", "PanicError")
        );
        assert!(!message.contains("0x"), "{message}");
    }
    let well = json!({"1": {"class_type": "Show", "inputs": {"value": 1}}});
    bench.run(&well).await.expect_success();
}

#[tokio::test]
async fn a_picture_beyond_the_budget_is_out_of_memory_before_it_is_made() {
    let config = EngineConfig {
        job_memory_bytes: 1 << 20,
        ..CONFIG
    };
    let graph = |side: u32| {
        json!({
            "1": {"class_type": "EmptyImage", "inputs": {"width": side, "height": side, "batch_size": 1, "color": 7}},
            "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        })
    };
    let bench = Bench::with(config, vec![]);
    let told = bench.run(&graph(16_384)).await;
    let (code, place, _, message) = failure(&told);
    assert_eq!(
        (code, place.as_str()),
        (JobErrorCode::OutOfMemory, "1 EmptyImage")
    );
    assert!(message.contains("smaller pictures"), "{message}");
    bench.run(&graph(128)).await.expect_success();
}

#[tokio::test]
async fn what_nobody_reads_any_more_is_not_held() {
    // A chain of ten pictures under a budget for three.
    let config = EngineConfig {
        job_memory_bytes: 3 * 100 * 100 * 3 * 4,
        cache_bytes: 0,
        ..CONFIG
    };
    let mut graph = serde_json::Map::new();
    graph.insert("0".to_owned(), json!({"class_type": "EmptyImage", "inputs": {"width": 100, "height": 100, "batch_size": 1, "color": 7}}));
    for at in 1..10 {
        graph.insert(
            at.to_string(),
            json!({"class_type": "ImageInvert", "inputs": {"image": [(at - 1).to_string(), 0]}}),
        );
    }
    graph.insert(
        "save".to_owned(),
        json!({"class_type": "PreviewImage", "inputs": {"images": ["9", 0]}}),
    );
    Bench::with(config, vec![])
        .run(&graph.into())
        .await
        .expect_success();
}

#[tokio::test]
async fn a_node_that_lacks_memory_only_beside_others_runs_again_alone() {
    // Two nodes that each need most of the budget while they run; the threads may begin both.
    let config = EngineConfig {
        job_memory_bytes: 1000,
        ..CONFIG
    };
    let hungry = toys::toy(
        "Hungry",
        vec![int_input("id", json!({}))],
        vec![output("INT")],
        |inputs, context| {
            // Time for others to begin and to be first.
            (0..100).for_each(|_| std::thread::yield_now());
            context.reserve(700)?;
            Ok(Value::Int(inputs.int("id")?).into())
        },
    );
    let bench = Bench::with(config, vec![Arc::new(hungry), toys::show()]);
    for round in 0..20 {
        let mut graph = serde_json::Map::new();
        for at in 0..4 {
            graph.insert(
                format!("{at}"),
                json!({"class_type": "Hungry", "inputs": {"id": round * 10 + at}}),
            );
            graph.insert(
                format!("show{at}"),
                json!({"class_type": "Show", "inputs": {"value": [format!("{at}"), 0]}}),
            );
        }
        bench.run(&graph.into()).await.expect_success();
    }
}

#[tokio::test]
async fn a_canceled_run_names_the_node_that_was_about_to_run() {
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let interrupt = toys::toy("Interrupt", vec![], vec![output("INT")], move |_, _| {
        stop.cancel();
        Ok(Value::Int(1).into())
    });
    let graph = json!({
        "1": {"class_type": "Interrupt", "inputs": {}},
        "2": {"class_type": "Add", "inputs": {"a": ["1", 0], "b": 1}},
        "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
    });
    let calls = Arc::new(AtomicUsize::new(0));
    let bench = Bench::with(
        CONFIG,
        vec![Arc::new(interrupt), toys::add(&calls), toys::show()],
    );
    let told = bench.run_with(&graph, |_| {}, cancel).await;
    assert_eq!(told.result, Err(RunError::Canceled(Some("2".into()))));
    assert_eq!(
        told.events,
        [
            "cached ",
            "started 1 Interrupt",
            "finished 1",
            "started 2 Add"
        ]
    );
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_node_that_reports_steps_is_stopped_within() {
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let endless = toys::toy("Endless", vec![], vec![output("INT")], |_, context| {
        for step in 0.. {
            context.progress(step, u32::MAX)?;
        }
        Ok(Value::Int(0).into())
    });
    let graph = json!({
        "1": {"class_type": "Endless", "inputs": {}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    });
    let bench = Bench::with(CONFIG, vec![Arc::new(endless), toys::show()]);
    let hear = move |line: &str| {
        if line.starts_with("step 1 5/") {
            stop.cancel();
        }
    };
    let told = bench.run_with(&graph, hear, cancel).await;
    assert_eq!(told.result, Err(RunError::Canceled(Some("1".into()))));
}

#[tokio::test]
async fn a_run_does_not_wait_for_a_node_that_never_asks() {
    let cancel = CancellationToken::new();
    let (stop, gate) = (cancel.clone(), Gate::default());
    let wait = gate.clone();
    let deaf = toys::toy("Deaf", vec![], vec![output("INT")], move |_, context| {
        stop.cancel();
        wait.pass();
        context.text("too late");
        Ok(Value::Int(0).into())
    });
    let graph = json!({
        "1": {"class_type": "Deaf", "inputs": {}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    });
    let bench = Bench::with(CONFIG, vec![Arc::new(deaf), toys::show()]);
    let told = bench.run_with(&graph, |_| {}, cancel).await;
    gate.open();
    assert_eq!(told.result, Err(RunError::Canceled(Some("1".into()))));
    assert_eq!(told.lines(&["text"]), [""; 0]);
}

#[tokio::test]
async fn broken_pictures_fail_their_job_with_a_reason() {
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "x.png"}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    });
    let mut bench = Bench::new();
    for bytes in [
        &b""[..],
        b"hello",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        b"\xff\xd8\xff\xe0",
    ] {
        bench.upload("x.png", bytes).await;
        let told = bench.run(&graph).await;
        let (code, place, exception, message) = failure(&told);
        assert_eq!(
            (code, place.as_str()),
            (JobErrorCode::NodeExecutionError, "1 LoadImage"),
            "{message}"
        );
        assert!(!exception.is_empty());
    }
}

#[tokio::test]
async fn a_prefix_outside_the_outputs_fails_before_anything_is_saved() {
    let graph: Json = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "../../etc/x"}},
    });
    let told = Bench::new().run(&graph).await;
    assert_eq!(failure(&told).1, "2 SaveImage");
    assert!(told.outputs.is_empty());
}

#[tokio::test]
async fn nodes_that_multiply_meet_a_bound_instead_of_filling_memory() {
    let mut batches = serde_json::Map::new();
    let mut texts = serde_json::Map::new();
    batches.insert("0".to_owned(), json!({"class_type": "EmptyImage", "inputs": {"width": 1, "height": 1, "batch_size": 4096, "color": 7}}));
    texts.insert(
        "0".to_owned(),
        json!({"class_type": "PrimitiveString", "inputs": {"value": "0123456789"}}),
    );
    for at in 1..60 {
        let before = json!([(at - 1).to_string(), 0]);
        let repeat =
            json!({"class_type": "RepeatImageBatch", "inputs": {"image": before, "amount": 4096}});
        let double = json!({"class_type": "StringConcatenate", "inputs": {"string_a": before, "string_b": before, "delimiter": ""}});
        batches.insert(at.to_string(), repeat);
        texts.insert(at.to_string(), double);
    }
    batches.insert(
        "last".to_owned(),
        json!({"class_type": "GetImageSize", "inputs": {"image": ["59", 0]}}),
    );
    batches.insert(
        "show".to_owned(),
        json!({"class_type": "PreviewAny", "inputs": {"source": ["last", 0]}}),
    );
    texts.insert(
        "show".to_owned(),
        json!({"class_type": "PreviewAny", "inputs": {"source": ["59", 0]}}),
    );
    let config = EngineConfig {
        job_memory_bytes: 32 << 20,
        ..CONFIG
    };
    let bench = Bench::with(config, vec![]);
    let told = bench.run(&batches.into()).await;
    assert_eq!(failure(&told).0, JobErrorCode::OutOfMemory);
    let (code, place, exception, message) = failure(&bench.run(&texts.into()).await);
    assert_eq!(code, JobErrorCode::NodeExecutionError);
    assert_eq!(
        (place.as_str(), exception.as_str()),
        ("17 StringConcatenate", "MemoryError")
    );
    assert!(message.contains("a text may have 1048576"), "{message}");
}

#[tokio::test]
async fn linked_numbers_beyond_all_memory_fail_their_node() {
    let graph = |class: &str, inputs: Json| {
        json!({
            "image": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
            "far": {"class_type": "PrimitiveInt", "inputs": {"value": i64::MAX}},
            "node": {"class_type": class, "inputs": inputs},
            "show": {"class_type": "PreviewAny", "inputs": {"source": ["node", 0]}},
        })
    };
    for (class, inputs) in [
        (
            "ImagePadForOutpaint",
            json!({"image": ["image", 0], "left": ["far", 0], "top": 0, "right": ["far", 0], "bottom": 8, "feathering": ["far", 0]}),
        ),
        (
            "ImagePadForOutpaint",
            json!({"image": ["image", 0], "left": ["far", 0], "top": 0, "right": 0, "bottom": 0, "feathering": 0}),
        ),
        (
            "ImageStitch",
            json!({
                "image1": ["image", 0], "image2": ["image", 0], "direction": "right", "match_image_size": true,
                "spacing_width": ["far", 0], "spacing_color": "white",
            }),
        ),
        (
            "EmptyAudio",
            json!({"duration": 0.0, "sample_rate": 44100, "channels": ["far", 0]}),
        ),
    ] {
        let (code, place, ..) = failure(&Bench::new().run(&graph(class, inputs)).await);
        let expected = (JobErrorCode::OutOfMemory, format!("node {class}"));
        assert_eq!((code, place), expected);
    }
}

#[tokio::test]
async fn a_sound_without_a_rate_is_told() {
    let graph = json!({
        "none": {"class_type": "PrimitiveInt", "inputs": {"value": 0}},
        "sound": {"class_type": "EmptyAudio", "inputs": {"duration": 1.0, "sample_rate": ["none", 0], "channels": 2}},
        "save": {"class_type": "SaveAudioOpus", "inputs": {"audio": ["sound", 0], "filename_prefix": "a", "quality": "128k"}},
    });
    let (code, place, exception, message) = failure(&Bench::new().run(&graph).await);
    assert_eq!(
        (code, place.as_str(), exception.as_str()),
        (
            JobErrorCode::NodeExecutionError,
            "save SaveAudioOpus",
            "ValueError"
        )
    );
    assert!(message.contains("0 samples a second"), "{message}");
}
