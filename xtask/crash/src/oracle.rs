//! What the world outside the server knows, and what the server may therefore not say.
//!
//! Everything is written down before it is sent and again when it was acknowledged, in memory and in a file. The judging
//! functions are pure: they are given what the server says now.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::calls::Calls;
use super::tally::{Kind, Violation};
use super::v1::V1;
use it::random::Random;

/// Everything that was sent and acknowledged in one installation.
pub(super) struct Oracle {
    /// By idempotency key.
    pub(super) submissions: BTreeMap<String, Submission>,
    /// By idempotency key.
    pub(super) uploads: BTreeMap<String, Upload>,
    /// The jobs that were seen to be over, by id.
    pub(super) ends: BTreeMap<String, JobEnd>,
    /// When each of them was seen to be.
    known: BTreeMap<String, Moment>,
    /// Keys that were sent since the last check.
    pub(super) unchecked: BTreeSet<String>,
    /// The key of every acknowledged job.
    keys: BTreeMap<String, String>,
    /// How long the installation keeps jobs, where it is short.
    short_life: Option<Duration>,
    /// Calls of models, once there is an account that pays for them.
    pub(super) calls: Option<Calls>,
    /// Prompts and user files.
    pub(super) v1: V1,
    journal: Box<dyn Write + Send>,
}

/// A submission that was sent.
#[derive(Debug, Clone)]
pub(super) struct Submission {
    pub(super) body: String,
    /// When it was sent for its job, or sent first while there is none; that job was made then or later.
    sent: Instant,
    /// When it was sent again first since its last answer: a kill may have taken the answer of a job that was made then.
    sent_again: Option<Instant>,
    /// Its job, once it was acknowledged.
    pub(super) job: Option<String>,
}

/// An upload that was sent.
#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) content: Content,
    /// `blake3:` and hexadecimal digits.
    pub(super) hash: String,
    /// Whether it asked for a short life.
    pub(super) asks_short: bool,
    /// When it may be gone, for one with a short life.
    pub(super) expires: Option<Instant>,
    /// Its asset, once it was acknowledged.
    pub(super) asset: Option<String>,
    pub(super) deletion: Deletion,
}

/// The bytes of a file, remembered by what they follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) seed: u64,
    pub(super) size: usize,
}

/// How far a deletion came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    NotSent,
    Sent,
    Acknowledged,
}

/// A job that was seen to be over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobEnd {
    pub(super) status: String,
    /// Hashes by asset id.
    pub(super) outputs: BTreeMap<String, String>,
}

/// A moment in time, and in the order in which ends of jobs became known.
///
/// Clients work beside each other, so an answer may be read after another that was given later. What an answer says is
/// held against what was known when it was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    known: usize,
    at: Instant,
}

/// The statuses that a job does not leave.
const TERMINAL: [&str; 4] = ["succeeded", "canceled", "failed", "expired"];
/// A record that asked for a short life may read as gone a little before its time: clocks are read at different moments.
const EARLY: Duration = Duration::from_secs(2);

impl Content {
    pub(super) fn bytes(self) -> Vec<u8> {
        Random::of_all(&[self.seed]).bytes(self.size)
    }
}

impl Upload {
    /// Whether the server may say that there is no such asset.
    pub(super) fn may_be_gone(&self) -> bool {
        let expired = |at: Instant| Instant::now() + EARLY >= at;
        self.deletion != Deletion::NotSent || self.expires.is_some_and(expired)
    }
}

/// The hash of bytes as the API writes it.
pub(super) fn hash_of(bytes: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(bytes).to_hex())
}

impl Oracle {
    /// An oracle of an installation that keeps jobs for `short_life`, if it is short; writes its journal to `journal`.
    pub(super) fn new(short_life: Option<Duration>, journal: Box<dyn Write + Send>) -> Self {
        Self {
            short_life,
            submissions: BTreeMap::new(),
            uploads: BTreeMap::new(),
            ends: BTreeMap::new(),
            known: BTreeMap::new(),
            unchecked: BTreeSet::new(),
            keys: BTreeMap::new(),
            calls: None,
            v1: V1::default(),
            journal,
        }
    }

