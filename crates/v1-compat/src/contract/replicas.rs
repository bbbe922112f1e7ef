//! Two replicas over one store: what both of them save, edit, rename and delete, in an order that a seed decides, beside a model
//! of what is true. Some steps are made by both at once; then some order of the two explains both answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use accounts::AccountId;
use accounts::contract::{Dice, either_seen};
use asset_store::FilePath;
use bytes::Bytes;
use futures_util::future::join;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{BOUNDS, account, at, path};
use crate::{
    FileContent, FileWrite, Renamed, UserFile, UserFiles, UserFilesBounds, UserFilesError,
};

/// How many histories run, and how many steps each of them has.
const SEEDS: u64 = 12;
const STEPS: usize = 60;

/// The names that files have.
const NAMES: [&str; 6] = ["a", "w/a", "w/b", "w/ü", "x", "y"];

/// The names that settings have.
const SETTINGS: [&str; 5] = ["one", "two", "three", "four", "five"];

/// Runs histories of two replicas, each on the two handles of a fresh store with these bounds.
///
/// # Panics
/// If the store breaks a rule.
pub async fn replicas(fresh: impl Fn(UserFilesBounds) -> [Arc<dyn UserFiles>; 2]) {
    for seed in 1..=SEEDS {
        let mut history = History {
            handles: fresh(BOUNDS),
            acme: account("acme"),
            dice: Dice::new(seed),
            now: 0,
            model: Model::default(),
        };
        for _ in 0..STEPS {
            history.step().await;
            history.look().await;
        }
    }
}

struct History {
    handles: [Arc<dyn UserFiles>; 2],
    acme: AccountId,
    dice: Dice,
    now: i64,
    model: Model,
}

/// What the account keeps, in the plainest way.
#[derive(Clone, Default)]
struct Model {
    settings: Map<String, Value>,
    files: BTreeMap<FilePath, (UserFile, Bytes)>,
}

/// What is saved.
#[derive(Clone)]
enum Content {
    New(Bytes),
    Set(Bytes),
    /// These bytes behind those that are there.
    Added(Bytes),
}

/// What a replica answered; errors as far as they can be compared.
#[derive(Debug, PartialEq)]
enum Answer<T> {
    Done(T),
    TooLarge(u64),
    Full,
}

/// A save that is asked for.
type Save = (FilePath, Content);

/// A new name that is asked for: of which file, which, and whether it may replace another one.
type Rename = (FilePath, FilePath, bool);

impl<T> Answer<T> {
    fn of(answer: Result<T, UserFilesError>) -> Self {
        match answer {
            Ok(done) => Self::Done(done),
            Err(UserFilesError::TooLarge { limit }) => Self::TooLarge(limit),
            Err(UserFilesError::Full) => Self::Full,
            Err(error @ UserFilesError::Unavailable(_)) => panic!("the store answers: {error}"),
        }
    }
}

impl Content {
    fn asked(self) -> FileContent {
        match self {
            Self::New(bytes) => FileContent::New(bytes),
            Self::Set(bytes) => FileContent::Set(bytes),
            Self::Added(bytes) => {
                FileContent::Edited(Box::new(move |before| added(before.as_ref(), &bytes)))
            }
        }
    }
}

fn added(before: Option<&Bytes>, bytes: &Bytes) -> Bytes {
    let before = before.map(|before| &before[..]).unwrap_or_default();
    Bytes::from([before, &bytes[..]].concat())
}

impl Model {
    fn set(&mut self, changes: &Map<String, Value>) -> Answer<()> {
        let mut settings = self.settings.clone();
        settings.extend(changes.clone());
        let checked = Answer::of(BOUNDS.check_settings(&settings));
        if checked == Answer::Done(()) {
            self.settings = settings;
        }
        checked
    }

