//! `easel`, the command line of users, as a process of its own before real servers and recorded answers.

mod jobs;
mod login;
mod models;
mod operate;
mod recorded;
mod reference;
mod refusals;
mod terminal;
mod workers;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use it::process::binary_of;
use it::schema::misfits;
use it::{Server, root};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// A user: a folder to work in, a home, and a server.
struct User {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// What came of a command.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl User {
    /// A user who has no server yet.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(
            root().join("examples/photo.png"),
            folder.path().join("photo.png"),
        )
        .unwrap();
        Self {
            folder,
            variables: Vec::new(),
        }
    }

    /// A user of this server.
    fn of(server: &Server) -> Self {
        Self::at(&format!("http://{}", server.address))
    }

    fn at(address: &str) -> Self {
        Self::new().with("EASEL_SERVER", address)
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, value: &Value) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    }

    fn command(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(binary_of("easel"));
        // Nothing of the terminal or the user who runs the tests.
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments)).await
    }

    /// Runs a command that must succeed; its standard output.
    #[track_caller]
    fn good(&self, arguments: &[&str]) -> impl Future<Output = String> {
        let command = self.command(arguments);
        let shown = format!("{arguments:?}");
        async move {
            let ran = Ran::of(command).await;
            assert_eq!(ran.code, 0, "{shown}: {}{}", ran.out, ran.err);
            ran.out
        }
    }

    /// Runs a command with `--json` and checks what it prints against the schema of this name.
    async fn json(&self, output: &str, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let ran = self.run(&arguments).await;
        assert_eq!(ran.code, 0, "{arguments:?}: {}{}", ran.out, ran.err);
        let value: Value = serde_json::from_str(&ran.out).unwrap();
        fits(output, &value);
        value
    }

    /// Runs a command with `--json` that must fail; its error, checked against the schema.
    async fn error(&self, arguments: &[&str]) -> (i32, Value) {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let ran = self.run(&arguments).await;
        let value: Value = serde_json::from_str(&ran.err)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ran.err));
        fits("error", &value);
        assert_eq!(value["error"]["exit_code"], ran.code, "{value:#}");
        (ran.code, value["error"].clone())
    }
}

impl Ran {
    async fn of(mut command: Command) -> Self {
        let output = command.output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code().expect("no signal ends it"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// Checks a value against the schema of an output.
#[track_caller]
fn fits(output: &str, value: &Value) {
    let text = std::fs::read_to_string(root().join("docs/schemas/easel.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let schema = &document["outputs"][output];
    assert!(schema.is_object(), "there is no schema of {output}");
    let found = misfits(&document, schema, value, "");
    assert!(found.is_empty(), "{output}: {found:#?}\n{value:#}");
}

/// Compares a text with a golden file, whose `{...}` stand for what differs from run to run. `EASEL_GOLDENS=write` writes it.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = root().join("tests/cli/golden").join(name);
    if std::env::var_os("EASEL_GOLDENS").is_some_and(|value| value == "write") {
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(
        text, known,
        "{name} differs; EASEL_GOLDENS=write writes it anew"
    );
}

/// A text with ids, addresses and folders masked.
fn masked(text: &str, user: &User, server: &Server) -> String {
    let text = text
        .replace(&server.address.to_string(), "{address}")
        .replace(user.folder.path().to_str().unwrap(), "{folder}");
    let is_id = |word: &str| {
        let parts: Vec<usize> = word.split('-').map(str::len).collect();
        parts == [8, 4, 4, 4, 12]
            && word
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let mut masked = String::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() || c == '-' {
            word.push(c);
            continue;
        }
        masked.push_str(if is_id(&word) { "{id}" } else { &word });
        word.clear();
        masked.push(c);
    }
    masked.pop();
    masked
}

/// What is said beside progress, which differs from run to run.
fn without_progress(text: &str) -> String {
    let is_progress = |line: &&str| {
        ["queued", "running"]
            .iter()
            .any(|status| line.starts_with(status))
            || line.contains("nodes done")
    };
    let kept = text.lines().filter(|line| !is_progress(line));
    kept.map(|line| format!("{line}\n")).collect()
}

/// A server over a new data directory; the directory goes with the second value.
async fn server() -> (Server, TempDir) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    (server, data)
}

/// The token that a server printed at its start.
fn token(server: &Server) -> String {
    let word = server
        .welcome
        .split_whitespace()
        .find(|word| word.starts_with("dev-"));
    word.unwrap().to_owned()
}

/// A graph that makes one small picture of a colour.
fn one_picture(prefix: &str) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 6, "batch_size": 1, "color": 255}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": prefix}},
    })
}

/// A graph that inverts a file.
fn inverted(file: &str) -> Value {
    json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": file}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "inverted"}},
    })
}

fn is_png(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG"))
}
