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
fn a_job_whose_time_is_over_failed_whether_it_ran_or_not() {
    let mut projector = Projector::new();
    projector.begin(&[Arc::new(queued(1))], Vec::new(), None);
    let expired = after(&queued(1), JobEvent::TimedOut { epoch: Epoch(0) });
    let told = saved(&mut projector, &expired);
    let expected = ["execution_error", "status 0", "executing null"];
    assert_eq!(words(&told), expected);
    let Frame::Text(text) = &told[0] else {
        panic!("a text");
    };
    assert!(text.contains("waited for longer"), "{text}");
    assert!(saved(&mut projector, &expired).is_empty(), "told once");

    let id = JobId(Uuid::from_u128(2));
    saved(&mut projector, &running(2));
    projector.news(&AccountNews {
        job: id,
        event: started("7", "KSampler"),
    });
    let expired = after(&running(2), JobEvent::TimedOut { epoch: Epoch(1) });
    let told = saved(&mut projector, &expired);
    let expected = [
        "execution_cached",
        "execution_error",
        "status 0",
        "executing null",
    ];
    assert_eq!(words(&told), expected);
    let Frame::Text(text) = &told[1] else {
        panic!("a text");
    };
    let error: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(error["data"]["node_id"], "7");
    assert_eq!(error["data"]["node_type"], "KSampler");
    let message = error["data"]["exception_message"].as_str().expect("a text");
    assert!(message.contains("ran for longer"), "{message}");
}

#[test]
fn a_job_whose_submission_is_refused_leaves_the_queue_without_an_error() {
    let mut projector = Projector::new();
    projector.begin(&[Arc::new(running(1))], Vec::new(), None);
    let error = JobError::new(JobErrorCode::InvalidWorkflow, "the worker refuses it");
    let epoch = Epoch(1);
    let mut refused = after(&running(1), JobEvent::Failed { epoch, error });
    refused.expires_at = at(1);
    let told = saved(&mut projector, &refused);
    assert_eq!(words(&told), ["status 0", "executing null"]);
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

mod recorded;

#[test]
fn credits_are_told_once_when_they_become_few() {
    let mut projector = Projector::new();
    projector.begin(&[], Vec::new(), None);
    assert!(!projector.asks_credits(), "nothing was spent");
    let runs = running(1);
    saved(&mut projector, &runs);
    assert!(projector.asks_credits());
    assert_eq!(projector.credits(100), None);
    assert!(!projector.asks_credits());
    saved(
        &mut projector,
        &after(&runs, JobEvent::Finished { epoch: Epoch(1) }),
    );
    let told = projector.credits(42);
    let Some(Frame::Text(told)) = told else {
        panic!("one frame, not {told:?}")
    };
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["type"], "notification");
    assert_eq!(told["data"]["prompt_id"], json!(runs.id.to_string()));
    assert_eq!(
        told["data"]["value"],
        "The account has $0.42 of credits left."
    );
    for (job, cents, is_told) in [(2, -7, false), (3, 250, false), (4, 7, true)] {
        saved(&mut projector, &running(job));
        assert_eq!(projector.credits(cents).is_some(), is_told, "{cents}");
    }
}

#[test]
fn a_job_that_waits_for_a_slot_is_told_once_and_only_after_a_while() {
    let mut projector = Projector::new();
    projector.begin(&[], Vec::new(), Some("s"));
    assert_eq!(projector.tells_at(), None);
    let (first, second) = (queued(1), queued(2));
    saved(&mut projector, &first);
    saved(&mut projector, &second);
    assert_eq!(projector.tells_at(), Some(at(5)));
    assert!(projector.waiting(at(4)).is_empty());
    // A plain run is told of nothing else than the recorded server tells.
    saved(&mut projector, &running(1));
    let told = projector.waiting(at(5));
    let [Frame::Text(told)] = &told[..] else {
        panic!("one frame, not {told:?}")
    };
    let told: Value = serde_json::from_str(told).expect("JSON");
    assert_eq!(told["type"], "notification");
    assert_eq!(told["data"]["prompt_id"], json!(second.id.to_string()));
    assert_eq!(told["data"]["value"], "The job waits for a free slot.");
    assert_eq!(projector.tells_at(), None);
    assert!(projector.waiting(at(9)).is_empty());
    // A client that connects meanwhile gets it as well.
    let mut late = Projector::new();
    late.begin(&[Arc::new(second)], Vec::new(), Some("s"));
    assert_eq!(late.tells_at(), Some(at(5)));
}
