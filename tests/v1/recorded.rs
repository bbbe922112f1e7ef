//! Whole recorded conversations of a real server, played again over the wire: what is sent is what was sent then, and what
//! comes back has the same names in the same order with the same fields.
//!
//! Left out are ids, times, texts of exceptions and what represents tensors; what the recording's own reader says may differ.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use it::{Message, Request, Server, Socket, goldens};
use serde_json::{Value, json};

use super::{ends, get, post, upload};

/// One recording.
struct Recording {
    name: String,
    /// What the recorded client sent, and its id.
    head: Value,
    /// Whether it said first that it reads metadata of pictures.
    flags: bool,
    /// What its own socket heard, up to the answer of its submission and from there on.
    greeting: Vec<Value>,
    heard: Vec<Value>,
    /// How many of these it had heard when it interrupted.
    interrupted_after: Option<usize>,
    submitted: Value,
    history: Value,
}

impl Recording {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut recording = Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            head: lines.next().unwrap(),
            flags: false,
            greeting: Vec::new(),
            heard: Vec::new(),
            interrupted_after: None,
            submitted: Value::Null,
            history: Value::Null,
        };
        for line in lines {
            let kind = line["kind"].as_str().unwrap();
            match (line["who"].as_str().unwrap(), kind) {
                ("http", "POST /prompt") => recording.submitted = line["body"].clone(),
                ("http", "POST /interrupt") => {
                    recording.interrupted_after = Some(recording.heard.len());
                }
                ("http", "GET /history") => recording.history = line["body"].clone(),
                ("self", "sent") => recording.flags = true,
                ("self", _) if recording.submitted.is_null() => recording.greeting.push(line),
                ("self", _) => recording.heard.push(line),
                // The old server's word to a stranger; ours says nothing to another account, and everything to its own.
                ("other_client", _) => {}
                (who, kind) => panic!("{}: {who} {kind}", recording.name),
            }
        }
        assert!(!recording.heard.is_empty() && recording.history.is_object());
        recording
    }

    fn job(&self) -> &str {
        self.head["prompt_id"].as_str().unwrap()
    }

    fn client(&self) -> &str {
        self.head["client_id"].as_str().unwrap()
    }

    /// The pictures that it loads.
    fn pictures(&self) -> impl Iterator<Item = &str> {
        let nodes = self.head["workflow"].as_object().unwrap();
        nodes
            .values()
            .filter_map(|node| node["inputs"]["image"].as_str())
    }
}

/// A picture of the recorded cases, wherever it lies.
fn picture(folder: &Path, name: &str) -> Vec<u8> {
    let cases = std::fs::read_dir(folder).unwrap();
    let found = cases
        .map(|case| case.unwrap().path().join(name))
        .find(|path| path.is_file());
    std::fs::read(found.unwrap_or_else(|| panic!("{name} is in no case"))).unwrap()
}

/// Types in place of what differs from run to run.
fn masked(value: &Value, job: &str) -> Value {
    let mut value = value.clone();
    mask(None, &mut value, job);
    value
}

fn mask(name: Option<&str>, value: &mut Value, job: &str) {
    match (name, &mut *value) {
        (Some("timestamp"), Value::Number(_)) => *value = json!("<ms>"),
        (Some("sid"), Value::String(_)) => *value = json!("<client>"),
        (Some("max_upload_size"), Value::Number(_)) => *value = json!("<bytes>"),
        (Some("exception_message"), Value::String(text)) => {
            assert!(text.ends_with('\n'), "{text:?}");
            *value = json!("<text>");
        }
        (Some("traceback"), Value::Array(_)) => *value = json!("<lines>"),
        (Some("current_outputs"), Value::Array(_)) => *value = json!("<nodes>"),
        // A set there, in the order of execution here.
        (Some("executed"), Value::Array(nodes)) => nodes.sort_by_key(ToString::to_string),
        (_, Value::Array(items)) => items.iter_mut().for_each(|item| mask(None, item, job)),
        (_, Value::Object(fields)) => {
            for (name, field) in fields.iter_mut() {
                mask(Some(name), field, job);
            }
        }
        (_, Value::Number(number)) => {
            // 1 and 1.0 are one number to every client.
            let float = number.as_f64().unwrap();
            *value = json!(float);
        }
        (_, Value::String(text)) if text == job => *value = json!("<job>"),
        // Samples there, a shape here.
        (_, Value::String(text)) if text.starts_with("tensor") => *value = json!("<tensor>"),
        // Five letters that are different for every run.
        (Some("filename"), Value::String(text)) if text.contains("_temp_") => {
            let (before, after) = text.split_once("_temp_").unwrap();
            let rest = after.split_once('_').unwrap().1;
            *value = json!(format!("{before}_temp_<letters>_{rest}"));
        }
        (_, Value::Null | Value::Bool(_) | Value::String(_)) => {}
    }
}

