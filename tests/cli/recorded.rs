//! Recorded answers of the contract, as other servers give them: fields that are missing or new, links to another host,
//! streams that break, results in an object store, calls that are picked up.
//!
//! A recording is a list of exchanges in `tests/cli/recorded`. The answers to one request line are given in turn, the last of
//! them again and again. `{base}` in an answer is the address of the server, `{store}` that of another one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use it::pty::Terminal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;

/// A request as it came.
#[derive(Clone, Debug)]
struct Asked {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A server that answers as a recording says.
struct Player {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: JoinHandle<()>,
}

type Answers = Arc<Mutex<HashMap<String, Vec<Value>>>>;

impl Player {
    /// Plays `tests/cli/recorded/<name>.json`; `store` is where its redirects lead.
    async fn of(name: &str, store: Option<&Player>) -> Self {
        let path = root().join(format!("tests/cli/recorded/{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut text = text.replace("{base}", &format!("http://{address}"));
        if let Some(store) = store {
            text = text.replace("{store}", &format!("http://{}", store.address));
        }
        let exchanges: Vec<Value> = serde_json::from_str(&text).unwrap();
        let mut answers: HashMap<String, Vec<Value>> = HashMap::new();
        for exchange in exchanges {
            let line = exchange["request"].as_str().unwrap().to_owned();
            answers
                .entry(line)
                .or_default()
                .push(exchange["answer"].clone());
        }
        let answers: Answers = Arc::new(Mutex::new(answers));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(play(stream, Arc::clone(&answers), Arc::clone(&noted)));
            }
        });
        Self {
            address,
            asked,
            accepting,
        }
    }

    fn user(&self) -> User {
        User::at(&format!("http://{}", self.address)).with("EASEL_API_KEY", "the-key")
    }

    /// The requests of this line, in their order.
    fn asked(&self, line: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|asked| asked.line == line)
            .cloned()
            .collect()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

async fn play(mut stream: TcpStream, answers: Answers, noted: Arc<Mutex<Vec<Asked>>>) {
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    let answer = {
        let mut answers = answers.lock().unwrap();
        match answers.get_mut(&asked.line) {
            Some(several) if several.len() > 1 => several.remove(0),
            Some(last) => last[0].clone(),
            None => {
                json!({"status": 404, "body": {"error": {"code": "not_found", "message": format!("no {}", asked.line), "details": null}}})
            }
        }
    };
    noted.lock().unwrap().push(asked);
    let body = match &answer["body"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        body @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            body.to_string()
        }
    };
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", answer["status"]);
    for (name, value) in answer["headers"].as_object().into_iter().flatten() {
        head.push_str(&format!("{name}: {}\r\n", value.as_str().unwrap()));
    }
    // A stream has no length and ends with the connection.
    if !head.contains("text/event-stream") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let _ = stream.write_all((head + &body).as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut lines = head.lines();
    let first = lines.next()?;
    let line = first.strip_suffix(" HTTP/1.1")?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted);
    let length: Option<usize> = header("content-length").and_then(|(_, value)| value.parse().ok());
    let is_chunked = header("transfer-encoding").is_some();
    let is_whole = |body: &[u8]| match length {
        Some(length) => body.len() >= length,
        None => !is_chunked || body.ends_with(b"0\r\n\r\n"),
    };
    while !is_whole(&bytes[end..]) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = bytes[end..].to_vec();
    Some(Asked {
        line,
        headers,
        body,
    })
}

#[tokio::test]
async fn a_run_on_another_server_of_the_contract() {
    let store = Player::of("object_store", None).await;
    let server = Player::of("other_server", Some(&store)).await;
    let user = server.user();
    user.write("graph.json", &inverted("photo.png"));
    let ran = user.json("run", &["run", "graph.json"]).await;
    assert_eq!(ran["job"]["status"], "succeeded");
    assert_eq!(ran["job"]["region"], "eu", "what is new passes through");
    let path = ran["files"][0]["path"].as_str().unwrap();
    assert_eq!(
        std::fs::read_to_string(user.path(path)).unwrap(),
        "the picture"
    );

    // The bytes were asked for by their hash first, and then sent with it.
    let by_hash = &server.asked("POST /api/v2/assets/from-hash")[0];
    let by_hash: Value = serde_json::from_slice(&by_hash.body).unwrap();
    let hash = by_hash["hash"].as_str().unwrap();
    let form = String::from_utf8_lossy(&server.asked("POST /api/v2/assets")[0].body).into_owned();
    assert!(form.contains(hash) && form.contains("photo.png"), "{form}");
    let submitted: Value =
        serde_json::from_slice(&server.asked("POST /api/v2/jobs")[0].body).unwrap();
    assert_eq!(
        submitted["workflow"]["1"]["inputs"]["image"]["info"]["id"],
        "a-1"
    );
    assert!(
        server.asked("POST /api/v2/jobs")[0]
            .header("idempotency-key")
            .is_some()
    );

    // The first stream broke, and the second was refused: the job was looked at instead.
    assert_eq!(server.asked("GET /api/v2/jobs/j-1/events").len(), 2);
    assert_eq!(server.asked("GET /api/v2/jobs/j-1").len(), 3);
    // The key goes to the server alone.
    let fetched = &store.asked("GET /bucket/o-1?signature=s")[0];
    assert_eq!(fetched.header("authorization"), None);
    assert_eq!(
        server.asked("GET /api/v2/assets/o-1/content")[0].header("authorization"),
        Some("Bearer the-key")
    );
}

