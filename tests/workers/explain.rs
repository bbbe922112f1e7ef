//! Why a job waits.

use it::comfy::Fault;
use it::operate;

use super::*;

/// What a worker says of a job.
fn note<'a>(job: &'a Value, worker: &Comfy) -> &'a Value {
    let name = worker.url().replace("http://", "");
    let notes = job["workers"].as_array();
    let notes = notes.unwrap_or_else(|| panic!("no workers: {job:#}"));
    let note = notes.iter().find(|note| note["worker"] == name);
    note.unwrap_or_else(|| panic!("no {name}: {job:#}"))
}

#[tokio::test]
async fn a_job_that_waits_says_of_every_worker_why_it_does_not_take_it() {
    let full = Comfy::start(Version::Recorded).await.unwrap();
    let without_class = Comfy::start_with(Version::New, &["a.safetensors"], &["Wait"]);
    let without_file = Comfy::start_with(Version::New, &["b.safetensors"], &[]);
    let gone = Comfy::start(Version::Recorded).await.unwrap();
    let (without_class, without_file) = tokio::join!(without_class, without_file);
    let workers = vec![full, without_class.unwrap(), without_file.unwrap(), gone];
    let rig = Rig::with(workers).await;
    rig.workers[3].fault(Fault::Frozen(true));
    rig.until_worker(&rig.workers[3], &["unreachable"]).await;

    let mut graph = sampled("waits", "a.safetensors", 1);
    graph["5"] = json!({"class_type": "Wait", "inputs": {"image": ["3", 0], "steps": 100_000}});
    graph["6"] =
        json!({"class_type": "SaveImage", "inputs": {"images": ["5", 0], "filename_prefix": "w"}});
    rig.worker().pace(Duration::from_millis(20));
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(rig.submit(&graph).await);
    }
    // The first one runs, the second one is ahead, and the third one waits.
    let waits = until_explained(&rig, &jobs).await;
    let why = |at: usize| note(&waits, &rig.workers[at])["why_not"].as_str().unwrap();
    assert_eq!(why(0), "full");
    assert_eq!(why(1), "missing class Wait");
    assert!(why(2).starts_with("missing file"), "{}", why(2));
    assert!(why(2).contains("a.safetensors"), "{}", why(2));
    assert!(why(3).starts_with("unreachable since 20"), "{}", why(3));

    let id = waits["id"].as_str().unwrap();
    let said = operate(rig.data.path(), ["job", "explain", id]).await;
    assert_eq!(said.code, 0, "{}", said.stderr);
    for line in [
        "status           queued",
        "engine           comfyui",
        "missing class Wait",
    ] {
        assert!(said.stdout.contains(line), "{line}: {}", said.stdout);
    }
    let arguments = ["job", "explain", id, "--account", "local", "--json"];
    let said = operate(rig.data.path(), arguments).await;
    let said: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(said["workers"], waits["workers"]);
    let nobodys = uuid::Uuid::nil().to_string();
    let said = operate(rig.data.path(), ["job", "explain", nobodys.as_str()]).await;
    assert!(
        said.code == 2 && said.stderr.contains("there is no job"),
        "{}",
        said.stderr
    );

    // A credential that does not operate the server learns of no worker.
    let key = operate(rig.data.path(), ["key", "add", "local"]).await;
    let request = Request::get(&format!("/api/v2/jobs/{id}"));
    let request = request.header("Authorization", &format!("Bearer {}", key.stdout.trim()));
    let seen = rig.send(request).await;
    assert_eq!((seen.status, seen.json().get("workers")), (200, None));
    for job in &jobs {
        rig.cancel(job).await;
    }
}

/// The job that waits, once the two others have places.
async fn until_explained(rig: &Rig, jobs: &[String]) -> Value {
    for _ in 0..600 {
        let mut looks = Vec::new();
        for job in jobs {
            looks.push(rig.look(job).await);
        }
        let has = |look: &&Value| {
            let notes = look["workers"].as_array();
            notes.is_some_and(|notes| notes.iter().any(|note| note["has_job"] == true))
        };
        let waits = looks.iter().find(|look| look["status"] == "queued");
        if let (Some(waits), 2) = (waits, looks.iter().filter(has).count()) {
            return waits.clone();
        }
        pause().await;
    }
    panic!("two of the jobs never had a place");
}
