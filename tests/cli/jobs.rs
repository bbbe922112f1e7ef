//! Jobs and assets before a real server.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;

#[tokio::test]
async fn run_uploads_follows_and_saves() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    user.write("graph.json", &inverted("photo.png"));
    let ran = user.run(&["run", "graph.json"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, "out/inverted_00001_.png\n");
    assert!(is_png(&user.path("out/inverted_00001_.png")));
    let said = without_progress(&ran.err);
    golden("run.txt", &masked(&said, &user, &server));

    // The server has the result already: the same name and bytes, which are not doubled.
    let again = user
        .json("run", &["run", "graph.json", "--label", "a=b"])
        .await;
    assert_eq!(again["files"][0]["path"], "out/inverted_00001_.png");
    assert_eq!(std::fs::read_dir(user.path("out")).unwrap().count(), 1);
    assert_eq!(again["job"]["metadata"], json!({"a": "b"}));
    assert_eq!(again["job"]["status"], "succeeded");
    let uploads = server
        .send(&it::Request::get("/metrics"))
        .await
        .unwrap()
        .text();
    assert!(!uploads.is_empty());
}

#[tokio::test]
async fn inputs_are_values_or_files() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    std::fs::rename(user.path("photo.png"), user.path("mine.png")).unwrap();
    user.write("graph.json", &inverted("gone.png"));
    let set = [
        "run",
        "graph.json",
        "-q",
        "--input",
        "1.image=mine.png",
        "-i",
        "3.filename_prefix=7",
    ];
    let ran = user.run(&set).await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "out/7_00001_.png\n", "")
    );
    let named = user
        .run(&[
            "run",
            "graph.json",
            "--input",
            "1.image=@mine.png",
            "--out",
            "deep/er",
        ])
        .await;
    assert_eq!(
        (named.code, named.out.as_str()),
        (0, "deep/er/inverted_00001_.png\n"),
        "{}",
        named.err
    );

    let ran = user
        .run(&["run", "graph.json", "--input", "9.image=mine.png"])
        .await;
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("it has 1 (LoadImage), 2 (ImageInvert), 3 (SaveImage)"),
        "{}",
        ran.err
    );
    let (code, error) = user
        .error(&["run", "graph.json", "--input", "1.image=@gone.png"])
        .await;
    assert_eq!((code, &error["kind"]), (2, &json!("usage")));
    let (code, error) = user.error(&["run", "graph.json"]).await;
    assert_eq!(
        (code, &error["code"]),
        (2, &json!("invalid_workflow")),
        "{error:#}"
    );
}

#[tokio::test]
async fn a_job_is_submitted_watched_listed_and_looked_at() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    user.write("graph.json", &one_picture("a"));
    let id = user
        .good(&["submit", "graph.json", "-l", "kind=test"])
        .await;
    let id = id.trim();
    let watched = user.run(&["watch", id, "--out", "seen"]).await;
    assert_eq!(
        (watched.code, watched.out.as_str()),
        (0, "seen/a_00001_.png\n"),
        "{}",
        watched.err
    );

    let submitted = user.json("submit", &["submit", "graph.json"]).await;
    let other = submitted["id"].as_str().unwrap();
    let events = user.good(&["watch", other, "--json"]).await;
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for event in &events {
        fits("watch", event);
    }
    assert_eq!(events.last().unwrap()["event"], "over");
    let outputs = events
        .iter()
        .filter(|event| event["event"] == "output")
        .count();
    assert_eq!(outputs, 1, "{events:#?}");

    let listed = user.json("jobs", &["jobs"]).await;
    let ids: Vec<&Value> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["id"])
        .collect();
    assert_eq!(ids, [other, id], "newest first");
    let labelled = user
        .good(&["jobs", "--label", "kind=test", "--status", "succeeded"])
        .await;
    let columns: Vec<&str> = labelled.trim_end().split('\t').collect();
    assert_eq!(
        (columns[0], columns[1], columns[2], columns[4]),
        (id, "succeeded", "2 of 2", "kind=test")
    );
    assert_eq!(
        user.json("jobs", &["jobs", "-n", "1"])
            .await
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let one = user.json("job", &["jobs", id]).await;
    assert_eq!(one["id"], id);
    let shown = user.good(&["jobs", id]).await;
    assert!(
        shown.contains("succeeded") && shown.contains("a_00001_.png"),
        "{shown}"
    );
    let graph = user.json("workflow", &["workflow", id]).await;
    assert_eq!(graph, one_picture("a"));
    let saved = user
        .json("outputs", &["outputs", id, "--out", "again"])
        .await;
    assert_eq!(saved[0]["path"], "again/a_00001_.png");
    user.json("logs", &["logs", id]).await;
    let canceled = user.json("cancel", &["cancel", id, other]).await;
    assert_eq!(canceled[0]["status"], "succeeded", "what is over stays so");
}

