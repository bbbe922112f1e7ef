//! The README's commands, as they stand there: each block is run against real programs.
//!
//! Only what a machine settles is put in: the address and the token that the server printed, the key of a partner (a
//! simulated one), the data directory, and `cargo run --release --bin NAME` starts the program that the tests built.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use it::partners::{Partner, Partners};
use it::process::binary_of;
use it::{Request, Server, root, skipped};
use serde_json::{Deserializer, Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::home::first_visit;
use crate::router::write_catalog;

/// Where the README says that the server is.
const ADDRESS: &str = "127.0.0.1:8189";

/// A word of each block, in order: a new block needs a test that runs it.
const BLOCKS: [(&str, &str); 15] = [
    ("sh", "run examples/postcard.json"),
    ("sh", "nodes list"),
    ("sh", "# serves on"),
    ("sh", "easel -- run examples/thumbnail.json"),
    ("text", "$ easel run"),
    ("sh", "file=@examples/photo.png"),
    ("python", "examples/thumbnail.json"),
    ("sh", "--web-root"),
    (
        "sh",
        "BFL_API_KEY=... cargo run --release --bin all-in-one\n",
    ),
    ("sh", "Idempotency-Key: lighthouse-1"),
    ("python", "client.models.run(\"bfl/flux-2-pro\""),
    ("sh", "body.json"),
    ("python", "easel/postcard"),
    ("sh", "run examples/edit.json"),
    ("sh", "EASEL_TOKEN="),
];

/// The blocks of the README: language and text.
fn blocks() -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let fenced = readme.split("\n```").collect::<Vec<_>>();
    // Text and blocks take turns, and the last is text.
    assert_eq!(fenced.len() % 2, 1, "every block ends");
    let blocks = fenced.chunks_exact(2).map(|pair| {
        let (language, text) = pair[1].split_once('\n').unwrap();
        (language.to_owned(), format!("{text}\n"))
    });
    blocks.collect()
}

/// The only block with this word.
fn block(word: &str) -> String {
    let blocks = blocks();
    let mut found = blocks.into_iter().filter(|(_, text)| text.contains(word));
    let (_, text) = found
        .next()
        .unwrap_or_else(|| panic!("no block has {word}"));
    assert!(found.next().is_none(), "two blocks have {word}");
    text
}

#[test]
fn every_block_is_one_that_a_test_runs() {
    let blocks = blocks();
    assert_eq!(blocks.len(), BLOCKS.len(), "{blocks:#?}");
    for ((language, text), (known, word)) in blocks.iter().zip(BLOCKS) {
        assert_eq!(language, known, "{text}");
        assert!(text.contains(word), "{word} in {text}");
    }
}

/// A folder to type commands in: the examples are there, and the programs.
struct Shell {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// Stands for `cargo`: starts the program that the tests built.
const CARGO: &str = r#"#!/bin/sh
[ "$1 $2 $3" = "run --release --bin" ] || { echo "not known: cargo $*" >&2; exit 64; }
program=$4
shift 4
[ "$1" = -- ] && shift
exec "$program" "$@"
"#;

impl Shell {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(root().join("examples"), folder.path().join("examples")).unwrap();
        let programs = folder.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        for program in ["all-in-one", "easel"] {
            symlink(binary_of(program), programs.join(program)).unwrap();
        }
        let cargo = programs.join("cargo");
        std::fs::write(&cargo, CARGO).unwrap();
        std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            folder,
            variables: vec![("EASEL_MIN_FREE".to_owned(), "0B".to_owned())],
        }
    }

    /// The same, before simulated partners.
    fn before(partners: &Partners) -> Self {
        let mut shell = Self::new();
        let relocations = partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let catalog = shell.path("catalog");
        write_catalog(&catalog);
        let catalog = catalog.to_str().unwrap().to_owned();
        shell.variables.extend([
            ("EASEL_CATALOG".to_owned(), catalog),
            ("EASEL_RELOCATE_PARTNERS".to_owned(), relocations.join(",")),
        ]);
        shell
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, text: &str) -> Command {
        let mut command = Command::new("bash");
        let path = std::env::var("PATH").unwrap();
        let programs = self.path("bin");
        command
            .args(["-euo", "pipefail", "-c", text])
            .current_dir(self.folder.path())
            .env_remove("EASEL_TOKEN")
            .env("PATH", format!("{}:{path}", programs.display()))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs commands to their end; answers standard output.
    async fn run(&self, text: &str) -> String {
        let output = self.command(text).output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the server of a block, on any free port instead of the usual one.
    async fn serve(&self, text: &str) -> Server {
        // The shell becomes the program, so that ending it ends the server.
        let text = text
            .replace("cargo run", "exec cargo run")
            .replace("\nall-in-one", "\nexec all-in-one")
            .replace("0.0.0.0:8189", "0.0.0.0:0");
        let mut command = self.command(&text);
        let data = self.path("data");
        command
            .env("EASEL_LISTEN", "127.0.0.1:0")
            .env("EASEL_DATA_DIR", &data);
        let started = Server::start_as(command, &data, [] as [&str; 0]).await;
        started.unwrap_or_else(|error| panic!("{text}\n{error}"))
    }

    /// Runs a Python script with the official client; whether there is one.
    async fn python(&self, test: &str, text: &str) -> bool {
        let variable = "EASEL_SDK_0_5_0";
        let Some(python) = given(test, variable, "a Python with the client") else {
            return false;
        };
        let ran = Command::new(python)
            .args(["-c", text])
            .current_dir(self.folder.path())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{text}\n{said}");
        true
    }
}

/// What a variable names, unless the test is skipped without it.
fn given(test: &str, variable: &str, what: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    if given.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "{variable} must be set where nothing may be skipped"
        );
        skipped(
            test,
            &format!("{variable} does not name {what}; `.ci/run` installs it"),
        );
    }
    given
}

