//! Recorded conversations: what clients of the older API heard of a run, against what a run tells here.

use std::path::Path;

use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use workflow_core::RunError;

use crate::bench::{Bench, Told};
use crate::goldens;

#[tokio::test]
async fn runs_tell_what_was_recorded_in_its_order() {
    let Some(folder) = goldens::folder() else {
        return;
    };
    for name in [
        "simple",
        "no_feature_flags",
        "lists",
        "progress_text",
        "binary_no_flags",
        "binary_save_image_websocket",
    ] {
        let (graph, recorded) = conversation(&folder, name);
        let told = bench(&folder).await.run(&graph).await.expect_success();
        assert_eq!(heard(&told), recorded, "{name}");
    }
}

#[tokio::test]
async fn a_rerun_tells_what_was_recorded() {
    let Some(folder) = goldens::folder() else {
        return;
    };
    let bench = bench(&folder).await;
    let (graph, _) = conversation(&folder, "simple");
    bench.run(&graph).await.expect_success();
    let (graph, recorded) = conversation(&folder, "cached_rerun");
    let told = bench.run(&graph).await.expect_success();
    assert_eq!(heard(&told), recorded);
}

#[tokio::test]
async fn a_failing_run_tells_what_was_recorded() {
    let Some(folder) = goldens::folder() else {
        return;
    };
    let (graph, mut recorded) = conversation(&folder, "error");
    let failure = recorded.pop().unwrap();
    let told = bench(&folder).await.run(&graph).await;
    assert_eq!(heard(&told), recorded);
    let Err(RunError::Failed(error)) = told.result else {
        panic!("it fails")
    };
    let node = error.node_id.unwrap();
    let ours = format!(
        "error {node} {} {}",
        error.class_type.unwrap(),
        error.exception_type.unwrap()
    );
    assert_eq!(ours, failure);
}

#[tokio::test]
async fn an_interrupted_run_tells_what_was_recorded() {
    let Some(folder) = goldens::folder() else {
        return;
    };
    let (graph, mut recorded) = conversation(&folder, "interrupted");
    assert_eq!(recorded.pop().as_deref(), Some("interrupted 3 ImageBlur"));
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let hear = move |line: &str| {
        if line == "finished 2" {
            stop.cancel();
        }
    };
    let told = bench(&folder).await.run_with(&graph, hear, cancel).await;
    assert_eq!(heard(&told), recorded);
    assert_eq!(told.result, Err(RunError::Canceled(Some("3".into()))));
}

async fn bench(folder: &Path) -> Bench {
    let mut bench = Bench::new();
    for file in [
        "blend_normal/gold_photo.png",
        "blend_normal/gold_photo2.png",
        "invert/gold_one.png",
        "load_anim_gif/gold_anim.gif",
        "load_anim_png/gold_anim.png",
    ] {
        let name = file.rsplit('/').next().unwrap();
        bench
            .upload(name, &std::fs::read(folder.join(file)).unwrap())
            .await;
    }
    bench
}

/// A conversation's graph, and its messages as lines like those of [`heard`].
fn conversation(folder: &Path, name: &str) -> (Json, Vec<String>) {
    let text = std::fs::read_to_string(folder.join("ws").join(format!("{name}.jsonl"))).unwrap();
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let graph = lines.next().unwrap()["workflow"].clone();
    let mut finished = Vec::new();
    let mut heard = Vec::new();
    for message in lines.filter(|line| line["who"] == "self" && line["kind"] != "sent") {
        if message["kind"] == "binary" {
            heard.push(match message["event_type_be_u32"].as_u64().unwrap() {
                3 => format!(
                    "text {}",
                    message["text"].as_str().unwrap()[4..].replacen(char::is_numeric, "", 1)
                ),
                _ => "frame".to_owned(),
            });
            continue;
        }
        let data = &message["msg"]["data"];
        let node = data["node"].as_str().unwrap_or_default();
        match message["msg"]["type"].as_str().unwrap() {
            "execution_cached" => {
                let nodes: Vec<&str> = data["nodes"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|node| node.as_str().unwrap())
                    .collect();
                heard.push(format!("cached {}", nodes.join(",")));
            }
            "executing" if !node.is_empty() => heard.push(format!("started {node}")),
            "progress" => heard.push(format!("step {node} {}/{}", data["value"], data["max"])),
            "executed" => heard.push(format!("executed {node} {}", shape(&data["output"]))),
            "progress_state" => {
                for (node, state) in data["nodes"].as_object().unwrap() {
                    if state["state"] == "finished" && !finished.contains(node) {
                        finished.push(node.clone());
                        heard.push(format!("finished {node}"));
                    }
                }
            }
            "execution_error" => {
                let [node, class, exception] = ["node_id", "node_type", "exception_type"]
                    .map(|key| data[key].as_str().unwrap());
                heard.push(format!("error {node} {class} {exception}"));
            }
            "execution_interrupted" => {
                let [node, class] = ["node_id", "node_type"].map(|key| data[key].as_str().unwrap());
                heard.push(format!("interrupted {node} {class}"));
            }
            _ => {}
        }
    }
    // With metadata a picture goes out just before its step, without just after it; here it always comes after.
    for at in 1..heard.len() {
        let count = |word: &str| {
            heard[..at - 1]
                .iter()
                .filter(|line| line.starts_with(word))
                .count()
        };
        if heard[at - 1] == "frame"
            && heard[at].starts_with("step")
            && count("frame") == count("step")
        {
            heard.swap(at - 1, at);
        }
    }
    (graph, heard)
}

/// What a run told, without ids of classes and names of files.
fn heard(told: &Told) -> Vec<String> {
    let line = |line: &String| {
        let mut words = line.splitn(3, ' ');
        let (kind, node, rest) = (
            words.next()?,
            words.next()?,
            words.next().unwrap_or_default(),
        );
        Some(match kind {
            // What a failed node had got is compared where clients hear of it.
            "commit" | "failed" => return None,
            "started" => format!("started {node}"),
            "executed" => format!(
                "executed {node} {}",
                shape(&serde_json::from_str(rest).unwrap())
            ),
            "text" => format!("text {rest}"),
            "frame" => "frame".to_owned(),
            _ => line.clone(),
        })
    };
    told.events.iter().filter_map(line).collect()
}

/// What is shown, with names of files left out: they hold letters and numbers of their own.
fn shape(output: &Json) -> Json {
    let mut output = output.clone();
    for file in output["images"].as_array_mut().into_iter().flatten() {
        file["filename"] = json!(null);
    }
    if output["images"].is_null() {
        output.as_object_mut().unwrap().shift_remove("images");
    }
    output
}
