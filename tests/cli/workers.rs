//! `workers` and `deployments` before a real server.

use it::comfy::Version;
use it::process::lifeline;
use it::{Comfy, operate};

use super::*;

/// A server that runs workflows, and a user whose key operates it.
async fn operator(data: &Path) -> (Server, User) {
    let server = Server::start_with(data, [] as [&str; 0]).await.unwrap();
    let key = operate(data, ["key", "add", "local", "--scopes", "admin"]).await;
    let user = User::of(&server).with("EASEL_API_KEY", key.stdout.trim());
    (server, user)
}

#[tokio::test]
async fn an_operator_adds_drains_and_removes_a_worker() {
    let data = tempfile::tempdir().unwrap();
    let (server, user) = operator(data.path()).await;
    let worker = Comfy::start(Version::New).await.unwrap();
    let list = ["workers", "list"];
    assert_eq!(user.json("workers list", &list).await, json!([]));
    let url = worker.url();
    let add = ["workers", "add", &url, "--name", "gpu/1"];
    assert_eq!(user.json("workers add", &add).await, json!({"added": url}));
    let (code, error) = user.error(&add).await;
    assert_eq!(code, 2, "{error}");

    let drained = user.json("workers drain", &["workers", "drain", "gpu/1"]);
    assert_eq!(drained.await, json!({"drained": "gpu/1"}));
    let all = user.json("workers list", &list).await;
    assert_eq!(
        (&all[0]["name"], &all[0]["url"]),
        (&json!("gpu/1"), &json!(url))
    );
    let table = user.good(&list).await;
    let row: Vec<&str> = table.trim_end().split('\t').collect();
    assert_eq!(row[..7], ["gpu/1", "stopped", "0", "2", "0", "0", "0"]);
    assert_eq!((row[7], row[9], row.len()), ("0", "closed", 11), "{table}");
    user.json("workers resume", &["workers", "resume", "gpu/1"])
        .await;
    let table = user.good(&list).await;
    assert!(!table.contains("stopped"), "{table}");
    user.json("workers remove", &["workers", "remove", "gpu/1"])
        .await;
    assert_eq!(user.good(&list).await, "");
    for word in ["drain", "resume", "remove"] {
        let (code, error) = user.error(&["workers", word, "gpu/1"]).await;
        assert_eq!(code, 4, "{word}: {error}");
    }

    // Who may not operate is told so.
    let key = operate(data.path(), ["key", "add", "local"]).await;
    let guest = User::of(&server).with("EASEL_API_KEY", key.stdout.trim());
    for words in [list, ["deployments", "list"]] {
        let (code, error) = guest.error(&words).await;
        assert_eq!(code, 3, "{words:?}: {error}");
    }
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn an_operator_applies_scales_and_removes_a_deployment() {
    let data = tempfile::tempdir().unwrap();
    let (server, user) = operator(data.path()).await;
    let program = binary_of("simulated-comfyui");
    let lifeline = lifeline().to_string();
    let words = ["--port", "{port}", "--name", "{name}", "--while", &lifeline];
    let command: Vec<&str> = [program.to_str().unwrap()]
        .into_iter()
        .chain(words)
        .collect();
    let file = user.path("sim.toml");
    let write = |max: u32| {
        let text = format!(
            "name = \"sim\"\ncommand = {}\nmax = {max}\n",
            json!(command)
        );
        std::fs::write(&file, text).unwrap();
    };
    write(2);
    let apply = ["deployments", "apply", "sim.toml"];
    let made = user.json("deployments apply", &apply).await;
    let show = ["deployments", "show", "sim"];
    while user.json("deployments show", &show).await["revision"] != 1 {}
    assert_eq!((&made["name"], &made["max"]), (&json!("sim"), &json!(2)));
    let all = user
        .json("deployments list", &["deployments", "list"])
        .await;
    assert_eq!(all.as_array().unwrap().len(), 1, "{all:#}");

    let scale = ["deployments", "scale", "sim", "--max", "3"];
    let scaled = user.json("deployments scale", &scale).await;
    assert_eq!((&scaled["min"], &scaled["max"]), (&json!(0), &json!(3)));
    let (code, error) = user.error(&scale[..3]).await;
    assert_eq!(code, 2, "{error}");
    write(1);
    let ran = user.run(&apply).await;
    assert!(
        ran.err.contains("deployment sim has revision 2"),
        "{}",
        ran.err
    );
    let shown = user.good(&show).await;
    assert!(shown.contains("/deployment/sim"), "{shown}");
    assert_eq!(shown.matches("applied").count(), 2, "{shown}");

    let back = ["deployments", "rollback", "sim", "--revision", "1"];
    user.json("deployments rollback", &back).await;
    let stop = user.json("deployments stop", &["deployments", "stop", "sim"]);
    let stopped = stop.await;
    assert!(["draining", "stopped"].contains(&stopped["state"].as_str().unwrap()));
    user.json("deployments start", &["deployments", "start", "sim"])
        .await;
    user.json("deployments show", &show).await;
    let events = ["deployments", "events", "sim", "-n", "3"];
    let told = user.json("deployments events", &events).await;
    assert_eq!(told.as_array().unwrap().len(), 3, "{told:#}");
    let table = user.good(&events[..3]).await;
    assert!(
        table.contains("\tapplied\t") && table.contains("\tscaled\t"),
        "{table}"
    );
    let logs = ["deployments", "logs", "sim"];
    let written = user.json("deployments logs", &logs).await;
    assert!(written.is_array(), "{written}");

    user.good(&["deployments", "stop", "sim"]).await;
    let remove = ["deployments", "remove", "sim"];
    let removed = user.json("deployments remove", &remove).await;
    assert_eq!(removed, json!({"removed": "sim"}));
    for words in [show, logs, remove] {
        let (code, error) = user.error(&words).await;
        assert_eq!(code, 4, "{words:?}: {error}");
    }
    std::fs::write(&file, "max = 1").unwrap();
    let (code, error) = user.error(&apply).await;
    assert_eq!(code, 2, "{error}");
    assert!(
        error["message"].as_str().unwrap().contains("has no name"),
        "{error}"
    );
    std::fs::write(&file, "name = \"odd\"\nmax = \"many\"").unwrap();
    let (code, error) = user.error(&apply).await;
    assert_eq!(code, 2, "{error}");
    assert!(server.terminate().await.unwrap().success());
}
