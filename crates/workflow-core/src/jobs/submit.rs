//! Taking a graph in: parsed, validated, its files found, planned, and made durable.

use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Fingerprint, Tier};
use asset_store::{Asset, AssetId, AssetQuery, AssetsError, BlobHash, FilePath, KeyClaim};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use serde_json::{Map, Value};
use trace_context::TraceContext;

use super::bell::Bell;
use super::checked::{Checked, Read};
use super::{Jobs, JobsError, Submitted};
use crate::references::Reference;
use crate::{
    Availability, Epoch, InsertJob, InsertJobOutcome, Job, JobBody, JobChange, JobId, JobStatus,
    Metadata, NodeCatalog, Placement, Progress, QueueBounds, Requirements, ResolvedFile,
    ResolvedFiles,
};

/// How long a submission's idempotency key is kept at least; it lives as long as its job.
const KEY_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// How long a process counts as there after it took a secret in; by then it renews its leases anyway.
const HOLDER_LEASE: Duration = Duration::from_secs(60);

/// A graph to be run.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Identifies the new job.
    pub id: JobId,
    /// Whose it will be.
    pub account: AccountId,
    /// What the account may hold.
    pub tier: Arc<Tier>,
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
    /// The output nodes to run; `None` runs all of them.
    pub targets: Option<Vec<String>>,
    /// Whether the valid outputs run when others are not; otherwise any error refuses all of it.
    pub partial: bool,
    /// Whether uploads have no folders: one that a graph writes before the name of an upload is then no part of it.
    pub flat_uploads: bool,
    /// What is to be written into pictures besides the graph, by key.
    pub extra_pnginfo: Map<String, Value>,
    /// The trace that it belongs to.
    pub trace: Option<TraceContext>,
}

impl Jobs {
    /// Takes a graph in: parsed, validated, its files found, durable when this returns.
    ///
    /// # Errors
    /// If anything is wrong with the graph, all of it at once; if the queue is full or a port fails. Nothing is then kept.
    pub async fn submit(
        &self,
        submission: Submission,
        now: Timestamp,
    ) -> Result<Submitted, JobsError> {
        let windows = Arc::clone(&submission.tier.submissions);
        let Err(used_up) = self.submitted.count(&submission.account, &windows, now) else {
            let account = submission.account.clone();
            let submitted = self.take_in(submission, now).await;
            if !submitted
                .as_ref()
                .is_ok_and(|submitted| !submitted.replayed)
            {
                // Only what is taken in counts.
                self.submitted.give_back(&account, &windows, now);
            }
            return submitted;
        };
        let replayed = match submission.key {
            Some(_) => self.replay(submission, now).await?,
            None => None,
        };
        replayed.ok_or(JobsError::RateLimited(used_up))
    }

    async fn take_in(
        &self,
        submission: Submission,
        now: Timestamp,
    ) -> Result<Submitted, JobsError> {
        let (catalog, unready) = match self.catalog() {
            Ok(catalog) => (catalog, None),
            // What its key may stand for is told before that.
            Err(error) if submission.key.is_some() => (NodeCatalog::default(), Some(error)),
            Err(error) => return Err(error),
        };
        let bytes = submission.workflow.len();
        let read = self.aside(bytes, move || {
            let read = Read::of(&submission, &catalog);
            (submission, read)
        });
        let (submission, read) = read.await?;
        let Read {
            graph,
            fingerprint,
            references,
        } = read?;
        if let Some(known) = self.known(&submission, fingerprint, now).await? {
            return Ok(known);
        }
        if let Some(unready) = unready {
            return Err(unready);
        }
        let files = self.resolve(&submission, references, now).await?;
        let (calls_partners, engines) = (self.calls_partners, self.ports.engines.clone());
        let checked = self.aside(bytes, move || {
            // The graph goes where it was looked at: taking a large one apart again takes long as well.
            let checked = Checked::of(&graph, &engines, &files, &submission, calls_partners);
            (submission, files, checked)
        });
        let (submission, files, checked) = checked.await?;
        let Checked {
            engine,
            to_judge,
            needs,
            targets,
            nodes_total,
            extra_pnginfo,
            errors,
        } = checked?;

        self.available(engine.engine.availability())?;
        let workers = engine.engine.workers();
        let takes_at_once = workers.is_some_and(|workers| workers.is_idle_for(&needs));
        let refusal = match (to_judge, workers) {
            (Some((graph, plan)), Some(workers)) => {
                self.judge(workers, graph, plan, &submission).await
            }
            (_, _) => None,
        };
        // What a key stands for already is answered whatever the engine says now.
        let room = match &refusal {
            Some(refusal) if submission.key.is_none() => {
                return Err(JobsError::Refused(Box::new(refusal.clone())));
            }
            Some(_) => 0,
            None => submission.tier.queued_jobs,
        };

        let (id, has_secret) = (submission.id, submission.secret.is_some());
        let limit_bytes = submission.tier.stored_bound();
        let holder = self.ports.secrets.holder();
        let requirements = Requirements {
            secret_at: has_secret.then_some(holder),
            ..needs
        };
        let placement = Placement {
            requirements: requirements.to_set(),
            account_room: self.room(submission.tier.concurrent_jobs),
            stored_bytes: limit_bytes,
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
                account: room,
                total: self.config.queued_jobs,
            },
            body: JobBody {
                workflow: submission.workflow,
                files,
                targets,
                extra_pnginfo,
                origin: submission.origin,
                placement,
                trace: submission.trace,
            },
            job: Self::new_job(
                id,
                submission.account,
                submission.metadata,
                nodes_total,
                submission.tier.job_retention,
                now,
            ),
        };

