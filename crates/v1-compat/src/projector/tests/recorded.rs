//! Conversations as they were recorded of a real server.

use super::*;

fn goldens() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("../shared/goldens/ws");
    if folder.is_dir() {
        return Some(folder);
    }
    use std::io::Write;
    let said = "skipped: recorded conversations: the recorded cases are not beside this clone";
    let _ = writeln!(std::io::stderr(), "{said}");
    None
}

/// The fields of a message, types in place of values that differ from run to run, texts and representations.
fn shape(kind: &str, data: &Value, job: &str) -> Value {
    let mut data = data.clone();
    let fields = data.as_object_mut().expect("data is an object");
    for (name, value) in fields.iter_mut() {
        match (kind, name.as_str()) {
            (_, "timestamp") => *value = json!("<ms>"),
            (_, "prompt_id") => {
                assert!(value.is_string());
                *value = json!("<job>");
            }
            ("execution_error", "exception_message") => {
                assert!(value.as_str().is_some_and(|text| text.ends_with('\n')));
                *value = json!("<text>");
            }
            ("execution_error", "traceback" | "current_inputs" | "current_outputs") => {
                *value = json!(if value.is_array() {
                    "<list>"
                } else {
                    "<object>"
                });
            }
            (_, "executed") => {
                let list = value.as_array_mut().expect("a list of nodes");
                list.sort_by_key(ToString::to_string);
            }
            _ => {}
        }
    }
    let mut text = data.to_string().replace(job, "<job>");
    // 1 and 1.0 are one number to every client.
    text = text.replace("1.0", "1").replace("0.0", "0");
    serde_json::from_str(&text).expect("still JSON")
}

/// What the run told, read back from what the recorded server said of it.
fn events(
    kind: &str,
    data: &Value,
    seen: &mut HashMap<String, String>,
    classes: &Value,
) -> Vec<AccountEvent> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match kind {
        "execution_cached" => {
            let nodes = data["nodes"].as_array().expect("a list");
            let nodes = nodes.iter().map(|node| text(node).as_str().into());
            vec![AccountEvent::Node(NodeEvent::Cached(nodes.collect()))]
        }
        "executed" => vec![AccountEvent::Node(NodeEvent::Executed {
            node: text(&data["node"]).as_str().into(),
            ui: data["output"].clone(),
        })],
        "progress_state" => {
            let nodes = data["nodes"].as_object().expect("an object");
            let mut events = Vec::new();
            for (id, node) in nodes {
                let now = format!("{} {}", text(&node["state"]), node["value"]);
                if seen.insert(id.clone(), now.clone()).as_ref() == Some(&now) {
                    continue;
                }
                let whole = node["value"].as_u64().zip(node["max"].as_u64());
                events.push(match (node["state"].as_str(), whole) {
                    (Some("finished"), _) => AccountEvent::Node(NodeEvent::Finished {
                        node: id.as_str().into(),
                    }),
                    (_, Some((step, steps))) => AccountEvent::Node(NodeEvent::Step {
                        node: id.as_str().into(),
                        step: step as u32,
                        steps: steps as u32,
                    }),
                    _ => started(id, &text(&classes[id]["class_type"])),
                });
            }
            events
        }
        _ => Vec::new(),
    }
}

