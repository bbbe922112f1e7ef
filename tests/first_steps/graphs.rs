//! Graphs that cannot run here, jobs that failed, and what the user and the operator then read.

use it::{Log, Request, Server};
use serde_json::json;

use super::{logging, with_models};

#[tokio::test]
async fn classes_that_need_a_model_are_not_called_misspelled() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let body = json!({"workflow": with_models()});
    let request = Request::post_json("/api/v2/jobs", &body);
    let answer = server.send(&request).await.unwrap();
    assert_eq!(answer.status, 422, "{}", answer.text());
    let errors = answer.json()["error"]["details"]["node_errors"].take();
    for node in ["1", "2", "3"] {
        let reason = errors[node][0]["reason"].as_str();
        let reason = reason.unwrap_or_else(|| panic!("{node} in {errors:#}"));
        for words in ["ComfyUI worker", "`nodes list`"] {
            assert!(reason.contains(words), "{reason}");
        }
        assert!(!reason.contains("spelling"), "{reason}");
    }

    let body = json!({"prompt": with_models()});
    let answer = server.send(&Request::post_json("/api/prompt", &body)).await;
    let answer = answer.unwrap().json();
    let error = &answer["error"];
    assert_eq!(error["type"], "missing_node_type");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("needs a ComfyUI worker"), "{message}");
    let reason = error["extra_info"]["reason"].as_str().unwrap();
    assert!(reason.contains("`nodes list`"), "{reason}");
    let of_node = &answer["node_errors"]["2"]["errors"][0]["extra_info"];
    assert_eq!(of_node["class_type"], "KSampler", "{answer:#}");
    assert!(of_node["reason"].as_str().unwrap().contains("KSampler"));
}

#[tokio::test]
async fn a_failed_job_is_one_line_of_the_log() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("log");
    let server = logging(&data.path().join("data"), &log).await;
    let form = it::Form::new()
        .field("content_type", "image/png")
        .field("file_path", "broken.png")
        .file("file", "broken.png", b"no picture");
    let upload = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &it::Form::content_type())
        .body(form.body());
    assert_eq!(server.send(&upload).await.unwrap().status, 201);
    let body = json!({"workflow": {
        "a\nb": {"class_type": "LoadImage", "inputs": {"image": "broken.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["a\nb", 0], "filename_prefix": "private-words"}},
    }});
    let request = Request::post_json("/api/v2/jobs", &body);
    let job = server.send(&request).await.unwrap();
    assert_eq!(job.status, 201, "{}", job.text());

    let entry = Log::of(&log).next("a job failed").await;
    assert_eq!(entry["job.id"], job.json()["id"], "{entry:#}");
    assert_eq!(entry["account"], "local", "{entry:#}");
    assert_eq!(entry["code"], "node_execution_error", "{entry:#}");
    assert_eq!(entry["node"], "a\nb", "{entry:#}");
    assert_eq!(entry["class"], "LoadImage", "{entry:#}");
    assert!(entry["execution_ms"].is_number(), "{entry:#}");
    assert!(server.terminate().await.unwrap().success());
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("a job failed").count(), 1, "{log}");
    assert!(!log.contains("private-words"), "{log}");
}

#[tokio::test]
async fn a_fresh_directory_says_nothing_of_migrations() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("log");
    let server = logging(&data.path().join("data"), &log).await;
    Log::of(&log).next("serving").await;
    assert!(server.terminate().await.unwrap().success());
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].contains("serving"), "{log}");
    assert!(!log.contains("migrated"), "{log}");
}
