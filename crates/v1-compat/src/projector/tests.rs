//! Recorded conversations of a real server, and what is ours alone: several sockets, laps, jobs that never ran.

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;
use jiff::SignedDuration;
use serde_json::{Value, json};
use uuid::Uuid;
use workflow_core::{
    Epoch, JobError, JobErrorCode, JobEvent, Metadata, Preview, Progress, WorkerId,
};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).expect("in range")
}

fn queued(n: u128) -> Job {
    Job {
        id: JobId(Uuid::from_u128(n)),
        account: "a".parse().expect("a name"),
        revision: 0,
        status: JobStatus::Queued,
        epoch: Epoch(0),
        worker: None,
        lost_claims: 0,
        created_at: at(0),
        updated_at: at(0),
        started_at: None,
        completed_at: None,
        expires_at: Timestamp::MAX,
        retention: SignedDuration::ZERO,
        progress: Progress::start(1),
        outputs: Vec::new(),
        error: None,
        metadata: Metadata::new(),
    }
}

fn after(job: &Job, event: JobEvent) -> Job {
    let mut job = job.clone();
    job.apply(event, at(1)).expect("a legal event");
    job.revision += 1;
    job
}

fn running(n: u128) -> Job {
    let worker = WorkerId(Uuid::nil());
    after(&queued(n), JobEvent::Claimed { worker })
}

fn saved(projector: &mut Projector, job: &Job) -> Vec<Frame> {
    told(
        projector,
        job.id,
        AccountEvent::Saved(Arc::new(job.clone())),
    )
}

fn told(projector: &mut Projector, job: JobId, event: AccountEvent) -> Vec<Frame> {
    projector.news(&AccountNews { job, event })
}

fn started(node: &str, class: &str) -> AccountEvent {
    AccountEvent::Node(NodeEvent::Started {
        node: node.into(),
        class: class.to_owned(),
    })
}

/// The type of a frame and what tells it from others of its type.
fn word(frame: &Frame) -> String {
    let Frame::Text(text) = frame else {
        return "binary".to_owned();
    };
    let message: Value = serde_json::from_str(text).expect("JSON");
    let data = &message["data"];
    let kind = message["type"].as_str().expect("a type");
    match kind {
        "status" => format!("status {}", data["status"]["exec_info"]["queue_remaining"]),
        "executing" => format!("executing {}", data["node"]),
        kind => kind.to_owned(),
    }
}

fn words(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(word).collect()
}

// === recorded conversations ===

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

#[test]
fn a_picture_says_what_it_shows_to_who_reads_it() {
    let preview = Preview {
        node_id: "3".into(),
        content_type: "image/jpeg",
        bytes: Bytes::from_static(b"jpeg"),
    };
    let mut projector = Projector::new();
    projector.begin(&[], Vec::new(), None);
    saved(&mut projector, &running(1));
    let id = JobId(Uuid::from_u128(1));
    let plain = told(&mut projector, id, AccountEvent::Preview(preview.clone()));
    let [Frame::Binary { head, rest }] = &plain[..] else {
        panic!("{plain:?}");
    };
    assert_eq!(
        (&head[..], &rest[..]),
        (&[0, 0, 0, 1, 0, 0, 0, 1][..], &b"jpeg"[..])
    );

    projector.set_metadata(true);
    let described = told(&mut projector, id, AccountEvent::Preview(preview));
    let [Frame::Binary { head, rest }] = &described[..] else {
        panic!("{described:?}");
    };
    let length = u32::from_be_bytes(head[4..8].try_into().expect("four bytes")) as usize;
    assert_eq!((head[3], head.len()), (4, 8 + length));
    let shown: Value = serde_json::from_slice(&head[8..]).expect("JSON");
    let expected = json!({
        "node_id": "3",
        "prompt_id": id.to_string(),
        "display_node_id": "3",
        "parent_node_id": null,
        "real_node_id": "3",
        "image_type": "image/jpeg",
    });
    assert_eq!((shown, &rest[..]), (expected, &b"jpeg"[..]));
}

