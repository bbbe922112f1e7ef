//! Every file of a data directory, damaged in every way that an operator meets: what the program says, how it ends, what is
//! still there. A file of a new kind fails the suite until it has its rows in [`KINDS`].

mod kinds;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use asset_store::BlobHash;
use futures_util::{StreamExt, stream};
use it::process::binary;
use it::{DataDirectory, Holder, Request, Server};
use tempfile::TempDir;
use tokio::process::Command;

use kinds::Content::{Kept, Lost};
use kinds::Damage::{Cut, Emptied, Flipped, Old, ReadOnly, Removed};
use kinds::Kind::{
    AdminSocket, Ballast, CallLog, Installation, LargeBlob, LargeResult, Leftover, Lock, Rows,
    RowsIndex, RowsLog, SmallBlob, SmallResults,
};
use kinds::Then::{Refused, Serves};
use kinds::{Content, Damage, KINDS, Kind, Then};

/// How many cases run at a time.
const AT_ONCE: usize = 4;

/// An installation whose server was killed, and the same on an earlier day.
pub(super) struct Killed {
    _root: TempDir,
    /// It as it was left.
    pub(super) now: DataDirectory,
    before: PathBuf,
    cases: PathBuf,
}

impl Killed {
    pub(super) async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        let before = root.path().join("before");
        let mut now = DataDirectory::make(&binary(), &path).await.unwrap();
        let server = now.start([] as [&str; 0]).await.unwrap();
        now.use_it(&server, "first").await.unwrap();
        now.kill(server).await.unwrap();
        copy(&path, &before);
        // What comes between a restart and the next is written back.
        now.end(now.start([] as [&str; 0]).await.unwrap())
            .await
            .unwrap();
        let server = now.start([] as [&str; 0]).await.unwrap();
        now.use_it(&server, "second").await.unwrap();
        now.kill(server).await.unwrap();
        let cases = root.path().join("cases");
        fs::create_dir(&cases).unwrap();
        Self {
            _root: root,
            now,
            before,
            cases,
        }
    }

    /// A copy of it, for one case.
    pub(super) async fn copy(&self, name: &str) -> DataDirectory {
        let path = self.cases.join(name);
        copy(self.now.path(), &path);
        DataDirectory::at(&path, self.now.acknowledged.clone())
            .await
            .unwrap()
    }

    /// The file of each kind that is damaged: the newest, where there are several.
    fn files(&self) -> BTreeMap<Kind, PathBuf> {
        let mut files: BTreeMap<Kind, PathBuf> = BTreeMap::new();
        for file in list(self.now.path()) {
            let kind = self.kind_of(&file);
            let is_old = self.before.join(&file).exists();
            // Of the two logs of calls, the first has the entries.
            if !files.contains_key(&kind) || !(is_old || kind == CallLog) {
                files.insert(kind, file);
            }
        }
        files
    }

    /// A file of this kind as it was on the earlier day.
    fn old(&self, kind: Kind, file: &Path) -> PathBuf {
        let same = self.before.join(file);
        if same.exists() {
            return same;
        }
        let others = list(&self.before);
        let other = others.iter().find(|other| self.kind_of(other) == kind);
        self.before
            .join(other.unwrap_or_else(|| panic!("no {kind:?} on the earlier day")))
    }

    fn kind_of(&self, file: &Path) -> Kind {
        let name = file.file_name().unwrap().to_str().unwrap();
        let parts: Vec<&str> = file.iter().map(|part| part.to_str().unwrap()).collect();
        match parts[..] {
            ["main.db"] => Rows,
            ["main.db-wal"] => RowsLog,
            ["main.db-shm"] => RowsIndex,
            ["installation"] => Installation,
            ["lock"] => Lock,
            ["ballast"] => Ballast,
            ["admin.sock"] => AdminSocket,
            ["calls-0.log" | "calls-1.log"] => CallLog,
            ["blobs", _, _] if self.outputs().any(|hash| hash == name) => SmallBlob,
            ["blobs", _, _] => LargeBlob,
            ["replays", "hours", _] => SmallResults,
            ["replays", _, _] => LargeResult,
            ["tmp", _] => Leftover,
            _ => panic!(
                "{} is a file of a new kind: give it its rows in KINDS",
                file.display()
            ),
        }
    }

    /// The hashes of what jobs made.
    fn outputs(&self) -> impl Iterator<Item = &str> {
        let outputs = self.now.acknowledged.facts.iter();
        outputs.filter_map(|fact| match &fact.holder {
            Holder::Blob(hash) if fact.name.starts_with("the output") => Some(hash.as_str()),
            Holder::Blob(_) | Holder::Rows | Holder::SmallResults | Holder::LargeResult => None,
        })
    }

    /// What is wrong with a case; nothing if it is as the table says.
    async fn case(&self, case: &Case) -> Option<String> {
        let name = format!("{:?}-{:?}", case.kind, case.damage);
        let it = self.copy(&name).await;
        self.damage(case, &it.path().join(&case.file));
        let before = contents(it.path());
        let log = self.cases.join(format!("{name}.log"));
        let mut command = unprivileged();
        command.stderr(Stdio::from(File::create(&log).unwrap()));
        let (started, submissions) = (
            it.start_as(command, [] as [&str; 0]).await,
            it.submissions(),
        );
        let told = match (case.then, started) {
            (Refused(sentence), Err(error)) => {
                let log = fs::read_to_string(&log).unwrap();
                let is_told =
                    error.to_string().contains("exit status: 1") && log.contains(sentence);
                (!is_told)
                    .then(|| format!("{error}, and not `{sentence}` but {log}"))
                    .or_else(|| differences(&before, &contents(it.path()), is_kept_of_refused))
            }
            (Refused(sentence), Ok(server)) => {
                let ready = server.send(&Request::get("/ready")).await.unwrap();
                let wrong = self.lost(&server, case).await;
                let log = fs::read_to_string(&log).unwrap();
                Some(format!(
                    "it serves, and is not refused with `{sentence}`: {} {wrong:?} {log}",
                    ready.text()
                ))
            }
            (Serves(_), Err(error)) => {
                Some(format!("{error}: {}", fs::read_to_string(&log).unwrap()))
            }
            (Serves(sentence), Ok(server)) => {
                let wrong = self.lost(&server, case).await;
                let ended = server.terminate().await.unwrap();
                let log = fs::read_to_string(&log).unwrap();
                let is_told = match sentence {
                    "" => !log.contains("\"ERROR\""),
                    sentence => log.contains(sentence),
                };
                let after = contents(it.path());
                let is_kept = |file: &Path| is_of_clients(file) && file != case.file;
                wrong
                    .or_else(|| (!ended.success()).then(|| ended.to_string()))
                    .or_else(|| {
                        (!is_told).then(|| format!("it does not tell `{sentence}` but {log}"))
                    })
                    .or_else(|| differences(&before, &after, is_kept))
            }
        };
        let asked =
            (it.submissions() > submissions).then(|| "a partner was asked again".to_owned());
        fs::remove_dir_all(it.path()).unwrap();
        told.or(asked).map(|told| format!("{name}: {told}\n"))
    }

    /// Asks for everything that clients were told. What lies in the damaged file is lost as the table says, the rest is there.
    async fn lost(&self, server: &Server, case: &Case) -> Option<String> {
        let (mut lost, mut wrong) = (0_u32, Vec::new());
        for fact in &self.now.acknowledged.facts {
            let Err(told) = fact.ask(server).await else {
                continue;
            };
            match case.holds(&fact.holder) {
                true => lost += 1,
                false => wrong.push(told),
            }
        }
        match (case.content, lost) {
            (Kept, 1..) => wrong.push(format!("{lost} that lie in it are lost")),
            (Lost, 0) => wrong.push("nothing is lost".to_owned()),
            (Kept, 0) | (Lost, 1..) => {}
        }
        (!wrong.is_empty()).then(|| format!("{wrong:#?}"))
    }

    fn damage(&self, case: &Case, path: &Path) {
        let open = || File::options().read(true).write(true).open(path).unwrap();
        match case.damage {
            Emptied => open().set_len(0).unwrap(),
            Removed => fs::remove_file(path).unwrap(),
            Cut => {
                let file = open();
                file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            }
            Flipped => flip(&open(), case.kind),
            ReadOnly => fs::set_permissions(path, Permissions::from_mode(0o400)).unwrap(),
            Old => {
                fs::copy(self.old(case.kind, &case.file), path).unwrap();
            }
        }
    }
}

