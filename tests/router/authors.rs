//! The commands of people who write catalogs: `catalog new`, `catalog check`, `catalog try` and `catalog diff`, with a partner
//! that nobody knew before.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};

use it::process::binary_of;
use it::pty::Terminal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::*;

const KEY: &str = "a-key-of-acme";

/// A partner whose tasks are done when they are asked after for the second time. Dropping it ends it.
struct Acme {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Acme {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let mut looks = 0;
            while let Ok((stream, _)) = listener.accept().await {
                answer(stream, &mut looks).await.unwrap();
            }
        });
        Self { address, serving }
    }

    fn url(&self) -> String {
        format!("http://{}/v1/paint", self.address)
    }
}

impl Drop for Acme {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Answers the one request of a connection.
async fn answer(mut stream: TcpStream, looks: &mut u32) -> io::Result<()> {
    let mut bytes = Vec::new();
    let whole = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lengths = head
            .lines()
            .filter_map(|line| line.strip_prefix("content-length: "));
        let length: usize = lengths.next().map_or(0, |length| length.parse().unwrap());
        (body.len() >= length).then(|| head.to_owned())
    };
    let head = loop {
        match whole(&bytes) {
            Some(head) => break head,
            None => assert!(stream.read_buf(&mut bytes).await? > 0, "a request is whole"),
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let is_known = head
        .lines()
        .any(|line| line == format!("authorization: Bearer {KEY}"));
    let (status, body) = match head.split(' ').nth(1).unwrap() {
        _ if !is_known => (401, json!({"error": "who are you?"})),
        "/v1/paint" if text.contains("dog") => (400, json!({"error": {"code": "no_dogs"}})),
        "/v1/paint" => (200, json!({"id": "task-1"})),
        "/v1/tasks/task-1" if *looks == 0 => {
            *looks += 1;
            (200, json!({"status": "working"}))
        }
        "/v1/tasks/task-1" => (
            200,
            json!({"status": "done", "images": [{"url": "https://cdn.test/1.png"}]}),
        ),
        _ => (404, json!({"error": "no such task"})),
    };
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await
}

/// `router-server catalog ...`, with an installation of its own.
fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary_of("router-server"));
    command
        .arg("catalog")
        .args(words)
        .current_dir(folder)
        .env("EASEL_DATA_DIR", folder.join("data"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn output(folder: &Path, words: &[&str]) -> (i32, String, String) {
    told_of(command(folder, words).output().await.unwrap())
}

/// The same, with lines on standard input.
async fn piped(folder: &Path, words: &[&str], lines: &str) -> (i32, String, String) {
    let mut command = command(folder, words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // What a refusal does not read any more is no concern of this test.
    let _ = stdin.write_all(lines.as_bytes()).await;
    drop(stdin);
    told_of(child.wait_with_output().await.unwrap())
}

fn told_of(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

const POLLED: &str = "poll task=/id path=/v1/tasks/{task} state=/status ok=done failed=failed";

#[tokio::test]
async fn five_answers_at_a_terminal_make_a_partner_that_can_be_tried() {
    let acme = Acme::start().await;
    let host = acme.address.to_string();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plain = ["--plain-partners", host.as_str()];
    let mut terminal =
        Terminal::start(command(folder, &["new", "mine", plain[0], plain[1]])).unwrap();
    for (question, answers) in [
        ("1 of 5", ["Acme", "acme/painter"]),
        ("2 of 5", ["http://elsewhere.test/v1/paint", &acme.url()]),
        ("3 of 5", ["bearer sk-1234", "bearer ACME_KEY"]),
        ("4 of 5", ["poll task=/id", POLLED]),
        ("5 of 5", ["cheap", "4 /images/*/url"]),
    ] {
        terminal.wait_for(question).await;
        for (answer, next) in answers.iter().zip(["Write for instance: ", ""]) {
            terminal.write(&format!("{answer}\n")).await.unwrap();
            terminal.wait_for(next).await;
        }
        // Each question has a refusal of its own.
        terminal.shown = terminal.shown.replace("Write for instance: ", "");
    }
    let status = terminal.end().await.unwrap();
    assert!(status.success(), "{}", terminal.shown);
    let shown = terminal.shown;
    for said in [
        "a model id is `provider/model`",
        "elsewhere.test is plain http",
        "never the key itself",
        "path= is missing",
        "the price comes first",
        "catalog try acme/painter body.json --catalog mine --plain-partners 127.0.0.1:",
    ] {
        assert!(shown.contains(said), "{said} is not in {shown}");
    }

    let (code, said, error) = output(folder, &["check", "mine", plain[0], plain[1]]).await;
    assert_eq!(code, 0, "{error}");
    for told in [
        "The files are right",
        "acme/painter: 14 answers that follow from the rules, states and statuses of its files were read",
        "No answer means `content_policy_violation`",
        "There is no `cancel`",
        "There is no schema",
    ] {
        assert!(said.contains(told), "{told} is not in {said}");
    }

    std::fs::write(folder.join("body.json"), r#"{"prompt":"a cat"}"#).unwrap();
    let words = [
        "try",
        "acme/painter",
        "body.json",
        "--catalog",
        "mine",
        plain[0],
        plain[1],
    ];
    let (code, _, error) = output(folder, &words).await;
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("ACME_KEY"), "{error}");
    let tried = command(folder, &words).env("ACME_KEY", KEY).output().await;
    let (code, said, error) = told_of(tried.unwrap());
    assert_eq!(code, 0, "{said}{error}");
    assert!(said.contains("https://cdn.test/1.png"), "{said}");
    assert!(said.contains("billed $0.04"), "{said}");
    assert!(!said.contains(KEY), "{said}");

    // What the partner refuses is told as a caller would get it, and what it is called to be.
    for (key, body, told) in [
        (
            "another",
            "{}",
            "Decided: 503 service_unavailable: the partner does not accept the key",
        ),
        (
            KEY,
            r#"{"prompt":"a dog"}"#,
            "Decided: 422 invalid_input: the partner finds a mistake",
        ),
    ] {
        std::fs::write(folder.join("body.json"), body).unwrap();
        let tried = command(folder, &words).env("ACME_KEY", key).output().await;
        let (code, said, _) = told_of(tried.unwrap());
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(told), "{said}");
        assert!(said.contains("billed $0.00"), "{said}");
    }
}

#[tokio::test]
async fn without_a_terminal_flags_and_lines_answer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = [
        "new",
        "mine",
        "--model",
        "acme/painter",
        "--key",
        "none",
        "--answer",
        "sync",
    ];
    let lines = "https://api.acme.example/v1/paint\n0.5\n";
    let (code, said, error) = piped(folder, &flags, lines).await;
    assert_eq!(code, 0, "{error}");
    assert!(said.contains("mine/acme/painter.toml"), "{said}");
    assert_eq!(error, "");
    let file = folder.join("mine/acme/partner.toml");
    let partner = std::fs::read_to_string(&file).unwrap();
    assert!(
        partner.contains("base_url = \"https://api.acme.example\""),
        "{partner}"
    );
    let (code, _, error) = output(folder, &["check", "mine"]).await;
    assert_eq!(code, 0, "{error}");

    // Nothing that is there is written over, and what is refused leaves nothing behind.
    std::fs::write(&file, partner.clone() + "# changed\n").unwrap();
    for (words, lines, reason) in [
        (&flags[..], lines, "mine/acme exists already"),
        (
            &["new", "mine", "--model", "bfl/painter"],
            "",
            "bfl is a partner of the catalog that is built in",
        ),
        (
            &["new", "mine", "--model", "other/painter"],
            "not an address\n",
            "--address: an address is whole",
        ),
        (
            &["new", "mine", "--model", "other/painter"],
            "",
            "--address has no answer",
        ),
    ] {
        let (code, said, error) = piped(folder, words, lines).await;
        assert_eq!((code, said.as_str()), (2, ""), "{error}");
        assert!(
            error.contains(reason) && error.contains("nothing is written"),
            "{error}"
        );
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        partner + "# changed\n"
    );
    let entries = std::fs::read_dir(folder.join("mine")).unwrap();
    assert_eq!(entries.count(), 1);
}

#[tokio::test]
async fn a_list_of_models_is_compared_with_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let list = root().join("tests/fixtures/public-models.txt");
    let (code, said, error) = output(folder, &["diff", list.to_str().unwrap()]).await;
    assert_eq!((code, error.as_str()), (1, ""), "{said}");
    // What the catalog lacks of the public list is told there, with reasons.
    let missing = std::fs::read_to_string(root().join("tests/fixtures/public-models-missing.txt"));
    let missing = missing.unwrap();
    let missing = missing.lines().filter(|line| !line.starts_with('#'));
    let mut missing: Vec<&str> = missing
        .filter_map(|line| line.split_once(": "))
        .map(|(id, _)| id)
        .collect();
    missing.sort_unstable();
    let lines = said.lines().filter_map(|line| line.strip_prefix("- "));
    let found: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(found, missing);
    assert!(
        said.contains("\n+ easel/") || said.contains("\n+ fal-sync/"),
        "{said}"
    );

    std::fs::write(
        folder.join("list.txt"),
        "bfl: i flux-2-pro flux-2-max\nbfl/flux-pro-1.1\n",
    )
    .unwrap();
    let (code, said, _) = output(folder, &["diff", "list.txt"]).await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("3 of 3 listed models are in the catalog; 0 are missing"),
        "{said}"
    );

    std::fs::write(folder.join("list.txt"), "bfl: flux-2-pro\nnot a model\n").unwrap();
    let (code, said, error) = output(folder, &["diff", "list.txt"]).await;
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(error.contains("list.txt:2: "), "{error}");
}
