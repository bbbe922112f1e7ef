//! What metrics and commands say of a worker.

use it::comfy::Fault;
use it::operate;

use super::*;

impl Rig {
    /// The value of a metric of a worker, with this label besides its name.
    async fn metric(&self, worker: &Comfy, name: &str, label: &str) -> Option<f64> {
        let metrics = self.send(Request::get("/metrics")).await.text();
        let worker = worker.url().replace("http://", "");
        let mut lines = metrics.lines().filter(|line| {
            line.starts_with(&format!("{name}{{"))
                && line.contains(&format!("worker=\"{worker}\""))
                && line.contains(label)
        });
        Some(lines.next()?.rsplit_once(' ')?.1.parse().unwrap())
    }

    /// Waits until a metric of a worker is so.
    async fn until_metric(&self, name: &str, label: &str, is_so: impl Fn(f64) -> bool) {
        let mut last = None;
        for _ in 0..600 {
            last = self.metric(self.worker(), name, label).await;
            if last.is_some_and(&is_so) {
                return;
            }
            pause().await;
        }
        panic!("{name}{{{label}}} was {last:?}");
    }
}

#[tokio::test]
async fn metrics_and_commands_say_how_a_worker_does() {
    let rig = Rig::start().await;
    rig.upload("a.png", b"twelve bytes").await;
    let mut loading = graph("counted", 100);
    loading["1"] = json!({"class_type": "LoadImage", "inputs": {"image": "a.png"}});
    // So slow that it runs still when all has been looked at.
    rig.worker().pace(Duration::from_secs(1));
    let job = rig.submit(&loading).await;
    rig.worker().until(|ran| ran.len() == 1).await;
    let of = async |name: &str, label: &str| rig.metric(rig.worker(), name, label).await;
    assert_eq!(of("easel_worker_state", "state=\"busy\"").await, Some(1.0));
    assert_eq!(of("easel_worker_slots", "").await, Some(2.0));
    assert_eq!(of("easel_worker_jobs", "").await, Some(1.0));
    assert_eq!(of("easel_worker_staged_bytes", "").await, Some(12.0));
    assert_eq!(of("easel_worker_job_seconds_count", "").await, Some(0.0));
    rig.worker().pace(Duration::from_millis(20));
    let ended = rig.ended(&job).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    rig.until_metric("easel_worker_jobs", "", |jobs| jobs == 0.0)
        .await;
    // It took two seconds at least: no bucket below has it.
    let bucket = "easel_worker_job_seconds_bucket";
    assert_eq!(of(bucket, "le=\"0.5\"").await, Some(0.0));
    assert_eq!(of("easel_worker_job_seconds_count", "").await, Some(1.0));
    assert!(of("easel_worker_job_seconds_sum", "").await >= Some(2.0));
    let answers = of("easel_worker_answer_seconds_count", "").await;
    rig.until_metric("easel_worker_answer_seconds_count", "", |count| {
        Some(count) > answers
    })
    .await;
    let listed = operate(rig.data.path(), ["worker", "list"]).await.stdout;
    for word in ["STAGED", "ANSWER", "BREAKER", "0/2", "12", " ms", "closed"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let name = rig.worker().url().replace("http://", "");
    let shown = operate(rig.data.path(), ["worker", "show", &name, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(
        (&shown[0]["slots"], &shown[0]["breaker"]),
        (&json!(2), &json!("closed")),
        "{shown:#}"
    );
    assert!(shown[0]["job_ms"].as_f64() >= Some(2000.0), "{shown:#}");
    assert!(shown[0]["answer_ms"].as_f64() > Some(0.0), "{shown:#}");
}

#[tokio::test]
async fn a_breaker_is_shown_as_not_closed_until_a_job_succeeds() {
    let rig = Rig::start().await;
    let breaker = "easel_worker_breaker";
    let is_on = |value| value == 1.0;
    rig.until_metric(breaker, "state=\"closed\"", is_on).await;
    // Each job is tried twice, and each time an output that was announced is not there.
    rig.worker().fault(Fault::MissingOutputs(true));
    for name in ["first", "second"] {
        let job = rig.run(&graph(name, 1)).await;
        assert_eq!(job["error"]["code"], "worker_lost", "{job:#}");
    }
    // Open for two seconds, and half open until a job comes.
    rig.until_metric(breaker, "state=\"closed\"", |value| value == 0.0)
        .await;
    rig.worker().fault(Fault::None);
    // A job that succeeds closes it.
    let job = rig.run(&graph("closed", 1)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    rig.until_metric(breaker, "state=\"closed\"", is_on).await;
    let name = rig.worker().url().replace("http://", "");
    let shown = operate(rig.data.path(), ["worker", "show", &name]).await;
    assert!(
        shown.stdout.contains("breaker          closed"),
        "{}",
        shown.stdout
    );
}
