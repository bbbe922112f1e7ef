//! One job seen through every list.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use workflow_core::{
    Epoch, JobError, JobErrorCode, JobEvent, JobId, Metadata, NodeEvent, Placement, Progress,
    Requirements, ResolvedFiles, WorkerId,
};

use super::*;
use crate::Origin;

const ID: &str = "00000000-0000-0000-0000-000000000001";

fn at(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).expect("in range")
}

fn queued() -> Job {
    Job {
        id: JobId(Uuid::from_u128(1)),
        account: "a".parse().expect("a name"),
        revision: 0,
        status: JobStatus::Queued,
        epoch: Epoch(0),
        worker: None,
        lost_claims: 0,
        created_at: at(1000),
        updated_at: at(1000),
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

fn body() -> JobBody {
    let origin = Origin {
        number: 7.0,
        extra_data: json!({"client_id": "c"}).to_string(),
        workflow_id: None,
    };
    JobBody {
        workflow: br#"{"3": {"class_type": "SaveImage", "inputs": {}}}"#[..].into(),
        files: ResolvedFiles::new(),
        targets: Some(vec!["3".to_owned()]),
        extra_pnginfo: String::new(),
        origin: origin.to_bytes(),
        placement: Placement {
            requirements: Requirements::of_engine("native").to_set(),
            account_room: 1,
            stored_bytes: None,
        },
        trace: None,
    }
}

fn report() -> RunReport {
    let mut report = RunReport::default();
    let image = json!({"filename": "a_00001_.png", "subfolder": "x", "type": "output"});
    for event in [
        NodeEvent::Cached(vec!["1".into()]),
        NodeEvent::Started {
            node: "3".into(),
            class: "SaveImage".to_owned(),
        },
        NodeEvent::Executed {
            node: "3".into(),
            ui: json!({"images": [image]}),
        },
        NodeEvent::Finished { node: "3".into() },
    ] {
        report.record(&event);
    }
    report
}

fn output(node: &str, kind: OutputKind, temp: bool, path: &str) -> JobOutput {
    JobOutput {
        node_id: node.into(),
        index: 0,
        kind,
        temp,
        path: path.parse().expect("a path"),
        content_type: String::new(),
        size_bytes: 1,
        asset: asset_store::AssetId(Uuid::nil()),
        hash: asset_store::BlobHash::of(b""),
    }
}

fn ended(event: JobEvent) -> Job {
    let mut job = queued();
    let worker = WorkerId(Uuid::nil());
    job.apply(JobEvent::Claimed { worker }, at(2000))
        .expect("legal");
    job.outputs = vec![output("3", OutputKind::Image, false, "x/a_00001_.png")];
    job.apply(event, at(3000)).expect("legal");
    job
}

#[test]
fn a_finished_job_in_the_history_is_as_clients_know_it() {
    let job = ended(JobEvent::Finished { epoch: Epoch(1) });
    let (body, report) = (body(), report());
    let record = JobRecord {
        job: &job,
        body: &body,
        report: Some(&report),
    };
    let image = json!({"filename": "a_00001_.png", "subfolder": "x", "type": "output"});
    let prompt = json!({"3": {"class_type": "SaveImage", "inputs": {}}});
    let expected = json!({
        "prompt": [7, ID, prompt, {"client_id": "c"}, ["3"]],
        "outputs": {"3": {"images": [image]}},
        "status": {
            "status_str": "success",
            "completed": true,
            "messages": [
                ["execution_start", {"prompt_id": ID, "timestamp": 2000}],
                ["execution_cached", {"nodes": ["1"], "prompt_id": ID, "timestamp": 2000}],
                ["execution_success", {"prompt_id": ID, "timestamp": 3000}],
            ],
        },
        "meta": {
            "3": {"node_id": "3", "display_node": "3", "parent_node": null, "real_node_id": "3"},
        },
    });
    assert_eq!(history_entry(&record).tree(), expected);
    // A run of before reports were kept shows its files all the same.
    let bare = JobRecord {
        report: None,
        ..record
    };
    assert_eq!(history_entry(&bare).tree()["outputs"], expected["outputs"]);

    let v2 = history_v2_entry(&record).tree();
    assert_eq!(v2["prompt"]["outputs_to_execute"], json!(["3"]));
    assert_eq!(v2["status"], expected["status"]);
    let item = history_v2_item(&record).tree();
    assert_eq!(
        (&item["prompt_id"], &item["create_time"]),
        (&json!(ID), &json!(1000))
    );
    assert_eq!(item["prompt"]["priority"], 7);

    let expected = json!([1, ID, prompt, ["3"], {"create_time": 1000}]);
    assert_eq!(queue_item(&record, 1).tree(), expected);
}

#[test]
fn an_entry_of_the_list_leaves_out_what_it_does_not_know() {
    let (job, body) = (queued(), body());
    let record = JobRecord {
        job: &job,
        body: &body,
        report: None,
    };
    let expected = json!({
        "id": ID,
        "status": "pending",
        "priority": 7,
        "create_time": 1000,
        "outputs_count": 0,
        "previewable_outputs_count": 0,
    });
    assert_eq!(Value::Object(job_entry(&record)), expected);
    let queued = |running| Queued {
        position: Some(4),
        running,
    };
    let detail = job_detail(&record, queued(1)).tree();
    assert_eq!(
        detail["queue_reason"], "concurrency_limit",
        "it may run one"
    );
    let detail = job_detail(&record, queued(0)).tree();
    assert_eq!(detail["queue_reason"], "capacity");
    assert_eq!(detail["queue_position"], 4);
    assert_eq!(detail["workflow"]["extra_data"]["client_id"], "c");
    assert!(detail.get("execution_status").is_none(), "it is not over");
    let job = ended(JobEvent::Finished { epoch: Epoch(1) });
    let over = JobRecord {
        job: &job,
        ..record
    };
    let detail = job_detail(&over, Queued::default()).tree();
    assert_eq!(detail["execution_status"]["status_str"], "success");
}

#[test]
fn results_are_shown_before_glances_and_pictures_before_texts() {
    let mut job = ended(JobEvent::Finished { epoch: Epoch(1) });
    let body = body();
    let mut report = RunReport::default();
    report.record(&NodeEvent::Executed {
        node: "9".into(),
        ui: json!({"text": ["x".repeat(2000)]}),
    });
    let shown = |job: &Job| {
        let record = JobRecord {
            job,
            body: &body,
            report: Some(&report),
        };
        let entry = job_entry(&record);
        (
            entry["preview_output"].clone(),
            entry["outputs_count"].clone(),
        )
    };
    job.outputs = vec![
        output("9", OutputKind::Text, true, "t.txt"),
        output("1", OutputKind::Image, true, "glance.png"),
        output("2", OutputKind::Image, false, "result.png"),
    ];
    let (preview, count) = shown(&job);
    assert_eq!(preview["filename"], "result.png");
    assert_eq!(
        (&preview["nodeId"], &preview["mediaType"]),
        (&json!("2"), &json!("images"))
    );
    assert_eq!(count, 3);
    job.outputs.truncate(2);
    assert_eq!(shown(&job).0["filename"], "glance.png");
    job.outputs.truncate(1);
    let (text, _) = shown(&job);
    assert_eq!(text["truncated"], true);
    assert_eq!(text["content"].as_str().map(str::len), Some(1024));
}

#[test]
fn an_error_names_its_node_and_an_interrupt_the_next_one() {
    let error = JobError {
        node_id: Some("3".into()),
        class_type: Some("SaveImage".to_owned()),
        ..JobError::new(JobErrorCode::OutOfMemory, "too large")
    };
    let failed = ended(JobEvent::Failed {
        epoch: Epoch(1),
        error,
    });
    let (body, report) = (body(), report());
    let record = JobRecord {
        job: &failed,
        body: &body,
        report: Some(&report),
    };
    let entry = job_entry(&record);
    assert_eq!(entry["status"], "failed");
    let error = &entry["execution_error"];
    assert_eq!(
        (&error["node_id"], &error["exception_type"]),
        (&json!("3"), &json!("OOMError"))
    );
    assert_eq!(error["exception_message"], "too large\n");
    let history = history_entry(&record).tree();
    assert_eq!(history["status"]["messages"][2][0], "execution_error");
    assert_eq!(history["status"]["status_str"], "error");

    let mut wanted = queued();
    let worker = WorkerId(Uuid::nil());
    for event in [
        JobEvent::Claimed { worker },
        JobEvent::CancelRequested,
        JobEvent::Stopped { epoch: Epoch(1) },
    ] {
        wanted.apply(event, at(2500)).expect("legal");
    }
    let mut report = report.clone();
    report.stopped_at = Some("5".into());
    let record = JobRecord {
        job: &wanted,
        body: &body,
        report: Some(&report),
    };
    let status = &history_entry(&record).tree()["status"];
    assert_eq!(status["messages"][2][0], "execution_interrupted");
    assert_eq!(status["messages"][2][1]["node_id"], "5");
    assert_eq!(status["completed"], false);
}

#[test]
fn a_job_whose_time_is_over_failed() {
    let job = ended(JobEvent::TimedOut { epoch: Epoch(1) });
    let (body, report) = (body(), report());
    let record = JobRecord {
        job: &job,
        body: &body,
        report: Some(&report),
    };
    let entry = job_entry(&record);
    let error = &entry["execution_error"];
    assert_eq!(
        (&entry["status"], &error["exception_type"]),
        (&json!("failed"), &json!("ServiceError"))
    );
    let status = &history_entry(&record).tree()["status"];
    assert_eq!(status["messages"][2][0], "execution_error");
}

#[test]
fn models_in_three_dimensions_are_looked_at_and_other_files_are_not() {
    let mut job = ended(JobEvent::Finished { epoch: Epoch(1) });
    job.outputs = vec![
        output("4", OutputKind::File, false, "x/clip.bin"),
        output("5", OutputKind::File, false, "x/mesh.GLB"),
    ];
    let body = body();
    let record = JobRecord {
        job: &job,
        body: &body,
        report: None,
    };
    let entry = job_entry(&record);
    assert_eq!(entry["previewable_outputs_count"], 1);
    let expected = json!({
        "filename": "mesh.GLB",
        "subfolder": "x",
        "type": "output",
        "nodeId": "5",
        "mediaType": "3d",
    });
    assert_eq!(entry["preview_output"], expected);
}
