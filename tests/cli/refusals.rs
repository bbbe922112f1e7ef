//! What a user is told when something is wrong: always what to do next.

use it::Request;
use serde_json::json;

use super::*;

#[tokio::test]
async fn bad_graphs_are_told_with_the_way_out() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    std::fs::write(user.path("broken.json"), "{").unwrap();
    std::fs::write(user.path("editor.json"), r#"{"nodes": [], "links": []}"#).unwrap();
    user.write(
        "unknown.json",
        &json!({"1": {"class_type": "KSampler", "inputs": {}}}),
    );
    let mut told = String::new();
    for file in ["gone.json", "broken.json", "editor.json", "unknown.json"] {
        let ran = user.run(&["run", file]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{file}: {}", ran.err);
        told.push_str(&masked(&ran.err, &user, &server));
    }
    golden("bad_graphs.txt", &told);
    let listed = server
        .send(&Request::get("/api/v2/jobs"))
        .await
        .unwrap()
        .json();
    assert_eq!(listed["jobs"], json!([]), "nothing ran");
}

#[tokio::test]
async fn bad_arguments_are_told_with_an_example() {
    let user = User::new();
    for (arguments, words) in [
        (
            &["run", "g.json", "--input", "image=a"][..],
            "write it as NODE.FIELD=VALUE",
        ),
        (&["run", "g.json", "--label", "a"], "write it as KEY=VALUE"),
        (
            &["assets", "upload", "a", "--expires", "7"],
            "write a number with its unit",
        ),
        (
            &["jobs", "--server", "ftp://x"],
            "write one like https://example.com",
        ),
        (&["jobs", "-n", "0"], "0 is not in 1..=10000"),
        (&["call", "bfl"], "write it as PROVIDER/MODEL"),
    ] {
        let ran = user.run(arguments).await;
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let user = User::at(&format!("http://{address}"));
    let (code, error) = user.error(&["jobs"]).await;
    assert_eq!((code, &error["kind"]), (6, &json!("network")));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&address.to_string()), "{message}");
    assert!(
        error["hint"].as_str().unwrap().contains("--server"),
        "{error}"
    );
}

#[tokio::test]
async fn unknown_jobs_and_assets_exit_with_4() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    let id = "018f0000-0000-7000-8000-000000000000";
    for arguments in [
        &["jobs", id][..],
        &["watch", id],
        &["logs", id],
        &["cancel", id],
        &["workflow", id],
        &["outputs", id],
        &["assets", "get", id],
        &["assets", "delete", id],
        &["jobs", "no id/../x"],
    ] {
        let (code, error) = user.error(arguments).await;
        assert_eq!(
            (code, &error["code"]),
            (4, &json!("not_found")),
            "{arguments:?}"
        );
    }
}

#[tokio::test]
async fn a_folder_that_takes_no_files_is_found_out_before_the_run() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    user.write("graph.json", &one_picture("a"));
    let ran = user.run(&["run", "graph.json", "--out", "photo.png"]).await;
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("is no folder"), "{}", ran.err);
    let listed = server
        .send(&Request::get("/api/v2/jobs"))
        .await
        .unwrap()
        .json();
    assert_eq!(listed["jobs"], json!([]), "nothing ran");
}
