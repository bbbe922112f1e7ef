//! A deployment of two replicas: one of them starts its workers, and both take its jobs.

use it::process::{binary_of, lifeline};

use super::*;

/// A deployment `sim` of simulated workers, whose queue for waking has one place.
async fn deploy(fleet: &Fleet, through: &str) {
    let program = binary_of("simulated-comfyui");
    let lifeline = lifeline().to_string();
    let command = json!([
        program, "--port", "{port}", "--name", "{name}", "--while", lifeline
    ]);
    let definition = format!(
        "name = \"sim\"\ncommand = {command}\nmin = 0\nmax = 1\nidle_window_s = 1\nwaking_queue = 1\n"
    );
    let file = fleet.folder.path().join("sim.toml");
    std::fs::write(&file, definition).unwrap();
    let file = file.to_str().unwrap();
    fleet.operate(through, &["deployment", "apply", file]).await;
}

/// The deployment as a replica shows it, once it is so. A replica that starts no workers has no event of them to wait for: it reads
/// the row when it is asked, so it is asked again.
async fn until(fleet: &Fleet, replica: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        loop {
            let shown = fleet
                .operate(replica, &["deployment", "show", "sim", "--json"])
                .await;
            let shown: Value = serde_json::from_str(&shown).unwrap();
            if is_so(&shown) {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, look()).await;
    seen.unwrap_or_else(|_| panic!("never {what}"))
}

async fn try_submit(fleet: &Fleet, server: &Server, color: usize) -> Answer {
    let body = json!({"workflow": tiny_graph(color)});
    let request = Request::post_json("/deployment/sim/api/v2/jobs", &body);
    server.send(&fleet.own(request)).await.unwrap()
}

async fn succeeds(fleet: &Fleet, server: &Server, taken: &Answer) {
    assert_eq!(taken.status, 201, "{}", taken.text());
    let job = taken.json()["id"].as_str().unwrap().to_owned();
    let ended = fleet.ended(server, &job).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_takes_jobs_through_every_replica_and_changes_hands() {
    let Some(fleet) = Fleet::start("a deployment of two replicas").await else {
        return;
    };
    let a = fleet.replica("a").await;
    deploy(&fleet, "a").await;
    until(&fleet, "a", "takes jobs", |it| it["revision"] == 1).await;
    let b = fleet.replica("b").await;

    // Asleep, through the replica that starts nothing, again and again: what ended makes room for what comes.
    for color in 0..3 {
        let asleep = until(&fleet, "b", "asleep", |it| it["state"] == "stopped").await;
        assert!(
            asleep["why"].as_str().unwrap().contains("another server"),
            "{asleep:#}"
        );
        let taken = async {
            loop {
                let answer = try_submit(&fleet, &b, color).await;
                if answer.status != 429 {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        succeeds(&fleet, &b, &in_time(taken).await).await;
    }

    // Awake, more than the queue for waking has places for.
    fleet
        .operate(
            "a",
            &["deployment", "scale", "sim", "--min", "1", "--max", "1"],
        )
        .await;
    let awake = until(&fleet, "b", "awake", |it| it["state"] == "ready").await;
    assert_eq!(
        awake["workers"],
        json!([]),
        "those of the other replica are not shown here: {awake:#}"
    );
    let mut taken = Vec::new();
    for color in 10..18 {
        taken.push(try_submit(&fleet, &b, color).await);
    }
    for taken in &taken {
        succeeds(&fleet, &b, taken).await;
    }

    // The other replica starts workers once the first one is gone.
    assert!(a.terminate().await.unwrap().success());
    until(&fleet, "b", "taken over", |it| {
        it["state"] == "ready" && !it["workers"].as_array().unwrap().is_empty()
    })
    .await;
    succeeds(&fleet, &b, &try_submit(&fleet, &b, 20).await).await;
}
