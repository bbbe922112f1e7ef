//! What a caller may ask of jobs: submit, look, list, cancel, follow.

use std::sync::Arc;

use accounts::{AccountId, Fingerprint, Tier};
use asset_store::{AssetId, Assets, AssetsError, FilePath, KeyClaim};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use serde_json::Value;

use crate::pace::Pace;
use crate::references::{Reference, references};
use crate::{
    Engine, Epoch, Follower, Graph, GraphError, InsertJob, InsertJobOutcome, Job, JobBody,
    JobChange, JobCursor, JobEvent, JobFeed, JobId, JobLog, JobQuery, JobQueue, JobStatus,
    JobStore, Metadata, Placement, Plan, Progress, QueueBounds, ResolvedFile, ResolvedFiles,
    SaveJob, SaveOutcome, Secrets, StoreError, Validation, validate,
};

/// How long a submission's idempotency key is kept at least; it lives as long as its job.
const KEY_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Jobs of all accounts, as callers see them.
#[derive(Clone)]
pub struct Jobs {
    ports: JobPorts,
    assets: Assets,
    config: JobsConfig,
    pace: Arc<Pace>,
}

/// The ports behind jobs.
#[derive(Clone)]
pub struct JobPorts {
    /// The rows.
    pub store: Arc<dyn JobStore>,
    /// The queue.
    pub queue: Arc<dyn JobQueue>,
    /// What changed.
    pub feed: Arc<dyn JobFeed>,
    /// What runs graphs.
    pub engine: Arc<dyn Engine>,
    /// Secrets of submissions, in this process only.
    pub secrets: Secrets,
}

/// What an operator settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsConfig {
    /// How long a job is kept once it is over.
    pub retention: SignedDuration,
    /// How many jobs of all accounts may wait.
    pub queued_jobs: u32,
}

/// A graph to be run.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Identifies the new job.
    pub id: JobId,
    /// Whose it will be.
    pub account: AccountId,
    /// What the account may hold.
    pub tier: Tier,
    /// The graph, as it came.
    pub workflow: Bytes,
    /// The caller's labels.
    pub metadata: Metadata,
    /// A secret for partner nodes.
    pub secret: Option<SecretString>,
    /// Digest of the caller's idempotency key, where one was sent.
    pub key: Option<[u8; 32]>,
    /// What the API that took it must remember of it.
    pub origin: Bytes,
}

/// A job with what its row does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// The job.
    pub job: Arc<Job>,
    /// The latest snapshot of its run: never behind that of the row.
    pub progress: Progress,
    /// How many jobs will be claimed before it, while it is queued: 0 is next.
    pub queue_position: Option<u64>,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Submitted {
    /// The job.
    pub view: JobView,
    /// Whether an earlier request with the same key made it.
    pub replayed: bool,
}

/// One page of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// Where to go on, unless this is the end.
    pub next: Option<JobCursor>,
}

/// Why an operation on jobs was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// The submission is no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Nodes of the graph are wrong.
    #[error("the workflow is invalid")]
    Invalid(Box<Validation>),
    /// No node of the graph is a reason to run it.
    #[error("the workflow has no output node; add one, such as SaveImage or PreviewImage")]
    NoOutputs,
    /// References to assets that the account does not have: node, field and what was written there.
    #[error("the workflow refers to an asset that does not exist")]
    MissingAsset(Vec<Reference>),
    /// The idempotency key was used with another request.
    #[error("the idempotency key was used for another workflow")]
    KeyReused(JobId),
    /// Too much is waiting.
    #[error("the queue is full")]
    QueueFull {
        /// After how many seconds to try again.
        retry_after_s: u64,
    },
    /// No engine can run anything yet.
    #[error("no worker is ready")]
    NotReady {
        /// After how many seconds to try again.
        retry_after_s: u64,
    },
    /// No such job, or another account's.
    #[error("no such job")]
    NotFound,
    /// The job store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The asset store failed.
    #[error("looking up the workflow's files failed")]
    Assets(#[source] AssetsError),
}