        // Both before the insert: a worker may claim the job, and be done with it, before this returns. A job that is
        // followed from here on is known to the hub, which then passes over what is told too late.
        let account = insert.job.account.clone();
        let mut follower = self.ports.hub.follow(&account, id);
        if let Some(secret) = submission.secret
            && !self.ports.secrets.put(&account, id, secret)
        {
            // Its id was chosen twice: the job that has it keeps its secret.
            return Err(JobsError::IdTaken);
        }
        if has_secret {
            // A job whose holder is absent is ended by any worker, and this process may not have renewed anything yet.
            let renewed = self.ports.queue.renew(holder, &[], HOLDER_LEASE, now).await;
            if let Err(error) = renewed {
                self.ports.secrets.forget(id);
                return Err(error.into());
            }
        }
        // From here on, for this may be dropped while the row is on its way.
        let mut bell = Bell::of(&self.ports.hub);
        let outcome = self.ports.store.insert(insert, now).await;
        let inserted = matches!(&outcome, Ok(InsertJobOutcome::Inserted(_)));
        if has_secret && !inserted {
            self.ports.secrets.forget(id);
        }
        if outcome.is_ok() && !inserted {
            bell.put_away();
        }
        match outcome? {
            InsertJobOutcome::Inserted(job) => {
                if takes_at_once {
                    // Only now: before the insert, the id may be that of another job.
                    self.ports.hub.await_verdict(id);
                }
                let queued = JobChange::Saved(Arc::clone(&job));
                self.ports.hub.publish(id, queued);
                // Before a worker hears of it and takes it, so that its place in the queue can be told.
                let view = self.view(job, now).await;
                drop(bell);
                let view = view?;
                if takes_at_once && let Some(refusal) = self.verdict(id, &mut follower).await? {
                    return Err(JobsError::Refused(Box::new(refusal)));
                }
                Ok(Submitted {
                    view,
                    replayed: false,
                    node_errors: errors,
                })
            }
            InsertJobOutcome::Replayed(job) => Ok(Submitted {
                view: self.view(job, now).await?,
                replayed: true,
                node_errors: errors,
            }),
            InsertJobOutcome::KeyReused(id) => Err(JobsError::KeyReused(id)),
            InsertJobOutcome::QueueFull => Err(match refusal {
                Some(refusal) => JobsError::Refused(Box::new(refusal)),
                None => JobsError::QueueFull {
                    retry_after_s: self.pace.retry_after_s(),
                },
            }),
            InsertJobOutcome::QuotaExceeded => Err(JobsError::StorageQuota {
                limit_bytes: limit_bytes.unwrap_or_default(),
            }),
            InsertJobOutcome::IdTaken => Err(JobsError::IdTaken),
            InsertJobOutcome::InputGone(asset) => {
                Err(JobsError::MissingAsset(vec![Reference::gone(asset)]))
            }
        }
    }

    /// The classes that can be run now.
    fn catalog(&self) -> Result<NodeCatalog, JobsError> {
        let catalog = self.ports.engines.nodes();
        match (self.ports.engines.availability(), catalog.is_empty()) {
            (Availability::Ready, true) => self.available(Availability::NotReady)?,
            (availability, _) => self.available(availability)?,
        }
        Ok(catalog)
    }

    async fn resolve(
        &self,
        submission: &Submission,
        references: Vec<Reference>,
        now: Timestamp,
    ) -> Result<ResolvedFiles, JobsError> {
        let (account, flat) = (&submission.account, submission.flat_uploads);
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
                (false, Some(path)) => self.named(account, &path, flat, now).await?,
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

    /// The file of a name; or, where none has it, the one whose hash the name is, whatever its ending. Where uploads are
    /// flat, a folder before the name does not matter.
    async fn named(
        &self,
        account: &AccountId,
        path: &FilePath,
        flat: bool,
        now: Timestamp,
    ) -> Result<Option<Asset>, JobsError> {
        let found = self.assets.by_path(account, path, now).await;
        if let Some(found) = found.map_err(JobsError::Assets)? {
            return Ok(Some(found));
        }
        let name = if flat { path.name() } else { path.as_str() };
        let stem = name.split('.').next().unwrap_or_default();
        let query = match (BlobHash::from_hex(stem), name.parse()) {
            (Ok(hash), _) => AssetQuery::Hash(hash),
            (Err(_), Ok(name)) if flat => AssetQuery::Upload(name),
            (Err(_), Ok(_) | Err(_)) => return Ok(None),
        };
        let found = self.assets.find(account, &query, now).await;
        found.map_err(JobsError::Assets)
    }

    async fn asset(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Option<Asset>, JobsError> {
        match self.assets.get(account, id, now).await {
            Ok(asset) => Ok(Some(asset)),
            Err(AssetsError::NotFound) => Ok(None),
            Err(error) => Err(JobsError::Assets(error)),
        }
    }

    fn new_job(
        id: JobId,
        account: AccountId,
        metadata: Metadata,
        nodes_total: u32,
        retention: SignedDuration,
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
            expires_at: now.saturating_add(retention).unwrap_or(Timestamp::MAX),
            retention,
            progress: Progress::start(nodes_total),
            outputs: Vec::new(),
            error: None,
            metadata,
        }
    }
}

/// What a submission asked for: its graph and its labels, whatever the order of their keys and the space between them.
pub(super) fn fingerprint(workflow: &Value, metadata: &Metadata) -> Fingerprint {
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
