//! Deployments over HTTP, and what operators must not see.

use it::Launch;

use super::*;

/// A key that operates the server.
async fn admin_key(data: &Path) -> String {
    let made = operate(data, ["key", "add", "local", "--scopes", "admin"]).await;
    assert_eq!(made.code, 0, "{}", made.stderr);
    made.stdout.trim().to_owned()
}

#[tokio::test]
async fn operators_do_everything_over_http_too() {
    let rig = Rig::start().await;
    let bearer = format!("Bearer {}", admin_key(rig.data.path()).await);
    let base = "/api/v2/admin/deployments";
    let send = async |method: &str, below: &str, body: Option<Value>| {
        let request =
            Request::new(method, &format!("{base}{below}")).header("Authorization", &bearer);
        let request = match body {
            Some(body) => request
                .header("Content-Type", "application/json")
                .body(body.to_string()),
            None => request,
        };
        rig.send(request).await
    };
    let program = binary_of("simulated-comfyui").display().to_string();
    let definition = json!({"command": [program, "--port", "{port}", "--while", lifeline().to_string()], "min": 1, "max": 2});
    let applied = send("PUT", "/sim", Some(definition.clone())).await;
    assert_eq!(
        (applied.status, &applied.json()["next_revision"]),
        (200, &json!(1)),
        "{}",
        applied.text()
    );
    let same = send("PUT", "/sim", Some(definition)).await.json();
    assert_eq!(
        same["revisions"].as_array().unwrap().len(),
        1,
        "a repeat changes nothing"
    );
    rig.until_state("ready", 1).await;
    let listed = send("GET", "", None).await.json();
    assert_eq!(listed["deployments"][0]["name"], "sim");
    let scaled = send("POST", "/sim/scale", Some(json!({"max": 3})))
        .await
        .json();
    assert_eq!((&scaled["min"], &scaled["max"]), (&json!(1), &json!(3)));
    for (method, below) in [
        ("POST", "/sim/stop"),
        ("POST", "/sim/start"),
        ("GET", "/sim/events"),
        ("GET", "/sim/logs"),
    ] {
        let answer = send(method, below, None).await;
        assert_eq!(answer.status, 200, "{below}: {}", answer.text());
    }
    let back = send("POST", "/sim/rollback", None).await;
    assert_eq!(
        (back.status, back.error_code()),
        (422, "invalid_request".to_owned())
    );
    for (method, below, body, status) in [
        (
            "PUT",
            "/Not-a-name",
            Some(json!({"urls": ["http://a"]})),
            422,
        ),
        ("PUT", "/other", Some(json!({})), 422),
        ("PUT", "/other", Some(json!({"commnd": []})), 422),
        ("POST", "/sim/scale", Some(json!({})), 422),
        ("GET", "/other", None, 404),
        ("GET", "/other/events", None, 404),
        ("DELETE", "/other", None, 404),
    ] {
        let answer = send(method, below, body).await;
        assert_eq!(answer.status, status, "{method} {below}: {}", answer.text());
    }
    let before = pid(&rig.until_state("ready", 1).await);
    let removed = send("DELETE", "/sim", None).await;
    assert_eq!(removed.status, 204, "{}", removed.text());
    until_gone(before).await;
    assert_eq!(send("GET", "/sim", None).await.status, 404);
    assert_eq!(rig.try_submit(&graph("gone", 1)).await.status, 404);
    // Its name is free again.
    rig.apply(&[], "").await;
    rig.until("revision 1", |it| it["revision"] == 1).await;

    let user = operate(rig.data.path(), ["key", "add", "local"]).await;
    let bearer = format!("Bearer {}", user.stdout.trim());
    let request = Request::get(base).header("Authorization", &bearer);
    assert_eq!(rig.send(request).await.status, 403);
}

#[tokio::test]
async fn a_secret_reaches_its_worker_and_nobody_else() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("server.log");
    let launch = Launch {
        variables: vec![("WORKER_TOKEN".to_owned(), "s3cret-token".to_owned())],
        log: Some(log.clone()),
        ..Launch::of("all-in-one")
    };
    let server = Server::launch(data.path(), &launch).await.unwrap();
    let rig = Rig { data, server };
    let file = rig.data.path().join("token");
    std::fs::write(&file, "s3cret-file\n").unwrap();
    let settings = format!(
        "min = 1\n[environment]\nA = {{ env = \"WORKER_TOKEN\" }}\nB = {{ file = \"{}\" }}\nC = \"plain\"\n",
        file.display()
    );
    let shows = [
        "--shows",
        "A",
        "--shows",
        "B",
        "--shows",
        "C",
        "--shows",
        "WORKER_TOKEN",
    ];
    rig.apply(&shows, &settings).await;
    rig.until_state("ready", 1).await;
    let logs = rig.done(&["deployment", "logs", "sim"]).await;
    for line in [
        "A has 12 characters",
        "B has 11 characters",
        "C has 5 characters",
        "WORKER_TOKEN has 9 characters",
    ] {
        assert!(logs.contains(line), "{line}: {logs}");
    }
    let mut seen = rig.done(&["deployment", "show", "sim", "--json"]).await;
    assert!(
        seen.contains("WORKER_TOKEN") && seen.contains("plain"),
        "{seen}"
    );
    seen += &rig.done(&["deployment", "events", "sim"]).await;
    seen += &std::fs::read_to_string(&log).unwrap();
    seen += &String::from_utf8_lossy(&std::fs::read(rig.data.path().join("main.db")).unwrap());
    seen += &String::from_utf8_lossy(&std::fs::read(rig.data.path().join("main.db-wal")).unwrap());
    assert!(!seen.contains("s3cret"), "a secret is seen");
}