    /// A submission is about to be sent.
    pub(super) fn submitting(&mut self, key: &str, body: &str) {
        self.note(&json!({"sent": "submission", "key": key, "body": body}));
        let submission = Submission {
            body: body.to_owned(),
            sent: Instant::now(),
            sent_again: None,
            job: None,
        };
        self.submissions.insert(key.to_owned(), submission);
        self.unchecked.insert(key.to_owned());
    }

    /// A submission is about to be sent again.
    pub(super) fn submitting_again(&mut self, key: &str) {
        if let Some(submission) = self.submissions.get_mut(key) {
            submission.sent_again.get_or_insert_with(Instant::now);
        }
    }

    /// A submission was answered with a job: always the same one for a key, and of no other key.
    ///
    /// `asked` is when it was sent this time.
    pub(super) fn submitted(
        &mut self,
        key: &str,
        job: &str,
        asked: Moment,
    ) -> Result<(), Violation> {
        self.note(&json!({"acknowledged": "submission", "key": key, "job": job}));
        let owner = self
            .keys
            .entry(job.to_owned())
            .or_insert_with(|| key.to_owned());
        if owner != key {
            let what = format!("job {job} answers the keys {owner} and {key}");
            return Err(Violation::new(Kind::Lost, what));
        }
        let may_be_gone = self.job_may_be_gone(key);
        let Some(submission) = self.submissions.get_mut(key) else {
            return Ok(());
        };
        let sent_again = submission.sent_again.take();
        match &submission.job {
            // A key goes with its job.
            Some(first) if first != job && may_be_gone => {
                submission.job = Some(job.to_owned());
                submission.sent = sent_again.unwrap_or(asked.at);
                Ok(())
            }
            Some(first) if first != job => {
                let what = format!("key {key} has the jobs {first} and {job}");
                Err(Violation::new(Kind::Duplicated, what))
            }
            Some(_) => Ok(()),
            None => {
                submission.job = Some(job.to_owned());
                Ok(())
            }
        }
    }

    /// Whether the time of the job of `key` may be over.
    pub(super) fn job_may_be_gone(&self, key: &str) -> bool {
        let sent = self.submissions.get(key).map(|submission| submission.sent);
        sent.is_some_and(|sent| self.may_be_gone_since(sent))
    }

    /// Whether the time of a job that was sent then may be over.
    pub(super) fn may_be_gone_since(&self, sent: Instant) -> bool {
        self.short_life
            .is_some_and(|life| Instant::now() >= sent + life)
    }

    /// Whether jobs, and with them their outputs, may be gone at all.
    pub(super) fn is_short_lived(&self) -> bool {
        self.short_life.is_some()
    }

    /// The moment until which everything is known; to be taken before the server is asked.
    pub(super) fn moment(&self) -> Moment {
        Moment {
            known: self.known.len(),
            at: Instant::now(),
        }
    }

    /// The server, asked at `asked`, shows a job of `key`: it bears its key, and once it is over it stays as it was.
    pub(super) fn job_seen(
        &mut self,
        key: &str,
        job: &Value,
        asked: Moment,
    ) -> Result<(), Violation> {
        let id = job["id"].as_str().unwrap_or_default();
        if job["metadata"]["key"] != *key {
            let what = format!("job {id} of key {key} is another one: {}", job["metadata"]);
            return Err(Violation::new(Kind::Lost, what));
        }
        let Some(now) = JobEnd::of(job) else {
            let was_known = self
                .known
                .get(id)
                .is_some_and(|end| end.known < asked.known);
            return match self.ends.get(id).filter(|_| was_known) {
                Some(end) => {
                    let what = format!("job {id} was {} and is {}", end.status, job["status"]);
                    Err(Violation::new(Kind::Shrunk, what))
                }
                None => Ok(()),
            };
        };
        match self.ends.get(id) {
            None => {
                self.note(&json!({"over": id, "status": now.status, "outputs": now.outputs}));
                self.known.insert(id.to_owned(), self.moment());
                self.ends.insert(id.to_owned(), now);
                Ok(())
            }
            Some(end) if end.status != now.status => {
                let what = format!("job {id} was {} and is {}", end.status, now.status);
                Err(Violation::new(Kind::Shrunk, what))
            }
            Some(end) if end.outputs != now.outputs => {
                let what = format!("job {id} had {:?} and has {:?}", end.outputs, now.outputs);
                Err(Violation::new(Kind::Shrunk, what))
            }
            Some(_) => Ok(()),
        }
    }

