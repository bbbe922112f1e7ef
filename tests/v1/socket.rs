//! The socket: order, flags, several sockets, other accounts, the end of a server.

use it::{Message, Request, Server, Socket};
use serde_json::{Value, json};

use super::{ends, get, listen, slow_graph, submit, tiny_graph, upload};

fn kinds(heard: &[Message]) -> Vec<String> {
    heard
        .iter()
        .map(|message| match message.kind().as_str() {
            "status" => {
                let left = &message.data()["status"]["exec_info"]["queue_remaining"];
                format!("status {left}")
            }
            "executing" => format!("executing {}", message.data()["node"]),
            kind => kind.to_owned(),
        })
        .collect()
}

/// The flags of a client that reads metadata of pictures.
const FLAGS: &str = r#"{"type": "feature_flags", "data": {"supports_preview_metadata": true}}"#;

#[tokio::test]
async fn a_run_is_told_as_it_was_recorded() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    upload(&server, "photo.png", &super::photo()).await;
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "photo.png"}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ws/x", "images": ["2", 0]}},
    });
    let mut socket = listen(&server).await;
    // What is no object is no first word; the flags still are.
    socket.say("no JSON").await.unwrap();
    socket.say("[1]").await.unwrap();
    socket.say(FLAGS).await.unwrap();
    let first = socket
        .until(|message| message.kind() == "feature_flags")
        .await
        .unwrap();
    assert_eq!(kinds(&first), ["status 0", "feature_flags"]);
    assert_eq!(first[0].data()["sid"], "c");
    assert_eq!(first[1].data()["supports_preview_metadata"], true);
    assert!(first[1].data()["max_upload_size"].is_u64());

    let id = submit(&server, &graph).await;
    let heard = socket.until(ends).await.unwrap();
    let expected = [
        "status 1",
        "status 1",
        "execution_start",
        "execution_cached",
        "progress_state",
        "executing \"1\"",
        "progress_state",
        "progress_state",
        "executing \"2\"",
        "progress_state",
        "progress_state",
        "executing \"3\"",
        "executed",
        "progress_state",
        "execution_success",
        "status 0",
        "executing null",
    ];
    assert_eq!(kinds(&heard), expected);
    assert!(
        heard
            .iter()
            .filter(|message| message.kind() != "status")
            .all(|message| { message.data()["prompt_id"] == json!(id) })
    );
    let executed = heard
        .iter()
        .find(|message| message.kind() == "executed")
        .unwrap();
    let image = json!({"filename": "x_00001_.png", "subfolder": "ws", "type": "output"});
    assert_eq!(executed.data()["output"], json!({"images": [image]}));

    submit(&server, &graph).await;
    let again = socket.until(ends).await.unwrap();
    let expected = [
        "status 1",
        "status 1",
        "execution_start",
        "execution_cached",
        "executed",
        "progress_state",
        "execution_success",
        "status 0",
        "executing null",
    ];
    assert_eq!(kinds(&again), expected, "everything was known");
    let cached = again
        .iter()
        .find(|message| message.kind() == "execution_cached")
        .unwrap();
    assert_eq!(cached.data()["nodes"], json!(["1", "2", "3"]));
}