fn conversation(name: &str, folder: &std::path::Path) {
    let recorded = std::fs::read_to_string(folder.join(format!("{name}.jsonl")));
    let recorded = recorded.expect("a recording");
    let mut lines = recorded
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let head = lines.next().expect("a head");
    let (id, sid) = (
        &head["prompt_id"],
        head["client_id"].as_str().expect("a client"),
    );
    let id = id.as_str().expect("an id");
    let mut projector = Projector::new();
    let job = Job {
        id: id.parse().expect("an id"),
        ..queued(1)
    };
    let claimed = after(
        &job,
        JobEvent::Claimed {
            worker: WorkerId(Uuid::nil()),
        },
    );

    let mut ours: Vec<Frame> = Vec::new();
    let mut theirs: Vec<(String, Value)> = Vec::new();
    let mut seen = HashMap::new();
    let mut statuses = 0;
    for line in lines {
        let sent = line["msg"]["data"]["supports_preview_metadata"] == json!(true);
        if line["who"] == "self" && line["kind"] == "sent" && sent {
            projector.set_metadata(true);
        }
        if line["who"] != "self" || line["kind"] == "sent" {
            continue;
        }
        if line["kind"] == "binary" {
            let kind = line["event_type_be_u32"].as_u64().expect("a type");
            theirs.push((format!("binary {kind}"), line["head_hex"].clone()));
            let node = "2".into();
            let event = match kind {
                3 => AccountEvent::Text {
                    node,
                    line: "width: 150, height: 160\n batch size: 1".to_owned(),
                },
                _ => AccountEvent::Frame(Preview {
                    node_id: node,
                    content_type: "image/png",
                    bytes: Bytes::from_static(b"\x89PNG"),
                }),
            };
            ours.extend(told(&mut projector, job.id, event));
            continue;
        }
        let (kind, data) = (&line["msg"]["type"], &line["msg"]["data"]);
        let kind = kind.as_str().expect("a type");
        if kind == "feature_flags" {
            continue;
        }
        theirs.push((kind.to_owned(), shape(kind, data, id)));
        if kind == "status" {
            statuses += 1;
            match statuses {
                1 => ours.extend(projector.begin(&[], Vec::new(), Some(sid))),
                2 => {
                    ours.extend(saved(&mut projector, &job));
                    ours.extend(saved(&mut projector, &claimed));
                }
                _ => {}
            }
        }
        for event in events(kind, data, &mut seen, &head["workflow"]) {
            ours.extend(told(&mut projector, job.id, event));
        }
        let epoch = Epoch(1);
        let end = match kind {
            "execution_success" => after(&claimed, JobEvent::Finished { epoch }),
            "execution_error" => {
                let error = JobError {
                    node_id: data["node_id"].as_str().map(Into::into),
                    class_type: data["node_type"].as_str().map(str::to_owned),
                    exception_type: data["exception_type"].as_str().map(str::to_owned),
                    ..JobError::new(JobErrorCode::NodeExecutionError, "it failed")
                };
                after(&claimed, JobEvent::Failed { epoch, error })
            }
            "execution_interrupted" => {
                let wanted = after(&claimed, JobEvent::CancelRequested);
                let node = data["node_id"].as_str().expect("a node").into();
                ours.extend(told(&mut projector, job.id, AccountEvent::StoppedAt(node)));
                after(&wanted, JobEvent::Stopped { epoch })
            }
            _ => continue,
        };
        ours.extend(saved(&mut projector, &end));
    }

    let ours: Vec<(String, Value)> = ours
        .iter()
        .map(|frame| match frame {
            Frame::Text(text) => {
                let message: Value = serde_json::from_str(text).expect("JSON");
                let kind = message["type"].as_str().expect("a type");
                (kind.to_owned(), shape(kind, &message["data"], id))
            }
            Frame::Binary { head, .. } => {
                let kind = u32::from_be_bytes(head[..4].try_into().expect("four bytes"));
                (format!("binary {kind}"), json!(hex(head)))
            }
        })
        .collect();
    let names = |told: &[(String, Value)]| -> Vec<String> {
        told.iter().map(|(kind, _)| kind.clone()).collect()
    };
    assert_eq!(names(&ours), names(&theirs), "{name}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        match ours.0.as_str() {
            // The type of the picture, or the length of what describes it, and a little more, were recorded.
            "binary 1" | "binary 3" => {
                let recorded = theirs.1.as_str().expect("a head");
                let made = ours.1.as_str().expect("a head");
                let same = recorded.len().min(made.len()).min(16);
                assert_eq!(made[..same], recorded[..same], "{name}");
            }
            "binary 4" => {}
            _ => assert_eq!(keys(&ours.1), keys(&theirs.1), "{name} {}", ours.0),
        }
        if !ours.0.starts_with("binary") {
            assert_eq!(ours.1, theirs.1, "{name} {}", ours.0);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The names of the fields, in any order.
fn keys(data: &Value) -> Vec<&String> {
    let mut keys: Vec<&String> = data
        .as_object()
        .into_iter()
        .flat_map(|data| data.keys())
        .collect();
    keys.sort();
    keys
}

#[test]
fn conversations_go_as_recorded() {
    let Some(folder) = goldens() else {
        return;
    };
    for name in [
        "simple",
        "no_feature_flags",
        "cached_rerun",
        "error",
        "interrupted",
        "lists",
        "progress_text",
        "binary_no_flags",
        "binary_save_image_websocket",
    ] {
        conversation(name, &folder);
    }
}

// === what is ours alone ===