    /// An upload is about to be sent.
    pub(super) fn uploading(&mut self, key: &str, upload: Upload) {
        self.note(&json!({"sent": "upload", "key": key, "hash": upload.hash, "size": upload.content.size}));
        self.uploads.insert(key.to_owned(), upload);
        self.unchecked.insert(key.to_owned());
    }

    /// An upload was answered with an asset: always the same one for a key, with the hash of what was sent.
    pub(super) fn uploaded(&mut self, key: &str, asset: &Value) -> Result<(), Violation> {
        self.note(&json!({"acknowledged": "upload", "key": key, "asset": asset["id"]}));
        let Some(upload) = self.uploads.get_mut(key) else {
            return Ok(());
        };
        let id = asset["id"].as_str().unwrap_or_default();
        if asset["hash"] != *upload.hash {
            let what = format!(
                "upload {key} has the hash {} and not {}",
                asset["hash"], upload.hash
            );
            return Err(Violation::new(Kind::Partial, what));
        }
        match &upload.asset {
            Some(first) if first != id && !upload.may_be_gone() => {
                let what = format!("key {key} has the assets {first} and {id}");
                Err(Violation::new(Kind::Duplicated, what))
            }
            Some(_) | None => {
                upload.asset = Some(id.to_owned());
                Ok(())
            }
        }
    }

    /// A deletion is about to be sent, or was acknowledged.
    pub(super) fn deletion(&mut self, key: &str, deletion: Deletion) {
        self.note(&json!({"deletion": format!("{deletion:?}"), "key": key}));
        if let Some(upload) = self.uploads.get_mut(key) {
            upload.deletion = deletion;
        }
        self.unchecked.insert(key.to_owned());
    }

    /// The server answers a read of the bytes of an acknowledged upload.
    pub(super) fn content_seen(
        &self,
        key: &str,
        status: u16,
        body: &[u8],
    ) -> Result<(), Violation> {
        let Some(upload) = self.uploads.get(key) else {
            return Ok(());
        };
        match status {
            200 if upload.deletion == Deletion::Acknowledged => {
                let what = format!("upload {key} was deleted and is read");
                Err(Violation::new(Kind::Revived, what))
            }
            200 if hash_of(body) != upload.hash => {
                let (has, size) = (body.len(), upload.content.size);
                let what = format!(
                    "upload {key} reads as {has} bytes that are not the {size} that were sent"
                );
                Err(Violation::new(Kind::Partial, what))
            }
            200 => Ok(()),
            404 if upload.may_be_gone() => Ok(()),
            _ => {
                let what = format!("upload {key} is answered {status}");
                Err(Violation::new(Kind::Lost, what))
            }
        }
    }

    /// How many submissions and uploads were acknowledged, and how many deletions.
    pub(super) fn acknowledged(&self) -> (u64, u64, u64) {
        let jobs = self
            .submissions
            .values()
            .filter(|submission| submission.job.is_some());
        let uploads = self
            .uploads
            .values()
            .filter(|upload| upload.asset.is_some());
        let deleted = |upload: &&Upload| upload.deletion == Deletion::Acknowledged;
        let deletions = self.uploads.values().filter(deleted);
        (
            jobs.count() as u64,
            uploads.count() as u64,
            deletions.count() as u64,
        )
    }

    fn note(&mut self, line: &Value) {
        // The journal is for people; a full disk must not hide what the oracle has to say.
        let _ = writeln!(self.journal, "{line}");
    }
}

impl JobEnd {
    /// The end that a job shows, if it is over.
    pub(super) fn of(job: &Value) -> Option<Self> {
        let status = job["status"].as_str()?;
        if !TERMINAL.contains(&status) {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let outputs = job["outputs"].as_array().into_iter().flatten();
        Some(Self {
            status: status.to_owned(),
            outputs: outputs
                .map(|output| (text(&output["id"]), text(&output["hash"])))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests;
