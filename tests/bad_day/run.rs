//! What a killed `run` leaves: a folder that nobody else may read, gone with the next `run`.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use it::process::binary;
use serde_json::json;
use tokio::process::Command;

/// Longer than a folder that a command has not locked yet lies there.
const LONG: Duration = Duration::from_secs(120);

/// `run` with its temporary files in a folder of the test's.
fn run(folder: &Path, side: u32) -> Command {
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": side, "height": side, "batch_size": 1, "color": 0}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
    });
    let path = folder.join("graph.json");
    fs::write(&path, graph.to_string()).unwrap();
    let mut command = Command::new(binary());
    command
        .arg("run")
        .arg(path)
        .arg("--out")
        .arg(folder.join("out"));
    command.env("TMPDIR", folder.join("tmp"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.kill_on_drop(true);
    command
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("tmp")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn set_age(path: &Path, age: Duration) {
    let then = SystemTime::now() - age;
    File::open(path).unwrap().set_modified(then).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_folder_of_a_killed_run_is_private_and_goes_with_the_next() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    fs::create_dir(folder.join("tmp")).unwrap();
    let mut killed = run(folder, 4096).spawn().unwrap();
    let is_begun = || {
        folders(folder)
            .iter()
            .any(|left| left.join("installation").exists())
    };
    while !is_begun() {
        assert_eq!(
            killed.try_wait().unwrap(),
            None,
            "it ends before it is killed"
        );
        tokio::task::yield_now().await;
    }
    killed.kill().await.unwrap();
    let left = folders(folder).remove(0);
    assert_eq!(mode(&left), 0o700);
    for name in ["main.db", "main.db-wal", "installation", "lock"] {
        assert_eq!(mode(&left.join(name)), 0o600, "{name}");
    }

    // A folder that is held stays, however old, and so does one that is young.
    let held = folder.join("tmp/easel-run-held");
    let young = folder.join("tmp/easel-run-young");
    for kept in [&held, &young] {
        fs::create_dir(kept).unwrap();
    }
    let lock = File::create(held.join("lock")).unwrap();
    lock.try_lock().unwrap();
    for old in [&left, &held] {
        set_age(old, LONG);
    }
    assert!(run(folder, 16).status().await.unwrap().success());
    let mut there = folders(folder);
    there.sort();
    assert_eq!(there, [held, young]);
}