/// A recorded message, without what differs.
fn theirs(line: &Value, job: &str) -> (String, Value) {
    if line["kind"] == "binary" {
        let kind = format!("binary {}", line["event_type_be_u32"]);
        return (kind, line["head_hex"].clone());
    }
    let message = &line["msg"];
    let kind = message["type"].as_str().unwrap().to_owned();
    (kind, masked(&message["data"], job))
}

/// One of ours, in the same form; of a binary one the bytes.
fn ours(message: &Message, job: &str) -> (String, Value) {
    match message {
        Message::Binary(bytes) => (message.kind(), json!(hex(bytes))),
        Message::Json(_) | Message::Closed(_) => (message.kind(), masked(message.data(), job)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares two conversations, message by message.
fn compare(name: &str, heard: &[(String, Value)], recorded: &[(String, Value)]) {
    let kinds = |messages: &[(String, Value)]| -> Vec<String> {
        messages.iter().map(|(kind, _)| kind.clone()).collect()
    };
    assert_eq!(kinds(heard), kinds(recorded), "{name}");
    for (place, ((kind, ours), (_, theirs))) in heard.iter().zip(recorded).enumerate() {
        match kind.as_str() {
            // Of bytes their beginning was recorded: type and format, and the size of the picture, or the line itself.
            "binary 1" | "binary 3" => {
                let (ours, theirs) = (ours.as_str().unwrap(), theirs.as_str().unwrap());
                assert!(ours.starts_with(theirs), "{name} {place}: {ours} {theirs}");
            }
            "binary 4" => {
                let ours = ours.as_str().unwrap();
                // Type, and the length of what describes the picture: the same fields in as many bytes, spaces aside.
                assert_eq!(ours[..8], theirs.as_str().unwrap()[..8], "{name} {place}");
            }
            "feature_flags" => {
                // What was recorded is told as it was; newer pages read more.
                for (flag, value) in theirs.as_object().unwrap() {
                    assert_eq!(ours[flag], *value, "{name} {place}: {flag}");
                }
            }
            _ => assert_eq!(ours, theirs, "{name} {place}: {kind}"),
        }
    }
}

/// What describes a picture in a frame of type 4.
fn described(message: &Message) -> Option<Value> {
    let Message::Binary(bytes) = message else {
        return None;
    };
    let (kind, rest) = bytes.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*kind) != 4 {
        return None;
    }
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (text, picture) = rest.split_at(u32::from_be_bytes(*length) as usize);
    assert!(picture.starts_with(b"\x89PNG"));
    serde_json::from_slice(text).ok()
}

/// Plays a recording; what was heard of the run, and the job's id.
async fn play(server: &Server, recording: &Recording) -> (Vec<Message>, String) {
    let target = format!("/ws?clientId={}", recording.client());
    let mut socket = Socket::open(server.address, Request::get(&target))
        .await
        .unwrap();
    if recording.flags {
        let flags = json!({"type": "feature_flags", "data": {"supports_preview_metadata": true}});
        socket.say(&flags.to_string()).await.unwrap();
    }
    let mut greeting = Vec::new();
    for _ in &recording.greeting {
        greeting.push(ours(&socket.next().await.unwrap(), ""));
    }
    let recorded: Vec<_> = recording
        .greeting
        .iter()
        .map(|line| theirs(line, recording.job()))
        .collect();
    compare(&recording.name, &greeting, &recorded);

    let body = json!({"prompt": recording.head["workflow"], "client_id": recording.client()});
    let answer = post(server, "/prompt", &body).await;
    let submitted = answer.json();
    let job = submitted["prompt_id"].as_str().unwrap().to_owned();
    let fields = |body: &Value| -> Vec<String> {
        let fields = body.as_object().unwrap().keys();
        fields.cloned().collect()
    };
    assert_eq!(fields(&submitted), fields(&recording.submitted));
    assert!(submitted["number"].is_number());
    assert_eq!(submitted["node_errors"], json!({}));

    let mut heard = Vec::new();
    if let Some(count) = recording.interrupted_after {
        while heard.len() < count {
            heard.push(socket.next().await.unwrap());
        }
        assert_eq!(post(server, "/interrupt", &json!({})).await.status, 200);
    }
    heard.extend(socket.until(ends).await.unwrap());
    (heard, job)
}

/// Compares a conversation that was played, and what the history tells of it afterwards.
async fn check(server: &Server, recording: &Recording, heard: &[Message], job: &str) {
    let told: Vec<_> = heard.iter().map(|message| ours(message, job)).collect();
    let recorded: Vec<_> = recording
        .heard
        .iter()
        .map(|line| theirs(line, recording.job()))
        .collect();
    compare(&recording.name, &told, &recorded);
    for shown in heard.iter().filter_map(described) {
        let fields = json!({
            "node_id": "2", "prompt_id": job, "display_node_id": "2", "parent_node_id": null,
            "real_node_id": "2", "image_type": "image/png",
        });
        assert_eq!(shown, fields, "{}", recording.name);
    }

    let history = get(server, &format!("/history/{job}")).await;
    let mut entry = masked(&history[job], job);
    let mut recorded = masked(&recording.history[recording.job()], recording.job());
    for entry in [&mut entry, &mut recorded] {
        // The number in the queue means nothing; the outputs to run are a set there.
        assert!(entry["prompt"][0].is_number());
        entry["prompt"][0] = json!("<number>");
        let outputs = entry["prompt"][4].as_array_mut().unwrap();
        outputs.sort_by_key(ToString::to_string);
        // Newer servers add when the prompt came.
        let extra = entry["prompt"][3].as_object_mut().unwrap();
        extra.remove("create_time");
    }
    assert_eq!(entry, recorded, "{}: the history", recording.name);
}

/// A server that has the pictures of these recordings.
async fn prepared(data: &Path, folder: &Path, recordings: &[&Recording]) -> Server {
    let server = Server::start(data).await.unwrap();
    for name in recordings.iter().flat_map(|recording| recording.pictures()) {
        upload(&server, name, &picture(folder, name)).await;
    }
    server
}

fn recording(folder: &Path, name: &str) -> Recording {
    Recording::read(&folder.join(format!("ws/{name}.jsonl")))
}

/// Every recording has its test below: one that is added must not be left out quietly.
const RECORDINGS: [&str; 9] = [
    "binary_no_flags",
    "binary_save_image_websocket",
    "cached_rerun",
    "error",
    "interrupted",
    "lists",
    "no_feature_flags",
    "progress_text",
    "simple",
];

fn known(folder: &Path) {
    let files = std::fs::read_dir(folder.join("ws")).unwrap();
    let mut names: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    names.sort();
    let names: Vec<_> = names
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, RECORDINGS);
}

#[tokio::test]
async fn runs_are_told_as_they_were_recorded() {
    let Some(folder) = goldens("runs_are_told_as_they_were_recorded") else {
        return;
    };
    known(&folder);
    for name in RECORDINGS {
        if ["cached_rerun", "interrupted", "simple"].contains(&name) {
            continue;
        }
        let recording = recording(&folder, name);
        let data = tempfile::tempdir().unwrap();
        let server = prepared(data.path(), &folder, &[&recording]).await;
        let (heard, job) = play(&server, &recording).await;
        check(&server, &recording, &heard, &job).await;
    }
}

#[tokio::test]
async fn a_run_and_its_rerun_are_told_as_they_were_recorded() {
    let Some(folder) = goldens("a_run_and_its_rerun_are_told_as_they_were_recorded") else {
        return;
    };
    let (first, again) = (
        recording(&folder, "simple"),
        recording(&folder, "cached_rerun"),
    );
    let data = tempfile::tempdir().unwrap();
    let server = prepared(data.path(), &folder, &[&first]).await;
    for recording in [&first, &again] {
        let (heard, job) = play(&server, recording).await;
        check(&server, recording, &heard, &job).await;
    }
}

#[tokio::test]
async fn an_interrupted_run_is_told_as_it_was_recorded() {
    let Some(folder) = goldens("an_interrupted_run_is_told_as_it_was_recorded") else {
        return;
    };
    let mut recording = recording(&folder, "interrupted");
    let data = tempfile::tempdir().unwrap();
    let server = prepared(data.path(), &folder, &[&recording]).await;
    // An interrupt that comes when the next node runs already, or while this one takes longer than a stop waits for it, is
    // told otherwise. How long the node takes is the machine's to say: its picture grows or shrinks until it fits. Another
    // colour each time, for nothing of what was made before may be known.
    let mut size = 2000;
    for color in 1..=30 {
        let inputs = &mut recording.head["workflow"]["1"]["inputs"];
        (inputs["color"], inputs["width"], inputs["height"]) =
            (json!(color), json!(size), json!(size));
        let (workflow, job) = (
            recording.head["workflow"].clone(),
            recording.job().to_owned(),
        );
        recording.history[&job]["prompt"][2] = workflow;
        let (heard, job) = play(&server, &recording).await;
        size = match heard.len().cmp(&recording.heard.len()) {
            Ordering::Less => size * 7 / 10,
            Ordering::Greater => size * 5 / 4,
            Ordering::Equal => return check(&server, &recording, &heard, &job).await,
        };
        assert!((64..=8000).contains(&size), "no interrupt comes in time");
    }
    panic!("no interrupt came in time");
}
