//! Tests on mounted disks: that programs find everything there that they use, and lose what a cut takes.
//!
//! Mounting takes root and the device of FUSE; without them the tests say so.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{Advice, FallocateFlags, RenameFlags, fadvise, fallocate, renameat_with, statvfs};
use tempfile::TempDir;

use super::*;
use it::http::post_json;
use it::load::graphs::{labelled, solid};
use it::load::server::{Launch, Server};

/// A disk on which a test works.
struct Tested {
    disk: Shared,
    mount: Option<Mount>,
    folder: TempDir,
}

impl Tested {
    /// `None` where disks cannot be mounted.
    fn new() -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || !Path::new("/dev/fuse").exists() {
            let _ = writeln!(
                io::stderr(),
                "skipped: disks that lose what was not synced: mounting them takes root and /dev/fuse"
            );
            return None;
        }
        let mut tested = Self {
            disk: Arc::new(Mutex::new(Disk::new(Broken::Nothing))),
            mount: None,
            folder: tempfile::tempdir().expect("a folder"),
        };
        tested.mount();
        Some(tested)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("disk").join(name)
    }

    fn mount(&mut self) {
        let mount = Mount::new(&self.path(""), Arc::clone(&self.disk));
        self.mount = Some(mount.expect("it can be mounted"));
    }

    /// Unmounts the disk, changes it and mounts it again.
    fn changed(&mut self, change: impl FnOnce(&mut Disk)) {
        let mount = self.mount.take().expect("it is mounted");
        mount.unmount().expect("it is not in use");
        change(&mut lock(&self.disk));
        self.mount();
    }

    /// Cuts the power, which takes everything that was not synced.
    fn cut(&mut self) {
        self.changed(|disk| {
            disk.cut(Fate::sparing_nothing());
        });
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).expect("the folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().expect("text"))
            .collect();
        names.sort();
        names
    }
}

fn sync(path: &Path) {
    let opened = File::open(path).expect("it is there");
    opened.sync_all().expect("a disk");
}

#[test]
fn files_are_written_read_and_known_as_on_any_disk() {
    let Some(tested) = Tested::new() else { return };
    let path = tested.path("file");
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let mut file = options.open(&path).expect("it is new");
    assert!(options.open(&path).is_err(), "it is there");
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    file.write_all(&long).expect("room");
    file.write_all_at(b"behind", 4_000_000).expect("room");
    file.seek(SeekFrom::Start(0)).expect("a file");
    let mut found = Vec::new();
    file.read_to_end(&mut found).expect("a file");
    assert_eq!(found.len(), 4_000_006);
    assert_eq!(found[..3_000_000], long);
    assert!(found[3_000_000..4_000_000].iter().all(|byte| *byte == 0));
    assert_eq!(found[4_000_000..], *b"behind");
    file.set_len(10).expect("a file");
    assert_eq!(fs::read(&path).expect("a file"), long[..10]);

    fallocate(&file, FallocateFlags::empty(), 0, 100_000).expect("room");
    fadvise(&file, 0, None, Advice::DontNeed).expect("a file");
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    file.set_modified(modified).expect("a file");
    let metadata = file.metadata().expect("a file");
    assert_eq!((metadata.len(), metadata.mode()), (100_000, 0o100_600));
    assert_eq!(metadata.modified().expect("a time"), modified);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("a file");
    assert_eq!(fs::metadata(&path).expect("a file").mode(), 0o100_400);
    assert!(statvfs(&path).expect("a disk").f_bavail > 1 << 20);

    let other = File::open(&path).expect("a file");
    file.try_lock().expect("it is free");
    assert!(other.try_lock().is_err(), "it is taken");
    file.unlock().expect("it was taken");
    other.try_lock().expect("it is free again");
}

#[test]
fn names_come_change_and_go_as_on_any_disk() {
    let Some(tested) = Tested::new() else { return };
    fs::create_dir_all(tested.path("a/b")).expect("it is new");
    for number in 0..500 {
        fs::write(tested.path(&format!("a/{number}")), "x").expect("room");
    }
    assert_eq!(tested.names("a").len(), 501);
    fs::rename(tested.path("a/1"), tested.path("a/b/1")).expect("it is there");
    let here = File::open(tested.path("a")).expect("a folder");
    let stay = renameat_with(&here, "2", &here, "3", RenameFlags::NOREPLACE);
    assert_eq!(stay, Err(rustix::io::Errno::EXIST));
    fs::rename(tested.path("a/2"), tested.path("a/3")).expect("it is replaced");
    fs::hard_link(tested.path("a/3"), tested.path("a/b/3")).expect("it is new");
    assert_eq!(tested.names("a/b"), ["1", "3"]);
    let open = File::open(tested.path("a/4")).expect("a file");
    fs::remove_file(tested.path("a/4")).expect("it is there");
    let mut bytes = [0];
    open.read_exact_at(&mut bytes, 0)
        .expect("an open file stays");
    assert!(fs::remove_dir(tested.path("a")).is_err(), "it is not empty");
    UnixListener::bind(tested.path("socket")).expect("a socket can be made");
    fs::copy(tested.path("a/5"), tested.path("copy")).expect("a file");
    assert_eq!(tested.names(""), ["a", "copy", "socket"]);
    drop((open, here));
    fs::remove_dir_all(tested.path("a")).expect("all of it goes");
    assert_eq!(tested.names(""), ["copy", "socket"]);
}

