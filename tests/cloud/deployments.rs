//! A deployment of two replicas: one of them starts its workers, and both take its jobs.

use it::comfy::Ran;
use it::process::{binary_of, lifeline};

use super::two::Stream;
use super::workers::{check_order, waiting_graph};
use super::*;

/// A deployment `sim` of simulated workers, whose queue for waking has one place.
async fn deploy(fleet: &Fleet, through: &str) {
    let settings = "min = 0\nmax = 1\nidle_window_s = 1\nwaking_queue = 1";
    deploy_with(fleet, through, &[], settings).await;
}

/// A deployment `sim` of simulated workers with these arguments.
async fn deploy_with(fleet: &Fleet, through: &str, arguments: &[&str], settings: &str) {
    let program = binary_of("simulated-comfyui").display().to_string();
    let lifeline = lifeline().to_string();
    let own = [
        &program, "--port", "{port}", "--name", "{name}", "--while", &lifeline,
    ];
    let command: Vec<&str> = own.iter().chain(arguments).copied().collect();
    let definition = format!("name = \"sim\"\ncommand = {}\n{settings}\n", json!(command));
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

/// The processes of the workers that a replica has started.
fn workers(shown: &Value) -> Vec<i64> {
    let workers = shown["workers"].as_array().unwrap().iter();
    workers
        .map(|worker| worker["pid"].as_i64().unwrap())
        .collect()
}

fn lives(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// The replica that started the worker is killed while it runs a job. The other one starts its own, and runs the job there; what the
/// first one left ends when that replica is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_deployment_goes_on_when_the_owner_of_its_worker_is_killed() {
    if !is_possible("an owner of workers that is killed").await {
        return;
    }
    let postgres = PostgresServer::start(&["fsync=off"]);
    let Some(fleet) = Fleet::over(postgres.url("postgres")).await else {
        return;
    };
    let a = fleet.replica("a").await;
    let book = fleet.folder.path().join("book");
    let arguments = ["--step", "100", "--book", book.to_str().unwrap()];
    deploy_with(&fleet, "a", &arguments, "min = 1\nmax = 1").await;
    let ready = until(&fleet, "a", "ready", |it| it["state"] == "ready").await;
    let [of_first] = workers(&ready)[..] else {
        panic!("{ready:#}");
    };
    let b = fleet.replica("b").await;
    // The other one sees a worker, and starts none.
    let seen = until(&fleet, "b", "seen", |it| it["state"] == "ready").await;
    assert!(workers(&seen).is_empty(), "{seen:#}");
    let body = json!({"workflow": waiting_graph("runs", 50)});
    let submitted = Request::post_json("/deployment/sim/api/v2/jobs", &body);
    let job = fleet.send(&b, submitted).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut stream = Stream::open(&fleet, &b, &job).await;
    let ran = || Ran::read(&std::fs::read_to_string(&book).unwrap_or_default()).unwrap();
    let begun = async {
        while ran().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::join!(in_time(begun), stream.until("running"));
    a.kill().await.unwrap();
    assert!(lives(of_first), "nobody ends the worker of a dead server");
    // As if the minute had gone by in which nobody else may take this work.
    let lapsed = "UPDATE turns SET until = 0 WHERE work = 'deployments'";
    postgres.execute("postgres", lapsed).await;
    let taken = until(&fleet, "b", "taken over", |it| !workers(it).is_empty()).await;
    let [of_other] = workers(&taken)[..] else {
        panic!("{taken:#}");
    };
    // The first one comes back, to a deployment that is not its own any more.
    let a = fleet.replica("a").await;
    let told = stream.rest("event: status").await;
    check_order(&told);
    let ended = fleet.look(&a, &job).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let outputs = ended["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 1, "{ended:#}");
    let content = format!(
        "/api/v2/assets/{}/content",
        outputs[0]["id"].as_str().unwrap()
    );
    assert!(fleet.get(&a, &content).await.text().contains("runs"));
    let gone = async {
        while lives(of_first) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    in_time(gone).await;
    let owned = until(&fleet, "b", "still its own", |it| workers(it) == [of_other]).await;
    assert_eq!(owned["state"], "ready", "{owned:#}");
    let seen = until(&fleet, "a", "seen", |it| it["state"] == "ready").await;
    assert!(workers(&seen).is_empty(), "{seen:#}");
    // The first worker may have ended it meanwhile, and be asked for it in time.
    let runs = ran().len();
    assert!(
        (1..=2).contains(&runs),
        "once at each at most: {:#?}",
        ran()
    );
    for server in [a, b] {
        assert!(server.terminate().await.unwrap().success());
    }
    assert!(!lives(of_other), "a server that stops ends its workers");
}