/// One damage of one file, and what it comes to.
#[derive(Debug)]
struct Case {
    kind: Kind,
    file: PathBuf,
    damage: Damage,
    then: Then,
    content: Content,
}

impl Case {
    /// Whether something lies in the damaged file.
    fn holds(&self, holder: &Holder) -> bool {
        match holder {
            Holder::Rows => false,
            Holder::Blob(hash) => self.file.file_name().unwrap() == hash.as_str(),
            Holder::SmallResults => self.kind == SmallResults,
            Holder::LargeResult => self.kind == LargeResult,
        }
    }
}

/// Changes one bit.
fn flip(file: &File, kind: Kind) {
    let at = match kind {
        // The kind of the second page. The first one is in the log, too.
        Rows => 4096,
        // In the first entry.
        CallLog => 20,
        RowsLog | RowsIndex | Installation | Lock | Ballast | AdminSocket | LargeBlob
        | SmallBlob | SmallResults | LargeResult | Leftover => file.metadata().unwrap().len() / 2,
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

/// What becomes the program, and obeys the modes of files also where the tests are root's.
fn unprivileged() -> Command {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Command::new(binary());
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search"]);
    command.arg(binary());
    command
}

/// The bytes of every file, by a hash.
pub(super) fn contents(root: &Path) -> BTreeMap<PathBuf, BlobHash> {
    let hash = |file: PathBuf| {
        let bytes = fs::read(root.join(&file)).unwrap_or_default();
        (file, BlobHash::of(&bytes))
    };
    list(root).into_iter().map(hash).collect()
}

/// What was there and is not, or is another one, of the files that are to stay.
pub(super) fn differences(
    before: &BTreeMap<PathBuf, BlobHash>,
    after: &BTreeMap<PathBuf, BlobHash>,
    is_kept: impl Fn(&Path) -> bool,
) -> Option<String> {
    let changed =
        |(file, hash): &(&PathBuf, &BlobHash)| is_kept(file) && after.get(*file) != Some(hash);
    let changed: Vec<_> = before
        .iter()
        .filter(changed)
        .map(|(file, _)| file)
        .collect();
    (!changed.is_empty()).then(|| format!("changed or deleted: {changed:?}"))
}

/// A start that is refused changes nothing but the index of the log, which SQLite makes anew.
fn is_kept_of_refused(file: &Path) -> bool {
    file != "main.db-shm"
}

/// What clients brought or were answered.
pub(super) fn is_of_clients(file: &Path) -> bool {
    file.starts_with("blobs") || file.starts_with("replays")
}

/// Every file below a folder, by its path there.
fn list(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path.strip_prefix(root).unwrap().to_owned()),
            }
        }
    }
    files.sort();
    files
}

/// Copies a directory with its modes.
pub(super) fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

#[tokio::test]
async fn damage_of_any_file_is_told_and_costs_nothing_else() {
    let killed = Killed::new().await;
    let files = killed.files();
    let kinds: Vec<Kind> = KINDS.iter().map(|(kind, _)| *kind).collect();
    assert!(
        files.keys().eq(&kinds),
        "{files:?} are not the kinds of the table"
    );
    let cases = KINDS.iter().flat_map(|(kind, damages)| {
        let file = &files[kind];
        damages.iter().map(move |&(damage, then, content)| Case {
            kind: *kind,
            file: file.clone(),
            damage,
            then,
            content,
        })
    });
    let run = stream::iter(cases.collect::<Vec<_>>()).map(async |case| killed.case(&case).await);
    let wrong: Vec<String> = run
        .buffer_unordered(AT_ONCE)
        .filter_map(async |wrong| wrong)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