#[tokio::test]
async fn a_page_is_followed_by_the_next_one() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    let body = json!({"workflow": one_picture("a")});
    for _ in 0..130 {
        let answer = server
            .send(&it::Request::post_json("/api/v2/jobs", &body))
            .await
            .unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let all = user.json("jobs", &["jobs", "-n", "1000"]).await;
    assert_eq!(all.as_array().unwrap().len(), 130);
    let some = user.json("jobs", &["jobs", "-n", "120"]).await;
    assert_eq!(some.as_array().unwrap().len(), 120);
}

#[tokio::test]
async fn a_job_that_fails_says_where_and_exits_with_1() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    let failing = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 4, "height": 4, "batch_size": 1, "color": 0}},
        "2": {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "blur_radius": 31, "sigma": 1.0}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "x"}},
    });
    user.write("graph.json", &failing);
    let ran = user.run(&["run", "graph.json"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
    let said = without_progress(&ran.err);
    golden("failed.txt", &masked(&said, &user, &server));
    let (code, error) = user.error(&["run", "graph.json"]).await;
    assert_eq!((code, &error["kind"]), (1, &json!("failed")));
}

#[tokio::test]
async fn the_same_key_gives_the_same_job() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    user.write("graph.json", &one_picture("a"));
    let submit = ["submit", "graph.json", "--idempotency-key", "once"];
    let first = user.good(&submit).await;
    assert_eq!(user.good(&submit).await, first);
    user.write("graph.json", &one_picture("b"));
    let (code, error) = user.error(&submit).await;
    assert_eq!((code, &error["code"]), (2, &json!("idempotency_key_reuse")));
}

#[tokio::test]
async fn assets_go_up_once_come_down_whole_and_are_deleted() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    let up = user
        .json(
            "assets upload",
            &[
                "assets",
                "upload",
                "photo.png",
                "--tag",
                "t",
                "--expires",
                "7d",
            ],
        )
        .await;
    let id = up[0]["id"].as_str().unwrap();
    assert_eq!(
        (&up[0]["file_path"], &up[0]["content_type"], &up[0]["tags"]),
        (&json!("photo.png"), &json!("image/png"), &json!(["t"]))
    );
    assert_eq!(up[0]["created_new"], true);
    // The bytes are there, so only the name travels.
    let again = user
        .json(
            "assets upload",
            &["assets", "upload", "photo.png", "--name", "other.png"],
        )
        .await;
    assert_eq!(
        (&again[0]["created_new"], &again[0]["hash"]),
        (&json!(false), &up[0]["hash"])
    );

    let got = user
        .json("assets get", &["assets", "get", id, "--out", "copy.png"])
        .await;
    assert_eq!(got["path"], "copy.png");
    let photo = std::fs::read(user.path("photo.png")).unwrap();
    assert_eq!(std::fs::read(user.path("copy.png")).unwrap(), photo);
    let mut piped = user.command(["assets", "get", id, "--out", "-"]);
    assert_eq!(piped.output().await.unwrap().stdout, photo);
    // Into a folder it goes under its own name, and what is there with the same bytes is not doubled.
    assert_eq!(user.good(&["assets", "get", id]).await, "./photo.png\n");
    user.json("assets show", &["assets", "show", id]).await;
    let gone = user.json("assets delete", &["assets", "delete", id]).await;
    assert_eq!(gone, json!({"deleted": [id]}));
    let (code, error) = user.error(&["assets", "show", id]).await;
    assert_eq!((code, &error["kind"]), (4, &json!("not_found")));
}

/// Forwards connections to a server that may be away.
async fn forwarding() -> (SocketAddr, watch::Sender<Option<SocketAddr>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (target, targets) = watch::channel(None);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let target: Option<SocketAddr> = *targets.borrow();
            tokio::spawn(async move {
                // Without a server the connection is closed at once.
                let mut far = TcpStream::connect(target?).await.ok()?;
                copy_bidirectional(&mut near, &mut far).await.ok()
            });
        }
    });
    (address, target)
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_is_watched_on() {
    let data = tempfile::tempdir().unwrap();
    let (address, target) = forwarding().await;
    let first = Server::start(data.path()).await.unwrap();
    target.send_replace(Some(first.address));
    let user = User::at(&format!("http://{address}"));
    user.write("graph.json", &slow());
    let id = user.good(&["submit", "graph.json"]).await;
    let mut watching = user.command(["watch", id.trim()]);
    let mut watching = watching
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stderr.take().unwrap()).lines();
    let first_line = lines.next_line().await.unwrap();
    assert!(first_line.is_some(), "it watches");
    target.send_replace(None);
    first.kill().await.unwrap();
    let second = Server::start(data.path()).await.unwrap();
    target.send_replace(Some(second.address));
    let mut said = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        said.push_str(&line);
        said.push('\n');
    }
    assert!(watching.wait().await.unwrap().success(), "{said}");
    assert!(said.contains("succeeded"), "{said}");
}

/// A graph that takes about a second.
fn slow() -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 1500, "height": 1500, "batch_size": 1, "color": 255}},
        "2": {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "blur_radius": 31, "sigma": 10.0}},
        "3": {"class_type": "ImageBlur", "inputs": {"image": ["2", 0], "blur_radius": 31, "sigma": 10.0}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "slow"}},
    })
}
