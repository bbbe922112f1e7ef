//! A program of a revision: built once, kept, and used again.
//!
//! Each tree is built into a target directory of its own. In a common one cargo takes a crate of one tree for that of the other
//! where their sources are older than the build, because it knows packages by their paths within the workspace. The program is
//! copied away, because a later build of the tree gives its program the same name. A kept program is found by its revision, its
//! profile and the compiler with its flags. Nothing is built into the user's own `target/dist`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::say;
use it::load::server::{Product, Profile, cargo_build, executable};

/// Free room below which no build is begun: a build of all dependencies and a program in the profile `dist` takes 1.5 GB.
const LEAST_ROOM_BYTES: u64 = 2_000_000_000;
/// How many of the last lines of a failed build are shown.
const LAST_LINES: usize = 20;
/// How often the progress of a build is shown.
const PROGRESS_EVERY: Duration = Duration::from_secs(20);
/// Characters of the hash that tells compilers apart.
const HASH_DIGITS: usize = 8;

/// What a comparison builds, and how.
#[derive(Debug)]
pub struct Workshop<'a> {
    /// Where revisions, the target directories and the programs are.
    pub folder: &'a Path,
    /// The program.
    pub product: Product,
    /// How it is built.
    pub profile: Profile,
    /// The compiler with its flags, see [`compiler`].
    pub compiler: &'a str,
}

impl Workshop<'_> {
    /// The kept program of a commit, if there is one.
    #[must_use]
    pub fn kept(&self, commit: &str) -> Option<PathBuf> {
        let program = self.place(commit);
        program.is_file().then_some(program)
    }

    /// Builds the program of `tree` and keeps it as that of `name`.
    ///
    /// # Errors
    /// When there is no room, or it does not build.
    pub fn build(&self, tree: &Path, name: &str) -> io::Result<PathBuf> {
        fs::create_dir_all(self.folder)?;
        self.require_room()?;
        let mut cargo = cargo_build(tree, self.product, self.profile, &[]);
        cargo.env("CARGO_TARGET_DIR", self.folder.join("build").join(name));
        let what = format!("{} of {name} ({})", self.product.name, self.profile.name());
        let log = self.folder.join(format!("build-{name}.log"));
        let messages = watched(cargo, &what, &log)?;
        let built = executable(&messages, self.product.name).ok_or_else(|| {
            io::Error::other(format!("cargo built no {what}; see {}", log.display()))
        })?;
        let place = self.place(name);
        let beside = place.with_extension("partial");
        fs::create_dir_all(place.parent().unwrap_or(self.folder))?;
        fs::copy(built, &beside)?;
        fs::rename(&beside, &place)?;
        Ok(place)
    }

    fn place(&self, name: &str) -> PathBuf {
        let hash = blake3::hash(self.compiler.as_bytes()).to_hex();
        let (profile, hash) = (self.profile.name(), &hash.as_str()[..HASH_DIGITS]);
        let kind = format!("{name}-{profile}-{hash}");
        self.folder
            .join("programs")
            .join(kind)
            .join(self.product.name)
    }

    fn require_room(&self) -> io::Result<()> {
        let disk = rustix::fs::statvfs(self.folder)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= LEAST_ROOM_BYTES {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "{} has {} MB free, and a build takes up to {} MB: remove its folder `build` or revisions that are no longer needed, or name a folder on another disk with --checkouts",
                self.folder.display(),
                free / 1_000_000,
                LEAST_ROOM_BYTES / 1_000_000
            ),
        ))
    }
}

/// The compiler of a checkout with the flags of this process: what two programs must have in common.
///
/// # Errors
/// When it cannot be run.
pub fn compiler(root: &Path) -> io::Result<String> {
    let output = Command::new("rustc")
        .arg("--version")
        .current_dir(root)
        .output()?;
    let flags = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].map(|name| {
        let flags = std::env::var_os(name).unwrap_or_default();
        flags.to_string_lossy().replace('\u{1f}', " ")
    });
    let version = String::from_utf8_lossy(&output.stdout);
    let words = [version.trim(), &flags[0], &flags[1]];
    Ok(words.join(" ").trim().to_owned())
}

