//! Data directories of earlier formats, committed in `tests/fixtures`: each opens with its jobs, files, keys, ledger, usage and
//! results. docs/TESTING.md tells how one is made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Blocking;

use it::process::binary;
use it::{Acknowledged, DataDirectory, Server, root, skipped};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::process::Command;

use super::surroundings::faketime;

/// What a fixture has besides the files of the installation.
const NOTES: &str = "fixture.json";

/// Credits that the account begins with.
const CENTS: i64 = 10_000;

/// The committed archives.
fn archives() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("tests/fixtures")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut archives: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "gz"))
        .collect();
    archives.sort();
    archives
}

/// The newest change of every part of the database in this source tree.
fn formats() -> Value {
    let folders = fs::read_dir(root().join("crates/store-local/migrations")).unwrap();
    let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
    let formats = folders.map(|folder| {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        (name, json!(count(&folder)))
    });
    Value::Object(formats.collect())
}

fn tar(arguments: &[&str], archive: &Path, folder: &Path) {
    let mut command = Blocking::new("tar");
    command.args(arguments).arg(archive).arg("-C").arg(folder);
    if arguments[0].starts_with("-c") {
        command.arg(".");
    }
    assert!(command.status().unwrap().success());
}

/// Has a program make a data directory, and packs it as a killed server left it.
async fn pack(program: &Path, formats: &Value, archive: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut made = DataDirectory::make(program, &path).await.unwrap();
    for name in ["first", "second"] {
        let server = made.start([] as [&str; 0]).await.unwrap();
        made.use_it(&server, name).await.unwrap();
        made.kill(server).await.unwrap();
    }
    let notes = json!({
        "made_at": Timestamp::now().to_string(),
        "formats": formats,
        "acknowledged": made.acknowledged.to_json(),
    });
    fs::write(path.join(NOTES), format!("{notes:#}\n")).unwrap();
    for name in ["ballast", "admin.sock"] {
        fs::remove_file(path.join(name)).unwrap();
    }
    let tmp = path.join("tmp");
    fs::remove_dir_all(&tmp).unwrap();
    fs::create_dir(&tmp).unwrap();
    tar(&["-czf"], archive, &path);
}

/// Unpacks an archive; the directory and its notes.
fn unpack(archive: &Path, path: &Path) -> Value {
    fs::create_dir(path).unwrap();
    tar(&["-xzf"], archive, path);
    let notes = fs::read(path.join(NOTES)).unwrap();
    fs::remove_file(path.join(NOTES)).unwrap();
    serde_json::from_slice(&notes).unwrap()
}

/// A server for which it is a minute after the directory was made: keys and files of its clients expire after a day.
async fn start(it: &DataDirectory, library: &Path, made_at: Timestamp) -> Server {
    let now = made_at + SignedDuration::from_mins(1);
    let mut command = Command::new(binary());
    command
        .env("LD_PRELOAD", library)
        .env("TZ", "UTC")
        .env("FAKETIME", now.strftime("@%Y-%m-%d %H:%M:%S").to_string())
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    it.start_as(command, [] as [&str; 0]).await.unwrap()
}

async fn assert_opens(archive: &Path, library: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let notes = unpack(archive, &path);
    let acknowledged = Acknowledged::of_json(&notes["acknowledged"]).unwrap();
    let calls = acknowledged.calls as usize;
    let it = DataDirectory::at(&path, acknowledged).await.unwrap();
    let made_at: Timestamp = notes["made_at"].as_str().unwrap().parse().unwrap();
    // The second time it has the present format, and was killed.
    for _ in 0..2 {
        let server = start(&it, library, made_at).await;
        for fact in &it.acknowledged.facts {
            fact.ask(&server)
                .await
                .unwrap_or_else(|told| panic!("{}: {told}", archive.display()));
        }
        it.kill(server).await.unwrap();
    }
    assert_eq!(it.submissions(), 0, "no partner is asked again");
    it.end(start(&it, library, made_at).await).await.unwrap();

    let exported = it
        .operate(&["usage", "export", "--format", "json"])
        .await
        .unwrap();
    let rows = exported
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let begun: Vec<Value> = rows.filter(|row| row["began"] == true).collect();
    assert_eq!(begun.len(), calls, "{}", exported.stdout);
    assert!(
        begun.iter().all(|row| row["generation_status"] == "ok"),
        "{}",
        exported.stdout
    );
    let charged: i64 = begun
        .iter()
        .map(|row| row["charge_cents"].as_i64().unwrap())
        .sum();
    assert!(charged > 0, "{}", exported.stdout);
    let shown = it
        .operate(&["account", "show", "acme", "--json"])
        .await
        .unwrap();
    let account: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(account["balance_cents"], CENTS - charged, "{account:#}");
    let keys = it
        .operate(&["key", "list", "acme", "--json"])
        .await
        .unwrap();
    let keys: Value = serde_json::from_str(&keys.stdout).unwrap();
    assert_eq!(
        (keys.as_array().unwrap().len(), &keys[0]["state"]),
        (1, &json!("active"))
    );
}

#[tokio::test]
async fn a_directory_of_every_earlier_format_opens_with_everything() {
    let Some(library) = faketime() else {
        skipped(
            "a_directory_of_every_earlier_format_opens",
            "libfaketime is not installed",
        );
        return;
    };
    let archives = archives();
    assert!(archives.len() >= 2, "{archives:?}");
    for archive in archives {
        assert_opens(&archive, &library).await;
    }
}

#[tokio::test]
async fn a_fixture_is_made_and_opens() {
    let folder = tempfile::tempdir().unwrap();
    let archive = match std::env::var("EASEL_FIXTURE") {
        Ok(name) => root().join(format!("tests/fixtures/{name}.tar.gz")),
        Err(_) => folder.path().join("today.tar.gz"),
    };
    // What formats another program writes, this source tree does not know.
    match std::env::var_os("EASEL_FIXTURE_PROGRAM") {
        Some(program) => pack(Path::new(&program), &Value::Null, &archive).await,
        None => pack(&binary(), &formats(), &archive).await,
    }
    match faketime() {
        Some(library) => assert_opens(&archive, &library).await,
        None => skipped(
            "a_fixture_is_made_and_opens",
            "libfaketime is not installed",
        ),
    }
}

#[test]
fn the_format_of_this_source_tree_has_a_fixture() {
    let folder = tempfile::tempdir().unwrap();
    let of = |(number, archive): (usize, &PathBuf)| {
        let notes = unpack(archive, &folder.path().join(number.to_string()));
        notes["formats"].clone()
    };
    let archives = archives();
    let known: Vec<Value> = archives.iter().enumerate().map(of).collect();
    let present = formats();
    assert!(
        known.contains(&present),
        "no fixture has {present}: make one as docs/TESTING.md tells, and keep those that are there"
    );
}