    fn save(&mut self, (path, content): &Save, now: Timestamp) -> Answer<FileWrite> {
        let before = self.files.get(path);
        let bytes = match content {
            Content::New(_) if before.is_some() => return Answer::Done(FileWrite::Exists),
            Content::New(bytes) | Content::Set(bytes) => bytes.clone(),
            Content::Added(bytes) => added(before.map(|(_, before)| before), bytes),
        };
        let others = self.files.values().filter(|(file, _)| file.path != *path);
        let sizes: Vec<u64> = others.map(|(file, _)| file.size_bytes).collect();
        let checked = BOUNDS.check_file(bytes.len(), sizes.len(), sizes.iter().sum());
        match Answer::of(checked) {
            Answer::Done(()) => {}
            Answer::TooLarge(limit) => return Answer::TooLarge(limit),
            Answer::Full => return Answer::Full,
        }
        let file = UserFile {
            path: path.clone(),
            size_bytes: bytes.len() as u64,
            created_at: before.map_or(now, |(file, _)| file.created_at),
            modified_at: now,
        };
        self.files.insert(path.clone(), (file.clone(), bytes));
        Answer::Done(FileWrite::Saved(file))
    }

    fn listed(&self) -> Vec<UserFile> {
        self.files.values().map(|(file, _)| file.clone()).collect()
    }

    fn bytes(&self, path: &FilePath) -> Option<Bytes> {
        self.files.get(path).map(|(_, bytes)| bytes.clone())
    }

