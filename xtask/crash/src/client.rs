//! One client of a cycle: does what its random numbers say until the server is gone.

mod calls;
mod v1;

pub(super) use calls::send_call;
pub(super) use v1::target;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use super::oracle::{Content, Deletion, Moment, Oracle, Upload, hash_of};
use super::tally::{Kind, Violation};
use it::http::{Answer, Connection, post_json, request};
use it::load::form;
use it::load::graphs::{invert, labelled, noise, several, solid};
use it::random::Random;

/// An oracle that clients share; held only between requests.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Oracle>>);

/// A client.
pub(super) struct Client {
    pub(super) oracle: Shared,
    pub(super) random: Random,
    /// What its keys begin with.
    pub(super) prefix: String,
}

/// Most changes that a client makes in a cycle; then it only looks, so that installations stay small enough to be checked.
const MOST_CHANGES: u64 = 18;
/// The longest pause between two requests.
const LONGEST_PAUSE_US: u64 = 4_000;
/// The life of the uploads that ask for a short one: the shortest that the API grants.
const SHORT_LIFE_S: u64 = 60;
/// How long installations of a short life keep uploads that ask for nothing.
pub(super) const UPLOAD_LIFE: Duration = Duration::from_secs(3);
/// Pictures of a job that makes noise: some dozen such jobs fill what the store keeps of pictures with its rows.
const NOISES: u64 = 12;
/// How recent a job is that is looked at or cancelled.
const RECENT: usize = 16;

impl Shared {
    pub(super) fn new(oracle: Oracle) -> Self {
        Self(Arc::new(Mutex::new(oracle)))
    }

    /// The oracle; a client that panicked leaves it as whole as it was.
    pub(super) fn lock(&self) -> MutexGuard<'_, Oracle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Works until the connection breaks; returns what the server did wrong meanwhile.
    pub(super) async fn run(mut self, server: SocketAddr) -> Vec<Violation> {
        let mut violations = Vec::new();
        let Ok(mut connection) = Connection::open(server).await else {
            return violations;
        };
        for number in 0.. {
            // An error is the end that every cycle comes to; what was sent by then is in the oracle.
            match self.once(&mut connection, number).await {
                Ok(Ok(())) => {}
                Ok(Err(violation)) => violations.push(violation),
                Err(_) => break,
            }
            sleep(Duration::from_micros(self.random.below(LONGEST_PAUSE_US))).await;
        }
        violations
    }

    async fn once(
        &mut self,
        connection: &mut Connection,
        number: u64,
    ) -> io::Result<Result<(), Violation>> {
        let key = format!("{}-{number}", self.prefix);
        match self.random.below(100) {
            _ if number >= MOST_CHANGES => self.look(connection).await,
            0..23 => self.submit(connection, &key).await,
            23..38 => self.upload(connection, &key).await,
            38..44 => self.cancel(connection).await,
            44..50 => self.delete(connection).await,
            50..74 if self.makes_calls() => self.call(connection, &key).await,
            50..74 => self.submit(connection, &key).await,
            74..79 => self.replay(connection).await,
            79..85 => self.prompt(connection).await,
            85..92 => self.save(connection).await,
            92..95 => self.remove(connection).await,
            _ => self.look(connection).await,
        }
    }

    fn makes_calls(&self) -> bool {
        self.oracle.lock().calls.is_some()
    }

    async fn submit(
        &mut self,
        connection: &mut Connection,
        key: &str,
    ) -> io::Result<Result<(), Violation>> {
        let body = labelled(&self.graph(), key);
        self.oracle.lock().submitting(key, &body);
        let asked = self.oracle.lock().moment();
        let answer = submit(connection, key, &body).await?;
        Ok(submission_answered(&self.oracle, key, &answer, asked))
    }

    /// A small graph, one with many outputs, one with large ones, or one over an output of an earlier job.
    fn graph(&mut self) -> String {
        let color = self.random.next();
        match self.random.below(5) {
            0 => several(color % 1_000_000, 6),
            4 => noise(color % 1_000_000, NOISES),
            1 => {
                let oracle = self.oracle.lock();
                if oracle.is_short_lived() {
                    // The picture might go before the job is sent again.
                    return solid(color % 1_000_000);
                }
                let ends = oracle.ends.values().rev().take(RECENT);
                let outputs: Vec<&String> = ends.flat_map(|end| end.outputs.keys()).collect();
                let output = self.random.pick(&outputs);
                output.map_or_else(|| solid(color % 1_000_000), |output| invert(output))
            }
            _ => solid(color % 1_000_000),
        }
    }

    async fn upload(
        &mut self,
        connection: &mut Connection,
        key: &str,
    ) -> io::Result<Result<(), Violation>> {
        let content = self.content();
        let short = self.random.below(10) == 0;
        let bytes = content.bytes();
        let upload = Upload {
            content,
            hash: hash_of(&bytes),
            asks_short: short,
            expires: match (short, self.oracle.lock().is_short_lived()) {
                (true, _) => Some(Instant::now() + Duration::from_secs(SHORT_LIFE_S)),
                (false, true) => Some(Instant::now() + UPLOAD_LIFE),
                (false, false) => None,
            },
            asset: None,
            deletion: Deletion::NotSent,
        };
        self.oracle.lock().uploading(key, upload.clone());
        let answer = send_upload(connection, key, &upload, &bytes).await?;
        Ok(upload_answered(&self.oracle, key, &answer))
    }

