//! A worker's process: started as a group of its own, known again after a crash of ours, stopped as a group.
//!
//! What it writes goes into a file directly and not through this process: it goes on writing when this one is killed. A process is
//! known again by its id and the time of its start, which no other process has; one that was started a moment before a crash, of
//! which nothing was written down, by a variable in its environment.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// The variable by which a process is found whose start was not written down.
const MARK: &str = "EASEL_WORKER";

/// Variables that every worker gets if the server has them; names that end with `_` stand for all that begin so. Others may be
/// secrets of the server.
const PASSED_ON: [&str; 22] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_",
    "NVIDIA_",
    "HIP_",
    "ROCR_",
    "HSA_",
    "XDG_",
    "VIRTUAL_ENV",
    "CONDA_",
    "OMP_",
    "MKL_",
    "PYTORCH_",
    "SSL_CERT_FILE",
];

/// Most bytes of the file that a worker writes to; then it becomes the older one.
const MOST_LOG_BYTES: u64 = 1 << 20;

/// What is started.
#[derive(Debug)]
pub(super) struct Launch {
    /// The program and its arguments.
    pub(super) arguments: Vec<String>,
    /// Variables of its own.
    pub(super) environment: Vec<(String, OsString)>,
    /// Where it is started.
    pub(super) folder: Option<PathBuf>,
    /// The file that it writes to.
    pub(super) log: PathBuf,
    /// Names it among all processes of the machine.
    pub(super) mark: String,
}

/// Which process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId {
    /// Its number, which is that of its group too.
    pub(super) pid: i32,
    /// When it was started, in ticks since the machine was.
    pub(super) started: u64,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    /// Nothing of one that an earlier life of the server started.
    child: Option<Child>,
}

impl Process {
    /// Starts a process.
    pub(super) fn start(launch: &Launch) -> io::Result<Self> {
        let (program, arguments) = launch
            .arguments
            .split_first()
            .ok_or_else(|| io::Error::other("the command is empty"))?;
        let log = open_log(&launch.log)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)))
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .env(MARK, &launch.mark)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A signal from a terminal is for the server alone, which stops its workers itself.
            .process_group(0);
        if let Some(folder) = &launch.folder {
            command.current_dir(folder);
        }
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // It is a child: its number is its own until it is waited for.
        let started = stat(pid).map_or(0, |stat| stat.started);
        Ok(Self {
            id: ProcessId { pid, started },
            child: Some(child),
        })
    }

    /// Takes over a process of an earlier life of the server, if it lives.
    pub(super) fn adopt(id: ProcessId) -> Option<Self> {
        let process = Self { id, child: None };
        is_alive(id).then_some(process)
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<String> {
        match &mut self.child {
            Some(child) => match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            },
            None => {
                (!is_alive(self.id)).then(|| "no status: another process started it".to_owned())
            }
        }
    }

    /// Asks it to end, or ends it.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.id.pid) {
            // It may have ended by itself.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// The processes of this user that have a mark with this beginning, and their marks.
pub(super) fn marked(beginning: &str) -> Vec<(ProcessId, String)> {
    let wanted = format!("{MARK}={beginning}");
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let found = pids.filter_map(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let mark = variables.find(|text| text.starts_with(wanted.as_bytes()))?;
        let mark = std::str::from_utf8(&mark[MARK.len() + 1..]).ok()?;
        let stat = stat(pid)?;
        let id = ProcessId {
            pid,
            started: stat.started,
        };
        // Its own children have the mark too, and are of its group.
        (stat.group == pid && !stat.is_over).then(|| (id, mark.to_owned()))
    });
    found.collect()
}

/// Keeps the file that a worker writes to from growing without end. The worker has it open, so it is copied and then emptied: lines
/// that come between the two are lost.
pub(super) fn rotate(log: &Path) -> io::Result<()> {
    if fs::metadata(log).map_or(0, |meta| meta.len()) <= MOST_LOG_BYTES {
        return Ok(());
    }
    let older = older(log);
    let mut from = File::open(log)?;
    let length = from.metadata()?.len();
    // The end of it alone, if it grew beyond the bound between two looks.
    io::Seek::seek(
        &mut from,
        io::SeekFrom::Start(length.saturating_sub(MOST_LOG_BYTES)),
    )?;
    let mut to = private(File::options().create(true).write(true).truncate(true)).open(older)?;
    io::copy(&mut from, &mut to)?;
    File::options().write(true).open(log)?.set_len(0)
}