#[test]
fn a_line_carries_its_node() {
    let Frame::Binary { head, rest } = crate::frames::line(&"4".into(), "né") else {
        panic!("a line is binary");
    };
    assert_eq!(&head[..], b"\x00\x00\x00\x03\x00\x00\x00\x014n\xc3\xa9");
    assert!(rest.is_empty());
}

#[test]
fn a_job_that_never_ran_only_leaves_the_queue() {
    let mut projector = Projector::new();
    projector.begin(&[Arc::new(queued(1))], Vec::new(), None);
    let canceled = after(&queued(1), JobEvent::CancelRequested);
    assert_eq!(words(&saved(&mut projector, &canceled)), ["status 0"]);
    assert!(saved(&mut projector, &canceled).is_empty(), "told once");
}

#[test]
fn a_new_socket_gets_the_state_as_it_is() {
    let mut report = RunReport::default();
    report.record(&NodeEvent::Cached(vec!["9".into()]));
    for node in ["1", "2"] {
        report.record(&NodeEvent::Started {
            node: node.into(),
            class: "X".to_owned(),
        });
    }
    report.record(&NodeEvent::Finished { node: "1".into() });
    let (runs, waits) = (Arc::new(running(1)), Arc::new(queued(2)));
    let mut projector = Projector::new();
    let reports = vec![(runs.id, report)];
    let first = projector.begin(&[runs.clone(), waits], reports, Some("s"));
    let expected = [
        "status 2",
        "execution_start",
        "execution_cached",
        "progress_state",
        "executing \"2\"",
    ];
    assert_eq!(words(&first), expected);
    assert!(matches!(&first[0], Frame::Text(text) if text.contains("\"sid\":\"s\"")));
    let done = after(&runs, JobEvent::Finished { epoch: Epoch(1) });
    let last = saved(&mut projector, &done);
    assert_eq!(
        words(&last),
        ["execution_success", "status 1", "executing null"]
    );
}

#[test]
fn whoever_missed_the_end_of_a_run_is_told_that_it_is_over() {
    let mut projector = Projector::new();
    projector.begin(&[Arc::new(running(1))], Vec::new(), None);
    let again = projector.begin(&[], Vec::new(), None);
    assert_eq!(words(&again), ["status 0", "executing null"]);
}

#[test]
fn a_job_that_waits_again_says_so_and_begins_anew() {
    let mut projector = Projector::new();
    projector.begin(&[], Vec::new(), None);
    let runs = running(1);
    saved(&mut projector, &runs);
    told(&mut projector, runs.id, started("1", "X"));
    let back = after(&runs, JobEvent::GivenBack { epoch: Epoch(1) });
    let waits = saved(&mut projector, &back);
    assert_eq!(
        words(&waits),
        ["executing null", "notification", "status 1"]
    );
    let again = after(
        &back,
        JobEvent::Claimed {
            worker: WorkerId(Uuid::nil()),
        },
    );
    assert_eq!(
        words(&saved(&mut projector, &again)),
        ["status 1", "execution_start"]
    );
}

#[test]
fn a_huge_graph_does_not_send_every_node_every_time() {
    let mut projector = Projector::new();
    projector.begin(&[], Vec::new(), None);
    let runs = running(1);
    saved(&mut projector, &runs);
    told(&mut projector, runs.id, started("first", "X"));
    let mut longest = 0;
    for n in 0..300 {
        let node = n.to_string();
        for event in [
            started(&node, "X"),
            AccountEvent::Node(NodeEvent::Finished {
                node: node.as_str().into(),
            }),
        ] {
            for frame in told(&mut projector, runs.id, event) {
                if let Frame::Text(text) = frame {
                    longest = longest.max(text.len());
                    let is_state = text.contains("progress_state");
                    assert!(!is_state || text.contains("\"first\""), "one at work stays");
                }
            }
        }
    }
    assert!(longest < 40_000, "{longest}");
}