impl Jobs {
    /// A service over the ports.
    #[must_use]
    pub fn new(ports: JobPorts, assets: Assets, config: JobsConfig, pace: Arc<Pace>) -> Self {
        Self {
            ports,
            assets,
            config,
            pace,
        }
    }

    /// Takes a graph in: parsed, validated, its files found, durable when this returns.
    ///
    /// # Errors
    /// If anything is wrong with the graph, all of it at once; if the queue is full or a port fails. Nothing is then kept.
    pub async fn submit(
        &self,
        submission: Submission,
        now: Timestamp,
    ) -> Result<Submitted, JobsError> {
        let catalog = self.ports.engine.nodes();
        if catalog.is_empty() {
            return Err(JobsError::NotReady {
                retry_after_s: self.pace.retry_after_s(),
            });
        }
        let value: Value =
            serde_json::from_slice(&submission.workflow).map_err(|_| GraphError::NotAnObject)?;
        let fingerprint = fingerprint(&value, &submission.metadata);
        let graph = Graph::from_value(value)?;
        let files = self
            .resolve(&submission.account, references(&graph, &catalog), now)
            .await?;
        let validation = validate(&graph, &catalog, &files, None);
        if !validation.errors.is_empty() {
            return Err(JobsError::Invalid(Box::new(validation)));
        }
        let valid = validation.graph.ok_or(JobsError::NoOutputs)?;
        let plan = Plan::of(&valid);

        let (id, has_secret) = (submission.id, submission.secret.is_some());
        let mut classes: Vec<String> = valid
            .nodes
            .values()
            .map(|node| node.definition.class.clone())
            .collect();
        classes.sort_unstable();
        classes.dedup();
        let placement = Placement {
            classes,
            needs_secret: has_secret,
            account_room: submission.tier.concurrent_jobs,
        };
        let mut inputs: Vec<AssetId> = files.values().map(|file| file.asset).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let insert = InsertJob {
            claim: submission.key.map(|digest| KeyClaim {
                digest,
                fingerprint,
                expires_at: now.saturating_add(KEY_LIFETIME).unwrap_or(Timestamp::MAX),
            }),
            inputs,
            bounds: QueueBounds {
                account: submission.tier.queued_jobs,
                total: self.config.queued_jobs,
            },
            body: JobBody {
                workflow: submission.workflow,
                files,
                targets: None,
                origin: submission.origin,
                placement,
            },
            job: self.new_job(
                id,
                submission.account,
                submission.metadata,
                plan.nodes_total(),
                now,
            ),
        };

        // Before the insert: a worker may claim the job before this returns.
        if let Some(secret) = submission.secret {
            self.ports.secrets.put(id, secret);
        }
        let outcome = self.ports.store.insert(insert, now).await;
        let inserted = matches!(&outcome, Ok(InsertJobOutcome::Inserted(_)));
        if has_secret && !inserted {
            self.ports.secrets.forget(id);
        }
        match outcome? {
            InsertJobOutcome::Inserted(job) => {
                self.ports.feed.ring();
                Ok(Submitted {
                    view: self.view(job).await?,
                    replayed: false,
                })
            }
            InsertJobOutcome::Replayed(job) => Ok(Submitted {
                view: self.view(job).await?,
                replayed: true,
            }),
            InsertJobOutcome::KeyReused(id) => Err(JobsError::KeyReused(id)),
            InsertJobOutcome::QueueFull => Err(JobsError::QueueFull {
                retry_after_s: self.pace.retry_after_s(),
            }),
            InsertJobOutcome::InputGone(asset) => {
                Err(JobsError::MissingAsset(vec![Reference::gone(asset)]))
            }
        }
    }

