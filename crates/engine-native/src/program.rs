//! FFmpeg, where it is installed: a program that nodes hand files to and take files from.
//!
//! What it reads may come from anybody, so it opens nothing but the file it is given, speaks no network protocol, reads only
//! formats that name no other files, and is ended when the run is to stop, when it takes too long or when it writes too much.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{NodeContext, NodeError};

/// The program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ffmpeg;

/// How long one run of it may take.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// How often a run looks whether it is to go on.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes of its complaints that are kept.
const COMPLAINT: u64 = 4 << 10;

/// Formats that hold what they play: none of them is a list of other files.
const FORMATS: &str = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,ogg,wav,flac,mp3,aac,flv,gif,rawvideo,f32le";

impl Ffmpeg {
    /// The program, if it can be run.
    ///
    /// # Errors
    /// If it is not installed.
    pub(crate) fn installed() -> Result<Self, NodeError> {
        static FOUND: LazyLock<bool> = LazyLock::new(|| {
            let found = ["ffmpeg", "ffprobe"].map(|program| {
                let mut command = Command::new(program);
                let command = command
                    .arg("-version")
                    .stdin(Stdio::null())
                    .stdout(Stdio::null());
                command
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            });
            found == [true, true]
        });
        match *FOUND {
            true => Ok(Self),
            false => Err(NodeError::new(
                "RuntimeError",
                "this needs FFmpeg, which is not installed on the server; install the programs ffmpeg and ffprobe there, or \
                 use formats that need none (pictures, FLAC)",
            )),
        }
    }

    /// Converts a file; answers the other one.
    ///
    /// # Errors
    /// If FFmpeg cannot, or the run is to stop.
    pub(crate) fn convert(
        self,
        file: &[u8],
        options: &[&str],
        context: &NodeContext,
    ) -> Result<Vec<u8>, NodeError> {
        let folder = folder()?;
        let input = folder.path().join("input");
        std::fs::write(&input, file).map_err(|error| broken(&error))?;
        self.write(&[(input.as_path(), &[])], options, context)
    }

    /// Makes a file of others, each with the options that tell how to read it; answers its bytes.
    ///
    /// # Errors
    /// As [`Ffmpeg::convert`], and if it becomes larger than the job has room for.
    pub(crate) fn write(
        self,
        inputs: &[(&Path, &[&str])],
        options: &[&str],
        context: &NodeContext,
    ) -> Result<Vec<u8>, NodeError> {
        let folder = folder()?;
        let output = folder.path().join("output");
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-nostdin", "-y"]);
        for (input, how) in inputs {
            command.args(SAFE).args(*how).arg("-i").arg(input);
        }
        command.args(options).arg(&output);
        command.stdout(Stdio::null());
        run(command, context, Some(&output), |_, _| Ok(()))?;
        let size = std::fs::metadata(&output)
            .map_err(|error| broken(&error))?
            .len();
        context.reserve(size)?;
        std::fs::read(&output).map_err(|error| broken(&error))
    }

    /// Reads a file into pieces of `piece` bytes, each of which `take` gets; the last one may be shorter.
    ///
    /// # Errors
    /// As [`Ffmpeg::convert`], and what `take` answers.
    pub(crate) fn read(
        self,
        input: (&Path, &[&str]),
        options: &[&str],
        piece: usize,
        context: &NodeContext,
        mut take: impl FnMut(&[u8]) -> Result<(), NodeError>,
    ) -> Result<(), NodeError> {
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-nostdin"]).args(SAFE);
        command
            .args(input.1)
            .arg("-i")
            .arg(input.0)
            .args(options)
            .arg("pipe:1");
        command.stdout(Stdio::piped());
        run(command, context, None, |child, began| {
            let Some(mut stdout) = child.stdout.take() else {
                return Ok(());
            };
            thread::scope(|scope| {
                let (sender, pieces) = mpsc::sync_channel(2);
                scope.spawn(move || {
                    while let Some(bytes) = next(&mut stdout, piece) {
                        if sender.send(bytes).is_err() {
                            break;
                        }
                    }
                });
                let taken = loop {
                    if let Err(error) = go_on(began, context) {
                        break Err(error);
                    }
                    match pieces.recv_timeout(LOOK) {
                        Ok(bytes) => {
                            if let Err(error) = take(&bytes) {
                                break Err(error);
                            }
                        }
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => break Ok(()),
                    }
                };
                if taken.is_err() {
                    // The thread waits for what the program writes.
                    let _ = child.kill();
                }
                taken
            })
        })
    }