/// Whether a program that the README uses is there.
fn has(test: &str, program: &str) -> bool {
    let is_there = std::process::Command::new(program)
        .arg(if program == "openssl" {
            "version"
        } else {
            "--version"
        })
        .output()
        .is_ok();
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "{program} is missing");
        skipped(
            test,
            &format!("there is no {program}, which the README uses"),
        );
    }
    is_there
}

/// Documents that stand one behind the other.
fn documents(text: &str) -> Vec<Value> {
    let read = Deserializer::from_str(text).into_iter();
    read.map(|document| document.unwrap_or_else(|error| panic!("{error}: {text}")))
        .collect()
}

/// The path of an address of the server.
fn path_of<'a>(url: &'a Value, server: &Server) -> &'a str {
    let url = url.as_str().unwrap();
    let base = format!("http://{}", server.address);
    url.strip_prefix(&base).unwrap_or(url)
}

fn is_png(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG"))
}

#[tokio::test]
async fn see_it() {
    let shell = Shell::new();
    let text = block("run examples/postcard.json");
    let test = "cargo test --workspace                                                         # passes the tests\n";
    assert!(text.contains(test), "{text}");
    let run = text.replace(test, "");
    shell.run(&run).await;
    assert!(is_png(&shell.path("out/postcard_00001_.png")));
    shell.run(&run).await;
    assert!(
        is_png(&shell.path("out/postcard_00002_.png")),
        "as the README says"
    );
    let listed = shell.run(&block("nodes list")).await;
    assert!(listed.contains("LoadImage"), "{listed}");
}

#[tokio::test]
async fn talk_to_it() {
    if !has("talk_to_it", "curl") {
        return;
    }
    let shell = Shell::new();
    let server = shell.serve(&block("# serves on")).await;
    let address = server.address.to_string();
    let root = server.send(&Request::get("/")).await.unwrap();
    assert_eq!(
        root.status, 200,
        "the README says that the root is something"
    );

    let text = block("file=@examples/photo.png").replace(ADDRESS, &address);
    let printed = shell.run(&text).await;
    let [asset, job] = &documents(&printed)[..] else {
        panic!("an asset and a job: {printed}");
    };
    assert_eq!(asset["file_path"], "photo.png", "{asset:#}");
    let events = path_of(&job["urls"]["events"], &server);
    let events = server.send(&Request::get(events)).await.unwrap();
    assert!(events.text().contains("succeeded"), "{}", events.text());
    let over = server
        .send(&Request::get(path_of(&job["urls"]["self"], &server)))
        .await;
    let over = over.unwrap().json();
    let output = path_of(&over["outputs"][0]["url"], &server);
    let picture = server.send(&Request::get(output)).await.unwrap();
    assert!(picture.body.starts_with(b"\x89PNG"), "{over:#}");

    let script = block("from_file(\"examples/thumbnail.json\")").replace(ADDRESS, &address);
    if shell.python("talk_to_it", &script).await {
        assert!(is_png(&shell.path("thumbnail.png")));
    }
}

