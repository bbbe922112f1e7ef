//! ComfyUI workers of an installation of two replicas.

use it::Comfy;
use it::comfy::Version;

use super::two::Stream;
use super::*;

/// Waits until a replica can use the worker. It has no event of that, and its metrics are asked again.
async fn until_ready(fleet: &Fleet, replica: &Server) {
    let ready = async {
        loop {
            let metrics = fleet.get(replica, "/metrics").await.text();
            if metrics.contains("state=\"ready\"} 1") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    in_time(ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_a_worker_of_another_replica_fails_the_job() {
    let Some(fleet) = Fleet::start("a worker of another replica").await else {
        return;
    };
    let worker = Comfy::start(Version::New).await.unwrap();
    let url = worker.url();
    let [api, runs] = ["api", "worker"].map(|role| ["--role", role, "--comfyui", &url]);
    let (a, b) = tokio::join!(
        fleet.replica_with("a", &api),
        fleet.replica_with("b", &runs)
    );
    tokio::join!(until_ready(&fleet, &a), until_ready(&fleet, &b));
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 0, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": 1}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "refused"}}
    });
    // Whoever answers does not hear why the other one's worker refuses: it has taken the job in, and shows how it ended.
    let job = fleet.submit(&a, &graph).await;
    let ended = fleet.ended(&a, &job).await;
    assert_eq!(
        (&ended["status"], &ended["error"]["code"]),
        (&json!("failed"), &json!("invalid_workflow")),
        "{ended:#}"
    );
    let told = ended.to_string();
    assert!(told.contains("value_smaller_than_min"), "{told}");
}

/// A graph of a class that workers alone have: a picture that takes `steps`, saved under a name of its own.
pub(super) fn waiting_graph(name: &str, steps: u32) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": steps}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": name}}
    })
}

/// Whether the events of a job are in the order in which things happen: its state never goes back, its outputs only grow, and
/// nothing is told behind its one end.
pub(super) fn check_order(told: &[(String, Value)]) {
    let rank = |job: &Value| match job["status"].as_str() {
        Some("queued") => Some(0),
        Some("running") => Some(1),
        Some(_) => Some(2),
        None => None,
    };
    let states: Vec<i32> = told.iter().filter_map(|(_, job)| rank(job)).collect();
    assert!(states.is_sorted(), "{told:#?}");
    let ends = states.iter().filter(|state| **state == 2).count();
    assert_eq!((ends, states.last()), (1, Some(&2)), "{told:#?}");
    assert!(rank(&told.last().unwrap().1).is_some(), "{told:#?}");
}

/// A replica runs a job at a worker and is killed. The other one knows the same worker: it follows what runs there, and takes what
/// waited.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_at_a_worker_goes_on_when_its_replica_is_killed() {
    let Some(fleet) = Fleet::start("a killed replica with a worker").await else {
        return;
    };
    let worker = Comfy::start(Version::New).await.unwrap();
    let url = worker.url();
    let flags = ["--comfyui", &url];
    let a = fleet.replica_with("a", &flags).await;
    until_ready(&fleet, &a).await;
    // Until it is let go.
    worker.pace(Duration::from_millis(100));
    let running = fleet.submit(&a, &waiting_graph("runs", 2_000)).await;
    worker.until(|ran| ran.len() == 1).await;
    // Only now there is somebody else.
    let b = fleet.replica_with("b", &flags).await;
    let mut stream = Stream::open(&fleet, &b, &running).await;
    stream.until("running").await;
    let waits = fleet.submit(&a, &waiting_graph("waits", 1)).await;
    until_ready(&fleet, &b).await;
    a.kill().await.unwrap();
    // It says so when it has found the prompt, and of nothing before that it could be told.
    let followed = async {
        while !fleet.log("b").contains("a job is recovered at its worker") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    in_time(followed).await;
    worker.pace(Duration::ZERO);
    let told = stream.rest("event: status").await;
    check_order(&told);
    for (job, name) in [(&running, "runs"), (&waits, "waits")] {
        let ended = fleet.ended(&b, job).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        let outputs = ended["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), 1, "{ended:#}");
        let id = outputs[0]["id"].as_str().unwrap();
        let content = fleet.get(&b, &format!("/api/v2/assets/{id}/content")).await;
        // The worker writes into its outputs what they were made of.
        assert!(content.text().contains(name), "{}", content.text());
    }
    let ran = worker.ran();
    let ends: Vec<_> = ran
        .iter()
        .map(|ran| (ran.saves.as_deref(), ran.end))
        .collect();
    let success = Some("success");
    assert_eq!(ends, [(Some("runs"), success), (Some("waits"), success)]);
    assert_eq!((worker.interrupts(), worker.wrong_interrupts()), (0, 0));
    assert!(b.terminate().await.unwrap().success());
}