    /// A job as it stands.
    ///
    /// # Errors
    /// [`JobsError::NotFound`] for an unknown id, another account's and an expired one alike.
    pub async fn get(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<JobView, JobsError> {
        let job = self
            .ports
            .store
            .load(account, id, now)
            .await?
            .ok_or(JobsError::NotFound)?;
        self.view(job).await
    }

    /// One page of jobs, newest first: each job exactly once, however many come meanwhile.
    ///
    /// # Errors
    /// If a port fails.
    pub async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<JobPage, JobsError> {
        // One more than asked for tells whether there is another page.
        let wanted = JobQuery {
            limit: query.limit + 1,
            ..query.clone()
        };
        let mut found = self.ports.store.list(&wanted, now).await?;
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        let next = found.last().filter(|_| more).map(|job| JobCursor {
            created_at: job.created_at,
            id: job.id,
        });
        let mut jobs = Vec::with_capacity(found.len());
        for job in found {
            jobs.push(self.view(job).await?);
        }
        Ok(JobPage { jobs, next })
    }

    /// The graph of a job, byte for byte as it was submitted.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn workflow(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Bytes, JobsError> {
        let body = self
            .ports
            .store
            .body(account, id, now)
            .await?
            .ok_or(JobsError::NotFound)?;
        Ok(body.workflow.clone())
    }

    /// What a job's run wrote, if it wrote anything yet.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, JobsError> {
        self.ports
            .store
            .load(account, id, now)
            .await?
            .ok_or(JobsError::NotFound)?;
        Ok(self.ports.store.log(account, id, now).await?)
    }

    /// Asks a job to stop. A queued one is canceled at once, a running one soon, a finished one stays as it is.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn cancel(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<JobView, JobsError> {
        loop {
            let before = self
                .ports
                .store
                .load(account, id, now)
                .await?
                .ok_or(JobsError::NotFound)?;
            let mut job = Job::clone(&before);
            job.apply(JobEvent::CancelRequested, now)
                .map_err(|_| JobsError::NotFound)?;
            if job.status == before.status {
                return self.view(before).await;
            }
            let save = SaveJob {
                job,
                outputs: Vec::new(),
                log: None,
                durability: crate::Durability::Now,
            };
            if let SaveOutcome::Saved(job) = self.ports.store.save(save).await? {
                if job.status.is_terminal() {
                    self.ports.secrets.forget(id);
                }
                self.ports.feed.publish(id, JobChange::Saved(job.clone()));
                return self.view(job).await;
            }
        }
    }

    /// A job as it stands, and a follower that sees every change after that.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn follow(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<(JobView, Follower), JobsError> {
        // In this order: what is saved between the two is told twice rather than never.
        self.ports
            .store
            .load(account, id, now)
            .await?
            .ok_or(JobsError::NotFound)?;
        let follower = self.ports.feed.follow(id);
        Ok((self.get(account, id, now).await?, follower))
    }

    /// Deletes jobs that are past their time; answers how many.
    ///
    /// # Errors
    /// If the store fails; the next sweep goes on.
    pub async fn sweep(&self, now: Timestamp) -> Result<usize, JobsError> {
        const STEP: usize = 500;
        let mut swept = 0;
        loop {
            let gone = self.ports.store.expire(now, STEP).await?;
            swept += gone;
            if gone < STEP {
                return Ok(swept);
            }
        }
    }

    async fn view(&self, job: Arc<Job>) -> Result<JobView, JobsError> {
        let queue_position = match job.status {
            JobStatus::Queued => self.ports.queue.position(&job.account, job.id).await?,
            JobStatus::Running
            | JobStatus::Canceling
            | JobStatus::Succeeded
            | JobStatus::Canceled
            | JobStatus::Failed
            | JobStatus::Expired => None,
        };
        let live = if job.status.is_terminal() {
            None
        } else {
            self.ports.feed.progress(job.id)
        };
        let progress = match live {
            Some(live) if live.value >= job.progress.value => live,
            Some(_) | None => job.progress.clone(),
        };
        Ok(JobView {
            job,
            progress,
            queue_position,
        })
    }

    async fn resolve(
        &self,
        account: &AccountId,
        references: Vec<Reference>,
        now: Timestamp,
    ) -> Result<ResolvedFiles, JobsError> {
        let mut files = ResolvedFiles::new();
        let mut missing = Vec::new();
        for reference in references {
            if files.contains_key(&reference.text) {
                continue;
            }
            let found = match (reference.is_asset, reference.path()) {
                (true, _) => match reference.text.parse() {
                    Ok(id) => self.asset(account, id, now).await?,
                    Err(_) => None,
                },
                (false, Some(path)) => self
                    .assets
                    .by_path(account, &path, now)
                    .await
                    .map_err(JobsError::Assets)?,
                (false, None) => None,
            };
            match found {
                Some(asset) => {
                    let name = asset
                        .file_path
                        .as_ref()
                        .map_or_else(|| asset.hash.to_hex(), FilePath::to_string);
                    let (id, hash, size_bytes) = (asset.id, asset.hash, asset.size_bytes);
                    files.insert(
                        reference.text,
                        ResolvedFile {
                            asset: id,
                            hash,
                            size_bytes,
                            name,
                        },
                    );
                }
                // A name that is not found is the validator's to tell, with the node and the field it stands in.
                None if !reference.is_asset => {}
                None => missing.push(reference),
            }
        }
        if missing.is_empty() {
            Ok(files)
        } else {
            Err(JobsError::MissingAsset(missing))
        }
    }

    async fn asset(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Option<asset_store::Asset>, JobsError> {
        match self.assets.get(account, id, now).await {
            Ok(asset) => Ok(Some(asset)),
            Err(AssetsError::NotFound) => Ok(None),
            Err(error) => Err(JobsError::Assets(error)),
        }
    }

    fn new_job(
        &self,
        id: JobId,
        account: AccountId,
        metadata: Metadata,
        nodes_total: u32,
        now: Timestamp,
    ) -> Job {
        Job {
            id,
            account,
            revision: 0,
            status: JobStatus::Queued,
            epoch: Epoch(0),
            worker: None,
            lost_claims: 0,
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
            expires_at: now
                .saturating_add(self.config.retention)
                .unwrap_or(Timestamp::MAX),
            retention: self.config.retention,
            progress: Progress::start(nodes_total),
            outputs: Vec::new(),
            error: None,
            metadata,
        }
    }
}