#[tokio::test]
async fn the_command_line() {
    let mut shell = Shell::new();
    let server = shell.serve(&block("# serves on")).await;
    shell.variables.extend([
        (
            "EASEL_SERVER".to_owned(),
            format!("http://{}", server.address),
        ),
        (
            "HOME".to_owned(),
            shell.path("home").to_str().unwrap().to_owned(),
        ),
        ("XDG_CONFIG_HOME".to_owned(), String::new()),
    ]);
    // The recording: everything that it shows is said, ids apart.
    let recording = block("$ easel run");
    let (typed, shown) = recording.split_once('\n').unwrap();
    let said = shell.run(&format!("{} 2>&1", &typed[2..])).await;
    for line in shown.lines() {
        let plain = line.split(" 019").next().unwrap();
        assert!(said.contains(plain), "{line} in {said}");
    }
    assert!(is_png(&shell.path("out/thumbnail_00001_.png")));
    let printed = shell
        .run(&block("easel -- run examples/thumbnail.json"))
        .await;
    assert!(
        printed.starts_with("out/thumbnail_00001_.png\n"),
        "{printed}"
    );
    assert!(printed.contains("workflows"), "{printed}");
}

#[tokio::test]
async fn the_web_page() {
    let text = block("--web-root");
    let (install, serve) = text.split_once('\n').unwrap();
    assert!(
        install.contains("page/bin/pip install comfyui-frontend-package"),
        "{install}"
    );
    let Some(web_root) = given("the_web_page", "EASEL_WEB_ROOT", "the page") else {
        return;
    };
    let shell = Shell::new();
    // <page>/lib/python3.x/site-packages/comfyui_frontend_package/static
    let page = web_root.ancestors().nth(5).unwrap();
    symlink(page, shell.path("page")).unwrap();
    let server = shell.serve(&format!("\n{serve}")).await;
    let answer = first_visit(&server).await;
    assert!(answer.text().contains("ComfyUI"), "{}", answer.text());
}

#[tokio::test]
async fn call_partner_models() {
    if !has("call_partner_models", "curl") {
        return;
    }
    let partners = Partners::start().await.unwrap();
    let photo = STANDARD.encode(std::fs::read(root().join("examples/photo.png")).unwrap());
    let sample = format!("data:image/png;base64,{photo}");
    let ready = json!({"id": "t", "status": "Ready", "result": {"sample": sample}}).to_string();
    partners.answer_with(Partner::Bfl, "application/json", ready);
    let shell = Shell::before(&partners);
    let key = |text: String| {
        text.replace(
            "BFL_API_KEY=...",
            &format!("BFL_API_KEY={}", Partner::Bfl.secret()),
        )
    };
    let server = shell
        .serve(&key(block(
            "BFL_API_KEY=... cargo run --release --bin all-in-one\n",
        )))
        .await;
    let token = server
        .welcome
        .split_whitespace()
        .find(|word| word.starts_with("dev-"));
    let token = token.unwrap_or_else(|| panic!("a token as the README says in {}", server.welcome));
    let filled = |text: String| {
        let text = text.replace(ADDRESS, &server.address.to_string());
        text.replace("dev-...", token)
    };

    let calls = filled(block("Idempotency-Key: lighthouse-1"));
    let printed = shell.run(&calls).await;
    let [models, result] = &documents(&printed)[..] else {
        panic!("models and a result: {printed}");
    };
    let ids = models["data"].as_array().unwrap().iter();
    assert!(
        ids.clone().any(|model| model["id"] == "bfl/flux-2-pro"),
        "{models:#}"
    );
    assert!(result.get("error").is_none(), "{result:#}");

    let named = calls.lines().next().unwrap();
    let resized = shell.run(&format!("{named}\n{}", block("body.json"))).await;
    let resized: Value = serde_json::from_str(&resized).unwrap();
    let link = path_of(&resized["outputs"][0]["url"], &server);
    let picture = server.send(&Request::get(link)).await.unwrap();
    assert!(picture.body.starts_with(b"\x89PNG"), "{resized:#}");

    // The second script goes on where the first ends.
    let scripts = [
        block("client.models.run(\"bfl/flux-2-pro\""),
        block("easel/postcard"),
    ]
    .concat();
    shell.python("call_partner_models", &filled(scripts)).await;

    let run = key(block("run examples/edit.json"));
    let printed = shell.command(&run).output().await.unwrap();
    let said = String::from_utf8_lossy(&printed.stderr);
    assert!(printed.status.success(), "{said}");
    assert!(is_png(&shell.path("out/edit_00001_.png")));
}

#[tokio::test]
async fn set_it_up() {
    if !has("set_it_up", "openssl") {
        return;
    }
    let shell = Shell::new();
    let data = shell.path("installation");
    let text = block("EASEL_TOKEN=").replace("/var/lib/easel", data.to_str().unwrap());
    let server = shell.serve(&text).await;
    let refused = server.send(&Request::get("/api/v2/jobs")).await.unwrap();
    assert_eq!(refused.status, 401, "{}", refused.text());
    assert!(
        data.join("main.db").exists(),
        "the flag names the directory"
    );
}
