//! Asks a server that was started again for everything that the oracle knows.
//!
//! An error of these functions is the connection's: the server went away while it was asked.

mod calls;
mod v1;

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use super::client::{
    Shared, body, job_answered, send_upload, submission_answered, submit, unexpected,
    upload_answered,
};
use super::oracle::{Submission, Upload, hash_of};
use super::tally::{Kind, Violation};
use it::http::{Answer, Connection, request};
use it::random::Random;

/// How many older keys are checked again after each start.
const OLDER: usize = 8;
/// A job that is not over by then never will be.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The pause before a job that still runs is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A check in progress.
pub(super) struct Check<'a> {
    pub(super) connection: Connection,
    pub(super) oracle: &'a Shared,
    pub(super) violations: &'a mut Vec<Violation>,
    /// Outputs whose bytes were read.
    pub(super) outputs: u64,
}

impl Check<'_> {
    /// Checks what was sent since the last check, and some of what is older.
    pub(super) async fn recent(&mut self, random: &mut Random) -> io::Result<()> {
        let mut keys = self.oracle.lock().unchecked.clone();
        let all = self.keys();
        keys.extend((0..OLDER).filter_map(|_| random.pick(&all).cloned()));
        self.sent(&keys).await?;
        self.calls(Some(random)).await?;
        self.v1(Some(random)).await?;
        let checked = |key: &String| !keys.contains(key);
        self.oracle.lock().unchecked.retain(checked);
        Ok(())
    }

    /// Checks everything: also that every job ends, that its outputs can be read, and that the list shows each job once.
    pub(super) async fn everything(&mut self, records: &[(String, String)]) -> io::Result<()> {
        let keys = self.keys().into_iter().collect();
        self.sent(&keys).await?;
        self.calls(None).await?;
        self.v1(None).await?;
        self.ends().await?;
        self.output_bytes().await?;
        self.list().await?;
        self.records(records).await
    }

    fn keys(&self) -> Vec<String> {
        let oracle = self.oracle.lock();
        oracle
            .submissions
            .keys()
            .chain(oracle.uploads.keys())
            .cloned()
            .collect()
    }

    async fn sent(&mut self, keys: &BTreeSet<String>) -> io::Result<()> {
        for key in keys {
            let (submission, upload) = {
                let oracle = self.oracle.lock();
                (
                    oracle.submissions.get(key).cloned(),
                    oracle.uploads.get(key).cloned(),
                )
            };
            if let Some(submission) = submission {
                self.submission(key, &submission).await?;
            }
            if let Some(upload) = upload {
                self.upload(key, &upload).await?;
            }
        }
        Ok(())
    }

    /// An acknowledged job is there with the graph that was sent; sending again gives that very job.
    async fn submission(&mut self, key: &str, sent: &Submission) -> io::Result<()> {
        if let Some(job) = &sent.job {
            let judged = self.job(key, job).await?;
            self.judge(judged);
            let answer = self.get(&format!("/api/v2/jobs/{job}/workflow")).await?;
            let gone = answer.status == 404 && self.oracle.lock().job_may_be_gone(key);
            if !gone {
                self.judge(same_graph(key, &sent.body, &answer));
            }
        }
        let asked = {
            let mut oracle = self.oracle.lock();
            oracle.submitting_again(key);
            oracle.moment()
        };
        let answer = submit(&mut self.connection, key, &sent.body).await?;
        let judged = submission_answered(self.oracle, key, &answer, asked);
        self.judge(judged);
        Ok(())
    }

    /// The bytes of an acknowledged upload are whole; one that was not acknowledged can be sent again and is whole then.
    async fn upload(&mut self, key: &str, sent: &Upload) -> io::Result<()> {
        if sent.asset.is_none() {
            let answer =
                send_upload(&mut self.connection, key, sent, &sent.content.bytes()).await?;
            let judged = upload_answered(self.oracle, key, &answer);
            self.judge(judged);
        }
        let asset = self.oracle.lock().uploads[key].asset.clone();
        if let Some(asset) = asset {
            let answer = self.get(&format!("/api/v2/assets/{asset}/content")).await?;
            let judged = self
                .oracle
                .lock()
                .content_seen(key, answer.status, &answer.body);
            self.judge(judged);
        }
        Ok(())
    }

    /// Waits until every job is over.
    async fn ends(&mut self) -> io::Result<()> {
        let jobs: Vec<(String, String)> = {
            let oracle = self.oracle.lock();
            let acknowledged = oracle.submissions.iter();
            acknowledged
                .filter_map(|(key, submission)| Some((key.clone(), submission.job.clone()?)))
                .collect()
        };
        let deadline = Instant::now() + LONGEST_WAIT;
        for (key, job) in jobs {
            while !self.oracle.lock().ends.contains_key(&job) {
                if self.oracle.lock().job_may_be_gone(&key) {
                    break;
                }
                if let Err(violation) = self.job(&key, &job).await? {
                    self.violations.push(violation);
                    break;
                }
                if Instant::now() >= deadline {
                    let what = format!("job {job} of key {key} is not over after a minute");
                    self.violations.push(Violation::new(Kind::Endless, what));
                    return Ok(());
                }
                sleep(LOOK_AGAIN).await;
            }
        }
        Ok(())
    }

    /// Reads every output of every job that is over.
    async fn output_bytes(&mut self) -> io::Result<()> {
        let outputs: Vec<(String, String)> = {
            let oracle = self.oracle.lock();
            let ends = oracle.ends.values().flat_map(|end| end.outputs.clone());
            ends.collect()
        };
        for (asset, hash) in outputs {
            let answer = self.get(&format!("/api/v2/assets/{asset}/content")).await?;
            self.outputs += 1;
            if answer.status == 404 && self.oracle.lock().is_short_lived() {
                continue;
            }
            if answer.status != 200 {
                let what = format!("output {asset} is answered {}", answer.status);
                self.violations.push(Violation::new(Kind::Lost, what));
            } else if hash_of(&answer.body) != hash {
                let what = format!("output {asset} reads as other bytes than {hash}");
                self.violations.push(Violation::new(Kind::Partial, what));
            }
        }
        Ok(())
    }

    /// Walks through the list of jobs: every acknowledged one is in it, and no key twice.
    async fn list(&mut self) -> io::Result<()> {
        let mut seen = BTreeSet::new();
        let mut cursor = String::new();
        loop {
            let answer = self.get(&format!("/api/v2/jobs?limit=100{cursor}")).await?;
            let page = match answer.status {
                200 => body(&answer),
                _ => Err(unexpected("a page of the list", &answer)),
            };
            let page = match page {
                Ok(page) => page,
                Err(violation) => {
                    self.violations.push(violation);
                    return Ok(());
                }
            };
            for job in page["jobs"].as_array().into_iter().flatten() {
                // Prompts have none.
                let Some(key) = job["metadata"]["key"].as_str() else {
                    continue;
                };
                if !seen.insert(key.to_owned()) {
                    let what = format!(
                        "the list shows key {key} twice, the second time as {}",
                        job["id"]
                    );
                    self.violations.push(Violation::new(Kind::Duplicated, what));
                }
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let oracle = self.oracle.lock();
        let acknowledged = oracle
            .submissions
            .iter()
            .filter(|(_, sent)| sent.job.is_some());
        let gone = |key: &String| oracle.job_may_be_gone(key);
        for (key, _) in acknowledged.filter(|(key, _)| !seen.contains(*key) && !gone(key)) {
            let what = format!("the list does not show the job of key {key}");
            self.violations.push(Violation::new(Kind::Lost, what));
        }
        Ok(())
    }

    /// Every record that the database has leads to bytes with its hash, known to the oracle or not.
    async fn records(&mut self, records: &[(String, String)]) -> io::Result<()> {
        for (id, hash) in records {
            let asset = dashed(id);
            let answer = self.get(&format!("/api/v2/assets/{asset}/content")).await?;
            let known = self.may_be_gone(&asset);
            match answer.status {
                200 if hash_of(&answer.body) == format!("blake3:{hash}") => {}
                404 if known => {}
                status => {
                    let what = format!(
                        "record {asset} of {hash} is answered {status} with {} bytes",
                        answer.body.len()
                    );
                    self.violations.push(Violation::new(Kind::Partial, what));
                }
            }
        }
        Ok(())
    }

    /// Whether an asset was deleted or asked for a short life. One whose upload was never acknowledged is unknown, and may
    /// have asked for a short life, too.
    fn may_be_gone(&self, asset: &str) -> bool {
        let oracle = self.oracle.lock();
        let mut uploads = oracle.uploads.values();
        uploads
            .find(|upload| upload.asset.as_deref() == Some(asset))
            .is_none_or(Upload::may_be_gone)
    }

    /// Looks at a job.
    async fn job(&mut self, key: &str, job: &str) -> io::Result<Result<(), Violation>> {
        let asked = self.oracle.lock().moment();
        let answer = self.get(&format!("/api/v2/jobs/{job}")).await?;
        Ok(job_answered(self.oracle, key, &answer, asked))
    }

    async fn get(&mut self, target: &str) -> io::Result<Answer> {
        self.connection.send(&request("GET", target)).await
    }

    fn judge(&mut self, judged: Result<(), Violation>) {
        self.violations.extend(judged.err());
    }
}

/// The server gives back the graph that was sent.
fn same_graph(key: &str, sent: &str, answer: &Answer) -> Result<(), Violation> {
    if answer.status != 200 {
        return Err(unexpected("a graph", answer));
    }
    let sent: Value = serde_json::from_str(sent).unwrap_or_default();
    if body(answer)?["workflow"] == sent["workflow"] {
        return Ok(());
    }
    let what = format!("the job of key {key} has another graph");
    Err(Violation::new(Kind::Lost, what))
}

/// A UUID as the API writes it.
fn dashed(digits: &str) -> String {
    let cut = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    let parts = cut.map(|(from, to)| digits.get(from..to).unwrap_or_default());
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_the_one_that_was_sent() {
        let answer = |status, text: &str| Answer {
            status,
            headers: it::http::Headers::default(),
            body: text.as_bytes().to_vec(),
        };
        let sent = r#"{"workflow":{"1":{"a":[1,2]}},"metadata":{}}"#;
        assert!(same_graph("k", sent, &answer(200, r#"{"workflow":{"1":{"a":[1,2]}}}"#)).is_ok());
        assert!(same_graph("k", sent, &answer(200, r#"{"workflow":{"1":{"a":[1]}}}"#)).is_err());
        assert!(same_graph("k", sent, &answer(404, "{}")).is_err());
    }

    #[test]
    fn an_id_gets_its_dashes() {
        let id = dashed("01a1fd8a09f6735fba2dab42bee6ccc8");
        assert_eq!(id, "01a1fd8a-09f6-735f-ba2d-ab42bee6ccc8");
    }
}