/// What a submission asked for: its graph and its labels, whatever the order of their keys and the space between them.
fn fingerprint(workflow: &Value, metadata: &Metadata) -> Fingerprint {
    let mut hasher = blake3::Hasher::new_derive_key("easel submission fingerprint v1");
    digest(workflow, &mut hasher);
    for (key, label) in metadata {
        for text in [key, label] {
            hasher
                .update(&(text.len() as u64).to_be_bytes())
                .update(text.as_bytes());
        }
    }
    Fingerprint(hasher.finalize().into())
}

/// Feeds a value in one canonical form. The parser bounds the depth, so recursion is safe.
fn digest(value: &Value, hasher: &mut blake3::Hasher) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let text = value.to_string();
            hasher
                .update(b"v")
                .update(&(text.len() as u64).to_be_bytes())
                .update(text.as_bytes());
        }
        Value::Array(items) => {
            hasher
                .update(b"a")
                .update(&(items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| digest(item, hasher));
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            hasher
                .update(b"o")
                .update(&(sorted.len() as u64).to_be_bytes());
            for (key, item) in sorted {
                hasher
                    .update(&(key.len() as u64).to_be_bytes())
                    .update(key.as_bytes());
                digest(item, hasher);
            }
        }
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fingerprint_passes_over_order_and_space_and_nothing_else() {
        let none = Metadata::new();
        let one: Value =
            serde_json::from_str(r#"{"1": {"a": 1, "b": [1, 2]}}"#).expect("valid JSON");
        let same: Value = serde_json::from_str(r#"{"1":{"b":[1,2],"a":1}}"#).expect("valid JSON");
        assert_eq!(fingerprint(&one, &none), fingerprint(&same, &none));
        let others = [
            json!({"1": {"a": 1, "b": [2, 1]}}),
            json!({"1": {"a": "1", "b": [1, 2]}}),
            json!({"1": {"a": 1}}),
        ];
        for other in others {
            assert_ne!(
                fingerprint(&one, &none),
                fingerprint(&other, &none),
                "{other}"
            );
        }
        let labelled = Metadata::from([("k".to_owned(), "v".to_owned())]);
        assert_ne!(fingerprint(&one, &none), fingerprint(&one, &labelled));
    }
}
