//! ComfyUI workers of an installation of two replicas, of which one answers requests and the other runs jobs.

use it::Comfy;
use it::comfy::Version;

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