    fn rename(&mut self, (from, to, replace): &Rename) -> Renamed {
        if self.files.contains_key(from) && from != to && self.files.contains_key(to) && !replace {
            return Renamed::Exists;
        }
        let Some((file, bytes)) = self.files.remove(from) else {
            return Renamed::Absent;
        };
        let file = UserFile {
            path: to.clone(),
            ..file
        };
        self.files.insert(to.clone(), (file.clone(), bytes));
        Renamed::Renamed(file)
    }
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(10) {
            0 => self.set(handle).await,
            1 => self.set_at_once().await,
            2 | 3 => self.save(handle).await,
            4 | 5 => self.save_at_once().await,
            6 => self.rename(handle).await,
            7 => self.rename_at_once().await,
            8 => self.remove_at_once().await,
            _ => self.now += 1,
        }
    }

    fn now(&self) -> Timestamp {
        at(self.now)
    }

    fn name(&mut self) -> FilePath {
        path(NAMES[self.dice.roll(NAMES.len())])
    }

    /// Up to 15 bytes: one file may have 10, and all of them 25.
    fn content(&mut self) -> Content {
        let letter = b'a' + u8::try_from(self.dice.roll(26)).expect("few");
        let bytes = |length| Bytes::from(vec![letter; length]);
        match self.dice.roll(3) {
            0 => Content::New(bytes(self.dice.roll(12))),
            1 => Content::Set(bytes(self.dice.roll(15))),
            _ => Content::Added(bytes(1 + self.dice.roll(3))),
        }
    }

    fn changes(&mut self) -> Map<String, Value> {
        let mut changes = Map::new();
        for _ in 0..=self.dice.roll(2) {
            let name = SETTINGS[self.dice.roll(SETTINGS.len())];
            let value = "x".repeat(self.dice.roll(40));
            changes.insert(name.to_owned(), Value::from(value));
        }
        changes
    }

    async fn set_by(&self, handle: usize, changes: &Map<String, Value>) -> Answer<()> {
        let set = self.handles[handle].set(&self.acme, changes.clone());
        Answer::of(set.await)
    }

    async fn set(&mut self, handle: usize) {
        let changes = self.changes();
        let answer = self.set_by(handle, &changes).await;
        assert_eq!(answer, self.model.set(&changes));
    }

    /// What both set is all kept. Which of them was first shows only in what is there afterwards.
    async fn set_at_once(&mut self) {
        let changes = [self.changes(), self.changes()];
        let answers = join(self.set_by(0, &changes[0]), self.set_by(1, &changes[1])).await;
        let seen = self.handles[0].settings(&self.acme).await;
        let seen = text(&seen.expect("the store answers"));
        let act = |model: &mut Model, handle: usize| model.set(&changes[handle]);
        either_seen(&mut self.model, act, &answers, |after| {
            text(&after.settings) == seen
        });
    }

    async fn save_by(&self, handle: usize, (path, content): Save) -> Answer<FileWrite> {
        let files = &self.handles[handle];
        let saved = files.write(&self.acme, &path, content.asked(), self.now());
        Answer::of(saved.await)
    }

    async fn save(&mut self, handle: usize) {
        let save = (self.name(), self.content());
        let answer = self.save_by(handle, save.clone()).await;
        let now = self.now();
        assert_eq!(answer, self.model.save(&save, now));
    }

    /// Of two new files of one name one is saved, and no edit is lost.
    async fn save_at_once(&mut self) {
        let one = (self.name(), self.content());
        let same = self.dice.roll(2) == 0;
        let name = if same { one.0.clone() } else { self.name() };
        let saves = [one, (name, self.content())];
        let answers = join(
            self.save_by(0, saves[0].clone()),
            self.save_by(1, saves[1].clone()),
        )
        .await;
        let now = self.now();
        let seen = self.handles[0].read(&self.acme, &saves[0].0).await;
        let seen = seen.expect("the store answers");
        let act = |model: &mut Model, handle: usize| model.save(&saves[handle], now);
        either_seen(&mut self.model, act, &answers, |after| {
            after.bytes(&saves[0].0) == seen
        });
    }

    fn new_name(&mut self) -> Rename {
        (self.name(), self.name(), self.dice.roll(2) == 0)
    }

    async fn rename_by(&self, handle: usize, (from, to, replace): &Rename) -> Renamed {
        let renamed = self.handles[handle].rename(&self.acme, from, to, *replace);
        renamed.await.expect("the store answers")
    }

    async fn rename(&mut self, handle: usize) {
        let rename = self.new_name();
        let answer = self.rename_by(handle, &rename).await;
        assert_eq!(answer, self.model.rename(&rename));
    }

    /// A file goes to one name, and none is lost that was not to be replaced.
    async fn rename_at_once(&mut self) {
        let (mut one, mut other) = (self.new_name(), self.new_name());
        match self.dice.roll(2) {
            0 => other.0 = one.0.clone(),
            _ => other.1 = one.1.clone(),
        }
        (one.2, other.2) = (false, false);
        let renames = [one, other];
        let answers = join(
            self.rename_by(0, &renames[0]),
            self.rename_by(1, &renames[1]),
        )
        .await;
        let seen = self.listed(0).await;
        let act = |model: &mut Model, handle: usize| model.rename(&renames[handle]);
        either_seen(&mut self.model, act, &answers, |after| {
            after.listed() == seen
        });
    }

    /// One of both deleted it.
    async fn remove_at_once(&mut self) {
        let name = self.name();
        let [left, right] = &self.handles;
        let (one, other) = join(
            left.remove(&self.acme, &name),
            right.remove(&self.acme, &name),
        )
        .await;
        let gone = [one, other].map(|one| usize::from(one.expect("the store answers")));
        let was_there = self.model.files.remove(&name).is_some();
        assert_eq!(gone[0] + gone[1], usize::from(was_there));
    }

    async fn listed(&self, handle: usize) -> Vec<UserFile> {
        let listed = self.handles[handle].list(&self.acme, None).await;
        listed.expect("the store answers")
    }

    /// Both see the same, and what is true.
    async fn look(&mut self) {
        let name = self.name();
        for (handle, files) in self.handles.iter().enumerate() {
            let settings = files.settings(&self.acme).await;
            let settings = settings.expect("the store answers");
            assert_eq!(text(&settings), text(&self.model.settings));
            assert_eq!(self.listed(handle).await, self.model.listed());
            let kept = files.read(&self.acme, &name).await;
            let kept = kept.expect("the store answers");
            assert_eq!(kept, self.model.bytes(&name), "{name}");
        }
    }
}

/// Settings with their order, which comparing objects passes over.
fn text(settings: &Map<String, Value>) -> String {
    Value::Object(settings.clone()).to_string()
}