    /// What ffprobe tells of a file, as JSON.
    ///
    /// # Errors
    /// If it is no file that FFmpeg knows, or the run is to stop.
    pub(crate) fn probe(
        self,
        file: &Path,
        context: &NodeContext,
    ) -> Result<serde_json::Value, NodeError> {
        const MOST: u64 = 1 << 20;
        let folder = folder()?;
        let output = folder.path().join("told");
        let mut command = Command::new("ffprobe");
        command.args([
            "-v",
            "error",
            "-show_streams",
            "-show_format",
            "-of",
            "json",
        ]);
        command
            .args(SAFE)
            .arg("-o")
            .arg(&output)
            .arg(file)
            .stdout(Stdio::null());
        run(command, context, None, |_, _| Ok(()))?;
        let mut told = Vec::new();
        let file = std::fs::File::open(&output).map_err(|error| broken(&error))?;
        let read = file.take(MOST).read_to_end(&mut told);
        read.map_err(|error| broken(&error))?;
        serde_json::from_slice(&told).map_err(|_| NodeError::value("the file cannot be understood"))
    }
}

/// The options that put what made a file into it. What a program cannot take is left out, with a line at the node.
pub(crate) fn tags(context: &NodeContext) -> Vec<String> {
    let texts = context.metadata();
    let (tags, left_out) = fitting(&texts);
    if left_out > 0 {
        context.text(&format!(
            "{left_out} of the {} texts about the workflow are not in the file: together they have more than {MOST_TAGS} \
             bytes, or they hold what the file cannot",
            texts.len()
        ));
    }
    tags
}

/// Bytes of all texts that go into a file. An argument of a program is shorter than 128 KiB, and all of them are bounded, too.
const MOST_TAGS: usize = 100_000;

/// The options for the texts that fit, and how many do not.
fn fitting(texts: &[(String, String)]) -> (Vec<String>, usize) {
    // The name of the option, and the pointers to it and to its value.
    const EACH: usize = 32;
    // FFmpeg takes such a text for escaped bytes, and fails if it is not.
    const PRIVATE: &str = "id3v2_priv.";
    let (mut options, mut left_out, mut room) = (Vec::new(), 0, MOST_TAGS);
    for (key, text) in texts {
        let is_possible = !key.contains('\0') && !text.contains('\0') && !key.starts_with(PRIVATE);
        let rest = room.checked_sub(key.len() + text.len() + EACH);
        match rest.filter(|_| is_possible) {
            Some(rest) => {
                room = rest;
                options.extend(["-metadata".to_owned(), format!("{key}={text}")]);
            }
            None => left_out += 1,
        }
    }
    (options, left_out)
}

const SAFE: [&str; 4] = [
    "-protocol_whitelist",
    "file,pipe",
    "-format_whitelist",
    FORMATS,
];

/// A folder of a run's own, gone with it.
pub(crate) fn folder() -> Result<tempfile::TempDir, NodeError> {
    tempfile::tempdir().map_err(|error| broken(&error))
}

/// Runs a program to its end while `meanwhile` takes what it writes, and while there is room for what it writes to `output`.
fn run(
    mut command: Command,
    context: &NodeContext,
    output: Option<&Path>,
    meanwhile: impl FnOnce(&mut Child, Instant) -> Result<(), NodeError>,
) -> Result<(), NodeError> {
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    thread::scope(|scope| {
        let mut child = Ended(command.spawn().map_err(|error| broken(&error))?);
        let began = Instant::now();
        let stderr = child.0.stderr.take();
        let (sender, ended) = mpsc::channel();
        // The program closes its standard error when it ends.
        scope.spawn(move || sender.send(stderr.map(complaint).unwrap_or_default()));
        meanwhile(&mut child.0, began)?;
        let complaint = loop {
            go_on(began, context)?;
            if let Some(output) = output {
                has_room(output, context)?;
            }
            match ended.recv_timeout(LOOK) {
                Ok(complaint) => break complaint,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break String::new(),
            }
        };
        let status = child.0.wait().map_err(|error| broken(&error))?;
        match status.success() {
            true => Ok(()),
            false => Err(NodeError::value(format!(
                "FFmpeg could not do this: {}",
                told(&complaint)
            ))),
        }
    })
}

/// The first bytes of what a program complains of, once it ended. The rest is read, too, so that the program does not wait.
fn complaint(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let _ = stderr.by_ref().take(COMPLAINT).read_to_end(&mut kept);
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}

/// The next piece of what a program writes, as long as it writes.
fn next(stdout: &mut ChildStdout, piece: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(piece);
    let read = stdout.take(piece as u64).read_to_end(&mut bytes);
    (read.is_ok() && !bytes.is_empty()).then_some(bytes)
}

/// Whether a program that began then may go on.
fn go_on(began: Instant, context: &NodeContext) -> Result<(), NodeError> {
    context.check()?;
    match began.elapsed() > LONGEST {
        true => Err(NodeError::new(
            "TimeoutError",
            "FFmpeg took longer than half an hour; use a shorter file",
        )),
        false => Ok(()),
    }
}

