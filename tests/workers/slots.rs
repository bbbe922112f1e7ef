//! How many jobs a worker has at once.

use it::{Launch, operate};

use super::*;

/// Starts a server with this configuration file.
async fn launch(data: &Path, config: &str, arguments: &[&str]) -> std::io::Result<Server> {
    let file = data.join("easel.toml");
    std::fs::write(&file, config).unwrap();
    let mut all = vec!["--config".into(), file.into()];
    all.extend(arguments.iter().map(Into::into));
    let launch = Launch {
        arguments: all,
        log: Some(data.join("server.log")),
        ..Launch::of("all-in-one")
    };
    Server::launch(data, &launch).await
}

#[tokio::test]
async fn a_worker_has_as_many_jobs_as_it_has_slots_and_their_inputs_are_staged() {
    let mut workers = Vec::new();
    for _ in 0..2 {
        let worker = Comfy::start(Version::Recorded).await.unwrap();
        worker.pace(Duration::from_millis(20));
        workers.push(worker);
    }
    let data = tempfile::tempdir().unwrap();
    let config = format!(
        "comfyui = [\"{}\"]\ncomfyui_slots = 3\njob_slots = 1\n[[worker]]\nurl = \"{}\"\nslots = 1\n",
        workers[0].url(),
        workers[1].url()
    );
    let server = launch(data.path(), &config, &[]).await.unwrap();
    let rig = Rig {
        data,
        server,
        workers,
    };
    for worker in &rig.workers {
        rig.until_worker(worker, &["ready"]).await;
    }
    let mut jobs = Vec::new();
    for number in 0..5 {
        let name = format!("{number}.png");
        rig.upload(&name, name.as_bytes()).await;
        let mut loading = graph(&format!("slot-{number}"), 100_000);
        loading["1"] = json!({"class_type": "LoadImage", "inputs": {"image": name}});
        jobs.push(rig.submit(&loading).await);
    }
    // Four of them have a place, and their inputs are there before their turn comes.
    for (worker, slots) in rig.workers.iter().zip([3, 1]) {
        for _ in 0..600 {
            if worker.uploads() == slots {
                break;
            }
            pause().await;
        }
        worker.until(|ran| ran.len() == 1).await;
        let name = worker.url().replace("http://", "");
        let metrics = rig.send(Request::get("/metrics")).await.text();
        for (metric, value) in [("slots", slots), ("jobs", slots)] {
            let line = format!("easel_worker_{metric}{{worker=\"{name}\"}} {value}\n");
            assert!(metrics.contains(&line), "{line}: {metrics}");
        }
        assert_eq!((worker.uploads(), worker.ran().len()), (slots, 1));
    }
    let explained = operate(rig.data.path(), ["job", "explain", &jobs[4], "--json"]).await;
    let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
    assert_eq!(explained["status"], "queued", "{explained:#}");
    for note in explained["workers"].as_array().unwrap() {
        assert_eq!(note["why_not"], "full", "{explained:#}");
    }
    // One that runs here, and four at workers.
    assert_eq!(explained["account_room"], 5, "{explained:#}");
}

#[tokio::test]
async fn a_number_of_slots_that_no_worker_has_is_refused_and_says_which_there_are() {
    let data = tempfile::tempdir().unwrap();
    let table = "[[worker]]\nurl = \"http://127.0.0.1:8188\"\nslots = 17\n";
    for (config, arguments) in [
        ("", &["--comfyui-slots", "0"][..]),
        ("comfyui_slots = 17\n", &[]),
        (table, &[]),
    ] {
        launch(data.path(), config, arguments).await.unwrap_err();
        let said = std::fs::read_to_string(data.path().join("server.log")).unwrap();
        assert!(
            said.contains("from 1 to 16"),
            "{config}{arguments:?}: {said}"
        );
        std::fs::remove_file(data.path().join("server.log")).unwrap();
    }
}