#[tokio::test]
async fn a_socket_that_subscribed_hears_the_line_of_each_job_that_ends() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut reads = listen(&server).await;
    let mut silent = Socket::open(server.address, Request::get("/ws?clientId=other"))
        .await
        .unwrap();
    reads.next().await.unwrap();
    silent.next().await.unwrap();
    let subscribe = async |body: Value| {
        let body = body.to_string();
        let request = Request::new("PATCH", "/internal/logs/subscribe")
            .header("Content-Type", "application/json")
            .body(body.as_bytes());
        server.send(&request).await.unwrap().status
    };
    // What names no socket changes nothing.
    for body in [json!({"enabled": true, "clientId": null}), json!([])] {
        assert_eq!(subscribe(body).await, 200);
    }
    let asked = json!({"enabled": true, "clientId": "c"});
    assert_eq!(subscribe(asked).await, 200);

    let id = submit(&server, &tiny_graph(1)).await;
    let heard = reads
        .until(|message| message.kind() == "logs")
        .await
        .unwrap();
    assert!(heard.iter().any(ends), "after the frames of its end");
    let told = heard.last().unwrap().data();
    assert_eq!(told["size"], Value::Null);
    let entries = told["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    let line = entries[0]["m"].as_str().unwrap();
    assert!(line.contains(&format!("{id} completed in")), "{line}");
    let listed = get(&server, "/internal/logs/raw").await;
    assert_eq!(
        listed["entries"], told["entries"],
        "as a new panel shows it"
    );

    let no_more = json!({"enabled": false, "clientId": "c"});
    assert_eq!(subscribe(no_more).await, 200);
    submit(&server, &tiny_graph(2)).await;
    let last = submit(&server, &tiny_graph(3)).await;
    let is_last = |message: &Message| ends(message) && message.data()["prompt_id"] == json!(last);
    for socket in [&mut reads, &mut silent] {
        let heard = socket.until(is_last).await.unwrap();
        assert!(heard.iter().all(|message| message.kind() != "logs"));
    }
}

#[tokio::test]
async fn a_failing_run_says_why_and_where() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 4, "height": 4, "batch_size": 1, "color": 0}},
        "2": {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "blur_radius": 31, "sigma": 1.0}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "x"}},
    });
    let mut socket = listen(&server).await;
    socket.next().await.unwrap();
    let id = submit(&server, &graph).await;
    let heard = socket.until(ends).await.unwrap();
    let told = kinds(&heard);
    assert_eq!(
        told[told.len() - 3..],
        ["execution_error", "status 0", "executing null"]
    );
    let error = heard[heard.len() - 3].data();
    assert_eq!(
        (&error["node_id"], &error["node_type"]),
        (&json!("2"), &json!("ImageBlur"))
    );
    assert_eq!(error["executed"], json!(["1"]));
    assert!(error["exception_message"].as_str().unwrap().ends_with('\n'));
    assert!(error["traceback"].is_array());
    let inputs =
        json!({"image": ["tensor of shape [1, 4, 4, 3]"], "blur_radius": [31], "sigma": [1.0]});
    assert_eq!(error["current_inputs"], inputs);
    let entry = &get(&server, "/api/jobs?status=failed").await["jobs"][0];
    assert_eq!(
        (&entry["id"], &entry["execution_error"]["node_id"]),
        (&json!(id), &json!("2"))
    );
    let history = &get(&server, "/history").await[&id];
    assert_eq!(history["status"]["messages"][2][0], "execution_error");
    assert_eq!(
        history["status"]["messages"][2][1]["current_inputs"],
        inputs
    );
}

#[tokio::test]
async fn pictures_for_the_socket_come_whole_and_in_order() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 32, "batch_size": 4, "color": 255}},
        "2": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["1", 0]}},
    });
    for (flags, kind) in [(false, "binary 1"), (true, "binary 4")] {
        let mut socket = listen(&server).await;
        socket.next().await.unwrap();
        if flags {
            socket.say(FLAGS).await.unwrap();
            socket.next().await.unwrap();
        }
        submit(&server, &graph).await;
        let heard = socket.until(ends).await.unwrap();
        let told = kinds(&heard);
        let pictures: Vec<&Message> = heard
            .iter()
            .filter(|message| message.kind() == kind)
            .collect();
        assert_eq!(pictures.len(), 4, "{told:?}");
        let steps = told.iter().filter(|kind| *kind == "progress").count();
        assert_eq!(steps, 4);
        for picture in pictures {
            let Message::Binary(bytes) = picture else {
                panic!("{picture:?}");
            };
            assert!(bytes.windows(4).any(|four| four == b"\x89PNG"));
        }
    }
}

