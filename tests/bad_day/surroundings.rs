//! What is around a data directory: modes, disks, clocks, other servers. Nothing is deleted for any of it, and what clients were
//! told is there again as soon as it is over.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use it::process::binary;
use it::{DataDirectory, Disk, Form, Holder, Log, Request, Server, skipped};
use tokio::process::Command;

use super::files::{Killed, contents, copy, differences, is_of_clients};

/// Asserts that a server still knows everything that clients were told.
async fn assert_knows_all(it: &DataDirectory, server: &Server) {
    for fact in &it.acknowledged.facts {
        fact.ask(server).await.unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The program with its log in a file, which does not exist yet.
fn logging(log: &Path) -> Command {
    let mut command = Command::new(binary());
    command.stderr(Stdio::from(File::create_new(log).unwrap()));
    command
}

#[tokio::test]
async fn a_directory_that_others_may_read_is_closed_to_them_and_serves() {
    let killed = Killed::new().await;
    let it = killed.copy("modes").await;
    let path = it.path();
    for file in contents(path).keys() {
        let open = Permissions::from_mode(0o644);
        fs::set_permissions(path.join(file), open).unwrap();
    }
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    let log = path.with_extension("log");
    let server = it.start_as(logging(&log), [] as [&str; 0]).await.unwrap();
    Log::of(&log)
        .next("other users could read files of the data directory")
        .await;
    assert_eq!(mode(path), 0o700);
    for name in [
        "main.db",
        "main.db-wal",
        "installation",
        "calls-0.log",
        "lock",
    ] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
    assert_knows_all(&it, &server).await;
    it.end(server).await.unwrap();
}

#[tokio::test]
async fn on_a_disk_in_memory_and_on_a_full_one_everything_is_there() {
    let Some(disk) = Disk::new(64).await.unwrap() else {
        skipped(
            "on_a_disk_in_memory_and_on_a_full_one",
            "no file system can be mounted here",
        );
        return;
    };
    let killed = Killed::new().await;
    copy(killed.now.path(), &disk.path("data"));
    let path = disk.path("data");
    let before = contents(&path);
    let told = killed.now.acknowledged.clone();
    let it = DataDirectory::at(&disk.inside("data"), told).await.unwrap();
    for room in [32 << 20, 0, 32 << 20] {
        disk.leave(room).await.unwrap();
        let server = it.start_as(disk.command(), [] as [&str; 0]).await.unwrap();
        for fact in &it.acknowledged.facts {
            // Who sends a key may mean a new call, for which there is no room: 503, and the key stays as it is.
            let is_answer_again = matches!(fact.holder, Holder::SmallResults | Holder::LargeResult);
            match fact.ask(&server).await {
                Err(told) if room == 0 && is_answer_again => {
                    assert!(told.contains(": 503 "), "{told}")
                }
                asked => asked.unwrap(),
            }
        }
        let form = Form::new()
            .field("content_type", "image/png")
            .field("file_path", "new.png")
            .file("file", "new.png", &[7; 1 << 20]);
        let upload = Request::new("POST", "/api/v2/assets")
            .header("Content-Type", &Form::content_type())
            .body(form.body());
        let answer = server.send(&upload).await.unwrap();
        // 200 where the same was uploaded before.
        assert_eq!(answer.status < 300, room > 0, "{}", answer.text());
        assert!(room > 0 || answer.status == 500, "{}", answer.status);
        it.end(server).await.unwrap();
        assert_eq!(differences(&before, &contents(&path), is_of_clients), None);
    }
}

/// The library that sets the clock of a program, where Debian's package puts it.
pub(super) fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?;
    folders
        .filter_map(|folder| Some(folder.ok()?.path().join("faketime/libfaketime.so.1")))
        .find(|library| library.exists())
}

#[tokio::test]
async fn a_start_with_the_clock_a_year_off_deletes_nothing_and_the_next_has_everything() {
    let Some(library) = faketime() else {
        skipped(
            "a_start_with_the_clock_a_year_off",
            "libfaketime is not installed",
        );
        return;
    };
    let killed = Killed::new().await;
    for offset in ["+365d", "-365d"] {
        let it = killed.copy(offset).await;
        let before = contents(it.path());
        let log = it.path().with_extension("log");
        let mut command = logging(&log);
        command
            .env("LD_PRELOAD", &library)
            .env("FAKETIME", offset)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let sweeps = ["--sweep-interval", "1s", "--sweep-grace", "1s"];
        let server = it.start_as(command, sweeps).await.unwrap();
        let mut log = Log::of(&log);
        log.next("the clock is more than a day from where the last sweep of")
            .await;
        log.next("the clock is more than a day from where the last sweep of")
            .await;
        let ready = server.send(&Request::get("/ready")).await.unwrap();
        assert!(ready.text().contains("sweep confirm"), "{}", ready.text());
        it.end(server).await.unwrap();
        assert_eq!(
            differences(&before, &contents(it.path()), is_of_clients),
            None
        );

        let server = it.start(sweeps).await.unwrap();
        assert_knows_all(&it, &server).await;
        it.end(server).await.unwrap();
        assert_eq!(
            differences(&before, &contents(it.path()), is_of_clients),
            None
        );
    }
}

#[tokio::test]
async fn a_second_server_is_refused_and_the_first_serves_on() {
    let killed = Killed::new().await;
    let it = &killed.now;
    let first = it.start([] as [&str; 0]).await.unwrap();
    let second = it
        .operate(&["serve", "--listen", "127.0.0.1:0"])
        .await
        .unwrap();
    assert_eq!(second.code, 1, "{}", second.stderr);
    let sentence = "is in use by another process; stop that server first";
    assert!(second.stderr.contains(sentence), "{}", second.stderr);
    assert_knows_all(it, &first).await;
    it.end(first).await.unwrap();
}

#[tokio::test]
async fn an_older_main_db_is_told_also_after_a_server_that_ended_well() {
    let killed = Killed::new().await;
    let it = killed.copy("older").await;
    let sentence = "main.db is older than the other files of the data directory";
    let older = it.path().with_extension("older");
    for round in 0..2 {
        it.end(it.start([] as [&str; 0]).await.unwrap())
            .await
            .unwrap();
        if round == 0 {
            // Nothing is left in the log.
            fs::copy(it.path().join("main.db"), &older).unwrap();
        }
    }
    for is_older in [false, true] {
        if is_older {
            fs::copy(&older, it.path().join("main.db")).unwrap();
        }
        let before = contents(it.path());
        let log = it.path().with_extension(format!("{is_older}.log"));
        let server = it.start_as(logging(&log), [] as [&str; 0]).await.unwrap();
        assert_knows_all(&it, &server).await;
        it.end(server).await.unwrap();
        let log = fs::read_to_string(&log).unwrap();
        assert_eq!(log.contains(sentence), is_older, "{log}");
        assert_eq!(
            differences(&before, &contents(it.path()), is_of_clients),
            None
        );
    }
}