/// Whether the job has room for a file that is being written. What nobody will read must not fill the disk.
fn has_room(output: &Path, context: &NodeContext) -> Result<(), NodeError> {
    // It may not have begun.
    let size = std::fs::metadata(output).map_or(0, |file| file.len());
    match size > context.free_bytes() {
        true => context.reserve(size),
        false => Ok(()),
    }
}

/// The last line of a complaint without the names of files, which only this server knows.
fn told(complaint: &str) -> String {
    let line = complaint.lines().rfind(|line| !line.trim().is_empty());
    let words = line.unwrap_or("it gave no reason").split_whitespace();
    let words = words.filter(|word| !word.contains('/'));
    words
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(300)
        .collect()
}

fn broken(error: &std::io::Error) -> NodeError {
    tracing::warn!(%error, "a file of a conversion cannot be used");
    NodeError::new(
        "OSError",
        "the server cannot keep the files of this conversion now; try again later",
    )
}

/// A program that ends when nobody waits for it any more.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file in a folder, written as a whole.
pub(crate) fn written(path: &Path, bytes: &[u8]) -> Result<(), NodeError> {
    let write = || {
        let mut file = std::fs::File::create_new(path)?;
        file.write_all(bytes)
    };
    write().map_err(|error| broken(&error))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    /// Far longer than FFmpeg takes to be ended: reached only when it is not.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn what_ffmpeg_writes_beyond_the_room_ends_it_before_its_input_does() {
        let Ok(ffmpeg) = Ffmpeg::installed() else {
            // Past the harness, which keeps to itself what a test that passes prints.
            let _ = io::stderr().write_all(b"skipped: FFmpeg is not installed\n");
            return;
        };
        let folder = folder().expect("a folder");
        let input = folder.path().join("input");
        let made = Command::new("mkfifo").arg(&input).status();
        assert!(made.expect("a program of every system").success());
        let (ended, hears) = mpsc::channel();
        let feed = input.clone();
        let feeding = thread::spawn(move || {
            // Opened when FFmpeg reads, and more than it may write; then nothing comes, and it is not told that nothing will.
            let mut pipe = OpenOptions::new().write(true).open(feed).expect("a pipe");
            let _ = pipe.write_all(&vec![0; 4 << 20]);
            hears.recv_timeout(PATIENCE)
        });
        let context = NodeContext::of_budget(100_000);
        let how = ["-f", "f32le", "-ar", "48000", "-ac", "1"];
        let options = ["-f", "f32le"];
        let written = ffmpeg.write(&[(input.as_path(), &how[..])], &options, &context);
        let Err(NodeError::OutOfMemory { needed_bytes, .. }) = written else {
            panic!("{written:?}")
        };
        assert!(needed_bytes > 100_000, "{needed_bytes}");
        let _ = ended.send(());
        let fed = feeding.join().expect("no panic");
        assert_eq!(fed, Ok(()), "it was ended while its input went on");
    }

    #[test]
    fn a_program_that_writes_more_than_there_is_room_for_is_ended() {
        let folder = folder().expect("a folder");
        let output = folder.path().join("output");
        let mut command = Command::new("sh");
        // It writes, and then does not end by itself.
        command.args([
            "-c",
            "head -c 5000 /dev/zero >\"$0\"; exec tail -f /dev/null",
        ]);
        command.arg(&output).stdout(Stdio::null());
        let context = NodeContext::of_budget(4000);
        let ended = run(command, &context, Some(&output), |_, _| Ok(()));
        let Err(NodeError::OutOfMemory { needed_bytes, .. }) = ended else {
            panic!("{ended:?}")
        };
        assert!((4001..=5000).contains(&needed_bytes), "{needed_bytes}");
    }

    #[test]
    fn texts_that_no_program_takes_are_left_out() {
        let texts = |texts: &[(&str, &str)]| -> Vec<(String, String)> {
            let texts = texts.iter();
            texts
                .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
                .collect()
        };
        let long = "x".repeat(MOST_TAGS);
        let told = texts(&[
            ("prompt", "{}"),
            ("a\0b", "c"),
            ("d", "e\0f"),
            (&long, "g"),
            ("h", &long),
            ("id3v2_priv.i", "\"\\\"\""),
            ("workflow", "[]"),
        ]);
        let fits = ["-metadata", "prompt={}", "-metadata", "workflow=[]"];
        assert_eq!(fitting(&told), (fits.map(str::to_owned).to_vec(), 5));

        let many: Vec<(String, String)> = (0..90_000)
            .map(|key| (key.to_string(), String::new()))
            .collect();
        let (options, left_out) = fitting(&many);
        let bytes: usize = options.iter().map(String::len).sum();
        assert_eq!(options.len() / 2 + left_out, many.len());
        assert!((1..MOST_TAGS).contains(&bytes), "{bytes}");
    }
}