    /// Bytes of any size, now and then those of an earlier upload.
    fn content(&mut self) -> Content {
        if self.random.below(5) == 0 {
            let oracle = self.oracle.lock();
            let uploads: Vec<&Upload> = oracle.uploads.values().collect();
            if let Some(upload) = self.random.pick(&uploads) {
                return upload.content;
            }
        }
        let most = match self.random.below(4) {
            0 => 3_000_000,
            1 => 300_000,
            _ => 5_000,
        };
        Content {
            seed: self.random.next(),
            size: usize::try_from(1 + self.random.below(most)).unwrap_or(1),
        }
    }

    async fn cancel(&mut self, connection: &mut Connection) -> io::Result<Result<(), Violation>> {
        let Some((key, job)) = self.recent_job() else {
            return Ok(Ok(()));
        };
        let target = format!("/api/v2/jobs/{job}/cancel");
        let asked = self.oracle.lock().moment();
        let answer = connection.send(&post_json(&target, "", "")).await?;
        Ok(job_answered(&self.oracle, &key, &answer, asked))
    }

    async fn look(&mut self, connection: &mut Connection) -> io::Result<Result<(), Violation>> {
        let Some((key, job)) = self.recent_job() else {
            return Ok(Ok(()));
        };
        let asked = self.oracle.lock().moment();
        let answer = connection
            .send(&request("GET", &format!("/api/v2/jobs/{job}")))
            .await?;
        Ok(job_answered(&self.oracle, &key, &answer, asked))
    }

    /// Key and id of one of the jobs that were acknowledged last.
    fn recent_job(&mut self) -> Option<(String, String)> {
        let oracle = self.oracle.lock();
        let acknowledged = oracle
            .submissions
            .iter()
            .rev()
            .filter_map(|(key, submission)| Some((key.clone(), submission.job.clone()?)));
        let recent: Vec<_> = acknowledged.take(RECENT).collect();
        self.random.pick(&recent).cloned()
    }

    async fn delete(&mut self, connection: &mut Connection) -> io::Result<Result<(), Violation>> {
        let found = {
            let oracle = self.oracle.lock();
            let there = oracle
                .uploads
                .iter()
                .filter(|(_, upload)| !upload.may_be_gone());
            let there: Vec<_> = there
                .filter_map(|(key, upload)| Some((key.clone(), upload.asset.clone()?)))
                .collect();
            self.random.pick(&there).cloned()
        };
        let Some((key, asset)) = found else {
            return Ok(Ok(()));
        };
        self.oracle.lock().deletion(&key, Deletion::Sent);
        let answer = connection
            .send(&request("DELETE", &format!("/api/v2/assets/{asset}")))
            .await?;
        Ok(match answer.status {
            204 => {
                self.oracle.lock().deletion(&key, Deletion::Acknowledged);
                Ok(())
            }
            // Another client deleted it meanwhile.
            404 => Ok(()),
            _ => Err(unexpected("a deletion", &answer)),
        })
    }
}

/// Sends a submission.
pub(super) async fn submit(
    connection: &mut Connection,
    key: &str,
    body: &str,
) -> io::Result<Answer> {
    let header = format!("Idempotency-Key: {key}\r\n");
    connection
        .send(&post_json("/api/v2/jobs", &header, body))
        .await
}

/// Tells the oracle of the answer to a submission. A full queue is no fault and leaves the key free.
pub(super) fn submission_answered(
    oracle: &Shared,
    key: &str,
    answer: &Answer,
    asked: Moment,
) -> Result<(), Violation> {
    match answer.status {
        201 => {
            let job = body(answer)?;
            let mut oracle = oracle.lock();
            oracle.submitted(key, job["id"].as_str().unwrap_or_default(), asked)?;
            oracle.job_seen(key, &job, asked)
        }
        429 => Ok(()),
        _ => Err(unexpected("a submission", answer)),
    }
}

/// Sends an upload.
pub(super) async fn send_upload(
    connection: &mut Connection,
    key: &str,
    upload: &Upload,
    bytes: &[u8],
) -> io::Result<Answer> {
    let life = SHORT_LIFE_S.to_string();
    let mut fields = vec![("expected_hash", upload.hash.as_str())];
    fields.extend(upload.asks_short.then_some(("expires_in", life.as_str())));
    let header = format!("Idempotency-Key: {key}\r\n");
    let form = form::Upload::new(&format!("{key}.bin"), bytes.len(), &fields, &header);
    connection.send(&form.around(bytes)).await
}

/// Tells the oracle of the answer to an upload.
pub(super) fn upload_answered(
    oracle: &Shared,
    key: &str,
    answer: &Answer,
) -> Result<(), Violation> {
    match answer.status {
        200 | 201 => oracle.lock().uploaded(key, &body(answer)?),
        _ => Err(unexpected("an upload", answer)),
    }
}

/// Tells the oracle what an acknowledged job looks like.
pub(super) fn job_answered(
    oracle: &Shared,
    key: &str,
    answer: &Answer,
    asked: Moment,
) -> Result<(), Violation> {
    match answer.status {
        200 => oracle.lock().job_seen(key, &body(answer)?, asked),
        404 if oracle.lock().job_may_be_gone(key) => Ok(()),
        404 => Err(Violation::new(
            Kind::Lost,
            format!("the job of key {key} is not there"),
        )),
        _ => Err(unexpected("a job", answer)),
    }
}

pub(super) fn body(answer: &Answer) -> Result<Value, Violation> {
    answer
        .try_json()
        .map_err(|error| Violation::new(Kind::Fault, error.to_string()))
}

pub(super) fn unexpected(what: &str, answer: &Answer) -> Violation {
    let what = format!("{what} was answered {}: {}", answer.status, answer.text());
    Violation::new(Kind::Fault, what)
}
