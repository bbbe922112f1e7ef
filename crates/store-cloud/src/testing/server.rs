//! What servers of tests have in common: a folder each, and an end with the process that started them.

use std::fs::DirEntry;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use tempfile::TempDir;

/// A folder under `target/KIND/` that says whose it is. Those of processes that are gone, and their servers with them, are
/// removed meanwhile.
pub(super) fn folder(kind: &str) -> TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let root = root.join(kind);
    std::fs::create_dir_all(&root).expect("target/ can be written");
    let root = root.canonicalize().expect("it was made");
    let entries = std::fs::read_dir(&root).into_iter().flatten().flatten();
    let is_left = |entry: &DirEntry| {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split_once('-'));
        let owner = owner.and_then(|(owner, _)| owner.parse::<u32>().ok());
        owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists())
    };
    let left: Vec<DirEntry> = entries.filter(is_left).collect();
    // A server has thousands of files, and no test waits for them: what this run does not get to is there for the next one.
    std::thread::spawn(move || {
        for entry in left {
            // Another process may do the same.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    });
    let name = format!("{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&name).tempdir_in(root);
    folder.expect("target/ can be written")
}

/// A program that ends with its parent, and that a superuser's process starts as somebody else: PostgreSQL refuses to run as
/// one.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    if is_root() {
        command.args(["--user", "--map-user=1000", "--map-group=1000"]);
    }
    command.args(["setpriv", "--pdeathsig", "INT"]).arg(program);
    command
}

/// A server that runs.
#[derive(Debug)]
pub(super) struct Running {
    pid: u32,
    ended: mpsc::Receiver<Result<u32, String>>,
}

impl Running {
    /// Sends this signal to the server and then to each process that it has begun.
    pub(super) fn send_to_all(&self, signal: &str) {
        send(signal, self.pid);
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in all {
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            // Behind the name, which may hold anything: the state, and who began it.
            let begun_by = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.split_whitespace().nth(1));
            let pid = process.file_name();
            let pid = pid.to_str().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.filter(|_| begun_by == Some(&self.pid.to_string())) {
                // It may have ended meanwhile.
                let _ = try_send(signal, pid);
            }
        }
    }

    /// Sends the server this signal and waits until it has ended.
    pub(super) fn stop(self, signal: &str) {
        send(signal, self.pid);
        // An answer or none: it is over.
        let _ = self.ended.recv();
    }
}

/// Sends a process this signal.
pub(super) fn send(signal: &str, pid: u32) {
    assert!(try_send(signal, pid), "{pid} takes signals");
}

fn try_send(signal: &str, pid: u32) -> bool {
    let pid = pid.to_string();
    let sent = Command::new("kill")
        .args(["-s", signal, &pid])
        .stderr(Stdio::null())
        .status();
    sent.expect("kill runs").success()
}

/// Starts a server from a thread that stays: `setpriv` has the server stopped when the thread that started it ends, which is
/// when this process does. Returns once a line of the log has these words; else what was logged before the server ended.
pub(super) fn run(mut command: Command, ready_when: &'static str) -> Result<Running, String> {
    let (ready, wait) = mpsc::channel();
    std::thread::spawn(move || {
        // Both into one pipe: some servers log to the one, some to the other.
        let (log, output) = std::io::pipe().expect("a pipe");
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a descriptor"));
        let started = command.stderr(output).spawn();
        // It has its end of the pipe now; ours would keep it open.
        drop(command);
        let mut server: Child = started.expect("the server starts");
        let mut log = BufReader::new(log);
        let mut said = String::new();
        for line in log.by_ref().lines().map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
            if line.contains(ready_when) {
                break;
            }
        }
        if said.contains(ready_when) {
            let _ = ready.send(Ok(server.id()));
            // What nobody reads would stop the server.
            let _ = std::io::copy(&mut log, &mut std::io::sink());
        }
        let _ = server.wait();
        let _ = ready.send(Err(said));
    });
    let started = wait.recv().unwrap_or_else(|error| Err(error.to_string()));
    started.map(|pid| Running { pid, ended: wait })
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| {
        use std::os::unix::fs::MetadataExt;
        metadata.uid() == 0
    })
}