/// The last bytes of what a worker wrote, from the beginning of a line on.
pub(super) fn tail(log: &Path, most_bytes: usize) -> String {
    let mut bytes = fs::read(older(log)).unwrap_or_default();
    bytes.extend(fs::read(log).unwrap_or_default());
    let begin = bytes.len().saturating_sub(most_bytes);
    let cut = match begin {
        0 => 0,
        _ => bytes[begin..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(begin, |line| begin + line + 1),
    };
    String::from_utf8_lossy(&bytes[cut..]).into_owned()
}

fn older(log: &Path) -> PathBuf {
    log.with_extension("log.1")
}

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    private(File::options().create(true).append(true)).open(path)
}

fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options.mode(0o600)
}

fn is_passed_on(name: &std::ffi::OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    PASSED_ON.iter().any(|passed| match passed.ends_with('_') {
        true => name.starts_with(passed),
        false => name == *passed,
    })
}

fn is_alive(id: ProcessId) -> bool {
    stat(id.pid).is_some_and(|stat| stat.started == id.started && !stat.is_over)
}

struct Stat {
    is_over: bool,
    group: i32,
    started: u64,
}

/// What the system says of a process.
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may have any character.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    Some(Stat {
        is_over: matches!(*fields.first()?, "Z" | "X"),
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(folder: &Path, script: &str) -> Launch {
        Launch {
            arguments: ["sh", "-c", script].map(str::to_owned).to_vec(),
            environment: vec![("OWN".to_owned(), "value".into())],
            folder: Some(folder.to_owned()),
            log: folder.join("worker-1.log"),
            mark: format!("{}/1", folder.display()),
        }
    }

    /// Waits for the end of a process; answers how it ended.
    fn until_ended(process: &mut Process) -> String {
        let child = process.child.as_mut().expect("it was started here");
        child.wait().expect("it is a child");
        process.ended().expect("it ended")
    }

    #[test]
    fn a_process_writes_to_its_log_and_gets_no_variable_of_the_server_but_those_for_all() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let script = "echo $OWN $CARGO_MANIFEST_DIR; pwd; exit 3";
        let launch = launch(root.path(), script);
        let mut process = Process::start(&launch).expect("there is a shell");
        assert_eq!(until_ended(&mut process), "exit status: 3");
        let wrote = tail(&launch.log, 1_000);
        let expected = format!("value\n{}\n", root.path().display());
        assert_eq!(wrote, expected);
        assert_eq!(tail(&launch.log, 5), "", "no whole line is so short");
    }

    #[test]
    fn a_process_is_known_again_by_its_start_or_its_mark() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let launch = launch(root.path(), "sleep 60 & sleep 60");
        let mut process = Process::start(&launch).expect("there is a shell");
        let beginning = format!("{}/", root.path().display());
        let found = marked(&beginning);
        assert_eq!(
            found,
            [(process.id, launch.mark.clone())],
            "not its children"
        );
        assert!(Process::adopt(process.id).is_some());
        let earlier = ProcessId {
            started: process.id.started - 1,
            ..process.id
        };
        assert!(
            Process::adopt(earlier).is_none(),
            "another one with its number"
        );
        process.signal(Signal::KILL);
        assert_eq!(until_ended(&mut process), "signal: 9 (SIGKILL)");
        assert!(Process::adopt(process.id).is_none());
        assert_eq!(marked(&beginning), []);
    }

    #[test]
    fn a_log_has_at_most_twice_a_mebibyte() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let log = root.path().join("worker-1.log");
        let mut file = open_log(&log).expect("a log");
        let line = [&[b'x'; 99][..], b"\n"].concat();
        for round in 0..5 {
            for _ in 0..4_000 {
                io::Write::write_all(&mut file, &line).expect("room");
            }
            rotate(&log).expect("it can be rotated");
            let kept = fs::metadata(&log).expect("it is there").len();
            assert!(kept <= MOST_LOG_BYTES, "round {round}: {kept}");
        }
        let older = fs::metadata(older(&log)).expect("it was rotated").len();
        assert!(older <= MOST_LOG_BYTES, "{older}");
        let tail = tail(&log, 250);
        assert_eq!(tail.len(), 200, "whole lines");
    }
}