#[tokio::test]
async fn a_line_of_a_node_is_heard() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 150, "height": 160, "batch_size": 1, "color": 0}},
        "2": {"class_type": "GetImageSize", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "PreviewAny", "inputs": {"source": ["2", 0]}},
    });
    let mut socket = listen(&server).await;
    submit(&server, &graph).await;
    let heard = socket.until(ends).await.unwrap();
    let line = b"\x00\x00\x00\x03\x00\x00\x00\x012width: 150, height: 160\n batch size: 1".to_vec();
    assert!(
        heard.contains(&Message::Binary(line)),
        "{:?}",
        kinds(&heard)
    );
    let executed = heard
        .iter()
        .find(|message| message.kind() == "executed")
        .unwrap();
    assert_eq!(executed.data()["output"], json!({"text": ["150"]}));
}

#[tokio::test]
async fn every_socket_of_an_account_hears_everything_even_with_one_id() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut one = listen(&server).await;
    let mut twin = listen(&server).await;
    let target = "/api/ws?clientId=other";
    let mut other = Socket::open(server.address, Request::get(target))
        .await
        .unwrap();
    for socket in [&mut one, &mut twin, &mut other] {
        socket.next().await.unwrap();
    }
    submit(&server, &tiny_graph(1)).await;
    let heard = one.until(ends).await.unwrap();
    assert_eq!(twin.until(ends).await.unwrap(), heard);
    assert_eq!(other.until(ends).await.unwrap(), heard);
    drop(one);
    submit(&server, &tiny_graph(2)).await;
    let heard = twin.until(ends).await.unwrap();
    assert_eq!(
        other.until(ends).await.unwrap(),
        heard,
        "one that leaves takes no other with it"
    );
    let mut nameless = Socket::open(server.address, Request::get("/ws"))
        .await
        .unwrap();
    let sid = nameless.next().await.unwrap().data()["sid"].clone();
    assert_eq!(sid.as_str().map(str::len), Some(32));
}

#[tokio::test]
async fn whoever_comes_late_gets_the_state_as_it_is() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--job-slots", "1"])
        .await
        .unwrap();
    let slow = slow_graph();
    let mut socket = listen(&server).await;
    let id = submit(&server, &slow).await;
    submit(&server, &tiny_graph(1)).await;
    let is_at_two =
        |message: &Message| message.kind() == "executing" && message.data()["node"] == "2";
    socket.until(is_at_two).await.unwrap();
    let mut late = listen(&server).await;
    let heard = late
        .until(|message| message.kind() == "executing")
        .await
        .unwrap();
    let told = kinds(&heard);
    assert_eq!(
        told[..4],
        [
            "status 2",
            "execution_start",
            "execution_cached",
            "progress_state"
        ]
    );
    assert_eq!(heard[1].data()["prompt_id"], json!(id));

    let drained = server.terminate();
    let closed = |message: &Message| *message == Message::Closed(1001);
    let (status, bye, late_bye) = tokio::join!(drained, socket.until(closed), late.until(closed));
    assert!(status.unwrap().success());
    assert!(bye.is_ok() && late_bye.is_ok());
}

#[tokio::test]
async fn the_key_in_the_query_is_in_no_log() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("log");
    let secret = "s3cret-in-a-query";
    let mut command = std::process::Command::new(it::process::binary());
    let mut child = command
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log-level",
            "trace",
            "--token",
            secret,
            "--data-dir",
        ])
        .arg(data.path().join("data"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let address = lines
        .find_map(|line| {
            let line = line.unwrap();
            line.split_once("http://")?
                .1
                .split('/')
                .next()?
                .trim()
                .parse()
                .ok()
        })
        .unwrap();
    let target = format!("/ws?clientId=c&token={secret}");
    let mut socket = Socket::open(address, Request::get(&target)).await.unwrap();
    socket.next().await.unwrap();
    drop(socket);
    let wrong = Request::get("/ws?token=an0ther-secret");
    assert!(Socket::open(address, wrong).await.is_err());
    child.kill().unwrap();
    child.wait().unwrap();
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.len() > 100, "it logs at this level: {logged}");
    assert!(!logged.contains(secret) && !logged.contains("an0ther-secret"));
}