#[tokio::test]
async fn previews_are_drawn_in_one_place_above_the_bar() {
    let store = Player::of("object_store", None).await;
    let server = Player::of("other_server", Some(&store)).await;
    let user = server.user().with("TERM", "xterm-kitty");
    user.write("graph.json", &inverted("photo.png"));
    let mut terminal = Terminal::start(user.command(["run", "graph.json"])).unwrap();
    assert!(
        terminal.end().await.unwrap().success(),
        "{}",
        terminal.shown
    );
    let shown = &terminal.shown;
    assert_eq!(
        shown.matches("\u{1b}_Ga=T,f=100,q=2,i=7103").count(),
        2,
        "{shown:?}"
    );
    assert_eq!(
        shown.matches("\u{1b}_Ga=d,d=I,i=7103").count(),
        1,
        "{shown:?}"
    );
    assert_eq!(shown.matches("\u{1b}[16A\u{1b}7").count(), 2, "{shown:?}");
    assert!(
        shown.contains("1 of 3 nodes done, node 2 (ImageInvert) 1/4"),
        "{shown:?}"
    );
}

#[tokio::test]
async fn a_busy_server_is_asked_again_under_the_same_key() {
    let server = Player::of("busy", None).await;
    let user = server.user();
    user.write("graph.json", &one_picture("a"));
    let ran = user.run(&["submit", "graph.json"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "j-2\n"), "{}", ran.err);
    assert!(
        ran.err.contains("the server is busy; trying again in 1 s"),
        "{}",
        ran.err
    );
    let asked = server.asked("POST /api/v2/jobs");
    assert_eq!(asked.len(), 2);
    assert_eq!(
        asked[0].header("idempotency-key"),
        asked[1].header("idempotency-key")
    );

    let (code, error) = user.error(&["cancel", "j-402"]).await;
    assert_eq!(
        (code, &error["code"], &error["request_id"]),
        (5, &json!("insufficient_credits"), &json!("r-402"))
    );
    let (code, error) = user.error(&["cancel", "j-500"]).await;
    assert_eq!(
        (code, &error["kind"], &error["code"]),
        (7, &json!("server"), &json!("http_500"))
    );
    assert_eq!(
        error["message"],
        "j-500: the server answers 500 (Internal Server Error)"
    );
    // It is of the contract, and its answer is not.
    let (code, error) = user.error(&["jobs", "j-odd"]).await;
    assert_eq!((code, &error["kind"]), (7, &json!("server")));
}

#[tokio::test]
async fn a_call_is_picked_up_under_the_same_key() {
    let server = Player::of("router", None).await;
    let user = server.user();
    let models = user.json("models", &["models"]).await;
    let ids: Vec<&str> = models
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        ["p/one", "p/two", "q/three"],
        "short and empty pages do not end the list"
    );

    let call = user
        .json("call", &["call", "p/one", "prompt=a fox", "size=4"])
        .await;
    assert_eq!(
        (&call["output"], &call["replayed"]),
        (&json!({"url": "u"}), &json!(true))
    );
    let asked = server.asked("POST /v1/models/p/one");
    assert_eq!(asked.len(), 3);
    let keys: Vec<_> = asked
        .iter()
        .map(|asked| asked.header("idempotency-key"))
        .collect();
    assert!(
        keys[0].is_some() && keys.iter().all(|key| *key == keys[0]),
        "{keys:?}"
    );
    assert_eq!(asked[0].body, br#"{"prompt":"a fox","size":4}"#);

    let (code, error) = user.error(&["call", "p/two", "prompt=x"]).await;
    assert_eq!(
        (code, &error["code"]),
        (1, &json!("content_policy_violation"))
    );
    let ran = user.run(&["call", "q/three", "prompt=x"]).await;
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("\n  images[0]: Not a URL"), "{}", ran.err);
    let estimate = user
        .json("estimate", &["estimate", "p/one", "prompt=x"])
        .await;
    assert_eq!(estimate["amount_cents"], 4);
    assert_eq!(
        user.good(&["estimate", "p/one", "prompt=x"]).await,
        "0.04 USD (exact)\n"
    );
    let (code, error) = user.error(&["estimate", "p/two", "prompt=x"]).await;
    assert_eq!((code, &error["kind"]), (8, &json!("not_offered")));
}

#[tokio::test]
async fn what_cannot_be_saved_is_told_with_the_way_out_that_helps() {
    let server = Player::of("not_saved", None).await;
    let user = server.user();
    // What is gone is gone for every folder.
    let (code, error) = user.error(&["outputs", "j-gone"]).await;
    assert_eq!((code, &error["hint"]), (4, &Value::Null), "{error}");

    let ran = user.run(&["outputs", "j-long"]).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (1, "out/b.png\n"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.ends_with(
            "\n  `easel outputs j-long --out FOLDER` saves the outputs in another folder\n"
        ),
        "{}",
        ran.err
    );

    // The others are where nothing answers.
    let (code, error) = user.error(&["outputs", "j-away"]).await;
    let message = error["message"].as_str().unwrap();
    assert_eq!(code, 6, "{error}");
    assert!(
        message.starts_with("out/a.png: ")
            && message.ends_with("\n  and 2 more were not asked for"),
        "{message}"
    );
    assert_eq!(server.asked("GET /api/v2/assets/o-away/content").len(), 1);
    let (code, error) = user.error(&["results", "r-away", "--save", "kept"]).await;
    let message = error["message"].as_str().unwrap();
    assert_eq!((code, &error["hint"]), (6, &Value::Null), "{error}");
    assert!(
        message.starts_with("kept/a: ") && message.ends_with("\n  and 1 more was not asked for"),
        "{message}"
    );
}