/// Runs cargo and shows how far it is; returns what it wrote to standard output. Everything else goes to `log`.
fn watched(mut cargo: Command, what: &str, log: &Path) -> io::Result<String> {
    let began = Instant::now();
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdout = child.stdout.take().expect("standard output is piped");
    let stderr = child.stderr.take().expect("standard error is piped");
    let progress = Progress {
        log: Mutex::new(File::create(log)?),
        last: Mutex::new(VecDeque::new()),
    };
    say(&format!("building {what}; this can take minutes"));
    thread::scope(|scope| {
        let messages = scope.spawn(move || {
            let mut messages = String::new();
            stdout.read_to_string(&mut messages).map(|_| messages)
        });
        let lines = scope.spawn(|| progress.read(stderr));
        let (send, end) = mpsc::channel();
        scope.spawn(move || send.send(child.wait()));
        let status = loop {
            match end.recv_timeout(PROGRESS_EVERY) {
                Ok(status) => break status?,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let seconds = began.elapsed().as_secs();
                    let newest = progress.newest();
                    say(&format!("building {what}: {seconds} s, {newest}"));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the build was not waited for"));
                }
            }
        };
        let joined = |_| io::Error::other("a reader of the build ended early");
        lines.join().map_err(joined)??;
        let messages = messages.join().map_err(joined)??;
        if status.success() {
            return Ok(messages);
        }
        Err(io::Error::other(format!(
            "{what} does not build; the last lines of {}:\n{}\nSuch a revision cannot be compared with this compiler: choose another one, or repair it",
            log.display(),
            progress.tail()
        )))
    })
}

/// What a build wrote so far.
struct Progress {
    log: Mutex<File>,
    last: Mutex<VecDeque<String>>,
}

impl Progress {
    fn read(&self, from: impl Read) -> io::Result<()> {
        for line in BufReader::new(from).lines() {
            let line = line?;
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(log, "{line}")?;
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(line);
        }
        Ok(())
    }

    fn newest(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.back()
            .map_or("starting", |line| line.trim())
            .to_owned()
    }

    fn tail(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> = last.iter().map(|line| format!("    {line}")).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use it::load::server::Kind;

    const PRODUCT: Product = Product {
        package: "a",
        name: "a",
        kind: Kind::Program,
    };

    fn workshop(folder: &Path) -> Workshop<'_> {
        Workshop {
            folder,
            product: PRODUCT,
            profile: Profile::Dev,
            compiler: "rustc 1",
        }
    }

    /// A package `a` whose program is `main`.
    fn package(root: &Path, main: &str) {
        let manifest =
            "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        fs::create_dir_all(root.join("src")).expect("a folder");
        fs::write(root.join("Cargo.toml"), manifest).expect("room for a file");
        fs::write(root.join("src/main.rs"), main).expect("room for a file");
    }

    #[test]
    fn a_program_is_built_once_and_found_by_what_it_was_built_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        package(&tree, "fn main() { println!(\"one\"); }");
        let workshop = workshop(folder.path());
        assert_eq!(workshop.kept("123"), None);
        let program = workshop.build(&tree, "123").expect("it builds");
        assert_eq!(workshop.kept("123"), Some(program.clone()));
        package(&tree, "fn main() { println!(\"two\"); }");
        let other = workshop.build(&tree, "456").expect("it builds");
        let said = |program: &Path| Command::new(program).output().expect("it runs").stdout;
        // A later build leaves a kept program alone.
        assert_eq!(
            (said(&program), said(&other)),
            (b"one\n".into(), b"two\n".into())
        );
        let by_another = Workshop {
            compiler: "rustc 2",
            ..workshop
        };
        assert_eq!(by_another.kept("123"), None);
        let in_another = Workshop {
            compiler: "rustc 1",
            profile: Profile::Dist,
            ..by_another
        };
        assert_eq!(in_another.kept("123"), None);
    }

    #[test]
    fn a_tree_that_is_older_than_the_build_of_another_is_built() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["one", "two"];
        let trees = names.map(|name| {
            let tree = folder.path().join(name);
            package(&tree, &format!("fn main() {{ print!(\"{name}\"); }}"));
            tree
        });
        let workshop = workshop(folder.path());
        for (tree, name) in trees.iter().zip(names) {
            let program = workshop.build(tree, name).expect("it builds");
            let said = Command::new(program).output().expect("it runs").stdout;
            assert_eq!(String::from_utf8_lossy(&said), name);
        }
    }

    #[test]
    fn a_build_that_fails_shows_its_last_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        package(&tree, "fn main() { let one: u8 = \"no number\"; }");
        let error = workshop(folder.path())
            .build(&tree, "123")
            .expect_err("types differ");
        let text = error.to_string();
        assert!(text.contains("a of 123 (dev) does not build"), "{text}");
        assert!(text.contains("mismatched types"), "{text}");
        assert!(text.contains("build-123.log"), "{text}");
    }
}