#[test]
fn a_cut_leaves_what_was_synced_and_a_kill_leaves_all() {
    let Some(mut tested) = Tested::new() else {
        return;
    };
    fs::create_dir(tested.path("kept")).expect("it is new");
    fs::create_dir(tested.path("lost")).expect("it is new");
    fs::write(tested.path("kept/bytes"), "synced").expect("room");
    sync(&tested.path("kept/bytes"));
    fs::write(tested.path("kept/name"), "no bytes").expect("room");
    sync(&tested.path("kept"));
    fs::write(tested.path("kept/neither"), "x").expect("room");
    fs::write(tested.path("lost/bytes"), "synced").expect("room");
    sync(&tested.path("lost/bytes"));
    sync(&tested.path("lost"));
    tested.changed(Disk::killed);
    assert_eq!(tested.names(""), ["kept", "lost"]);
    assert_eq!(tested.names("kept"), ["bytes", "name", "neither"]);
    tested.cut();
    assert_eq!(tested.names(""), [""; 0], "the names of both were in doubt");

    fs::create_dir(tested.path("kept")).expect("it is new");
    sync(&tested.path(""));
    fs::write(tested.path("kept/bytes"), "synced").expect("room");
    sync(&tested.path("kept/bytes"));
    fs::write(tested.path("kept/name"), "no bytes").expect("room");
    sync(&tested.path("kept"));
    fs::write(tested.path("kept/neither"), "x").expect("room");
    tested.cut();
    assert_eq!(tested.names("kept"), ["bytes", "name"]);
    let read = |name: &str| fs::read_to_string(tested.path(name)).expect("a file");
    assert_eq!(
        (read("kept/bytes"), read("kept/name")),
        ("synced".into(), String::new())
    );
}

#[test]
fn a_sync_of_the_file_system_saves_everything() {
    let Some(mut tested) = Tested::new() else {
        return;
    };
    fs::create_dir(tested.path("folder")).expect("it is new");
    fs::write(tested.path("folder/file"), "bytes").expect("room");
    let folder = File::open(tested.path("folder")).expect("a folder");
    rustix::fs::syncfs(&folder).expect("a disk");
    drop(folder);
    if lock(&tested.disk).counts.file_system_syncs == 0 {
        let _ = writeln!(
            io::stderr(),
            "skipped: this kernel does not forward syncfs to FUSE"
        );
        return;
    }
    tested.cut();
    let bytes = fs::read_to_string(tested.path("folder/file"));
    assert_eq!(bytes.expect("a file"), "bytes");
}

#[test]
fn a_process_does_not_outlive_the_power() {
    let Some(mut tested) = Tested::new() else {
        return;
    };
    lock(&tested.disk).arm(Some(1));
    let script = "echo one > one; echo two > two; echo three > three";
    let status = Command::new("sh")
        .args(["-c", script])
        .current_dir(tested.path(""))
        .status();
    assert_eq!(status.expect("a shell").signal(), Some(9));
    assert!(
        fs::metadata(tested.path("one")).is_err(),
        "nothing is answered"
    );
    tested.changed(Disk::killed);
    assert_eq!(tested.names(""), ["one"], "its name came before");
    assert_eq!(fs::read(tested.path("one")).expect("a file"), b"");
}

/// Starts the server over the disk.
async fn start(tested: &Tested) -> io::Result<Server> {
    let launch = Launch {
        program: it::process::binary(),
        under: Vec::new(),
        data_dir: tested.path("data"),
        log: tested.folder.path().join("server.log"),
        arguments: Vec::new(),
        variables: Vec::new(),
    };
    Server::start(&launch).await
}

/// The first start makes the data directory and dies before it syncs the name; the disk keeps its power. The next start finds
/// the directory and must not take its name for durable.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_first_start_made_is_durable_once_the_next_one_acknowledges() {
    let Some(mut tested) = Tested::new() else {
        return;
    };
    lock(&tested.disk).arm(Some(1));
    assert!(start(&tested).await.is_err(), "it is killed at its start");
    tested.changed(Disk::killed);
    assert_eq!(tested.names(""), ["data"]);

    let server = start(&tested).await.expect("it starts");
    let submit = post_json(
        "/api/v2/jobs",
        "Idempotency-Key: k\r\n",
        &labelled(&solid(7), "k"),
    );
    let mut connection = server.connect().await.expect("it listens");
    let first = connection.send(&submit).await.expect("an answer");
    assert_eq!(first.status, 201);
    server.kill().await.expect("it runs");
    tested.cut();

    let server = start(&tested).await.expect("it starts");
    let mut connection = server.connect().await.expect("it listens");
    let again = connection.send(&submit).await.expect("an answer");
    let id = |answer: &it::http::Answer| answer.try_json().expect("json")["id"].clone();
    assert_eq!(id(&again), id(&first), "the same job");
    server.kill().await.expect("it runs");
}
