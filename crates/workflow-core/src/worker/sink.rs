//! Takes what a run tells and makes: saved first, reported after.
//!
//! An output is saved together with what the run saves next, which for the last one is the end of its job: so the disk is
//! waited for once. Until then the run goes on, and whatever it tells is held back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use asset_store::{AssetId, Blob, BlobError, BlobStore, BoxError, SpaceClass};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::Notify;

use super::claim_state::ClaimState;
use super::run_log::RunLog;
use super::traces::NodeSpans;
use super::{Backoff, Worker};
use crate::jobs::JobPorts;
use crate::{
    Claim, CommitError, Durability, Epoch, FrameRefused, Job, JobChange, JobEvent, JobId, JobLog,
    JobOutput, NewOutput, NodeEvent, NodeId, OutputContent, Plan, Preview, Progress,
    ProgressTracker, Report, RunOutput, RunReport, RunSink, SaveJob, SaveOutcome, StoreError,
    Timer, WorkerId,
};

/// How long an output waits for the end of its job before it is saved by itself: a worker that announced it is asked three
/// things more until its prompt is known to be over.
const TOGETHER: Duration = Duration::from_millis(10);

/// How long an output is kept for a store that does not answer, before its run fails.
const STORE_PATIENCE: Duration = Duration::from_secs(15);

/// How much is held back at most; what is only looked at in passing is left out beyond.
const MOST_HELD: usize = 4096;

/// The sink of one claim.
pub(super) struct Sink {
    pub(super) id: JobId,
    worker: WorkerId,
    epoch: Epoch,
    /// Whether the claim counts.
    pub(super) claim: ClaimState,
    ports: JobPorts,
    blobs: Arc<dyn BlobStore>,
    timer: Arc<dyn Timer>,
    /// Held across a save, so that the commits of parallel nodes go one after the other.
    kept: tokio::sync::Mutex<Kept>,
    reported: Mutex<Reported>,
    /// Rung when an output begins to wait for the next save.
    deferred: Notify,
}

/// The job as last saved here.
pub(super) struct Kept {
    pub(super) job: Arc<Job>,
    /// Outputs that are saved and perhaps not on disk yet. Each save names them again until one has waited for the disk: a crash of
    /// a database that takes back what was saved must not cost them.
    pub(super) put_off: Vec<NewOutput>,
}

/// What the run reported so far.
struct Reported {
    tracker: ProgressTracker,
    report: RunReport,
    spans: NodeSpans,
    log: RunLog,
    /// Whether the tracker holds progress that no save has carried yet.
    unsaved: bool,
    /// What is reported once the outputs before it are on disk; `None` while none waits for that.
    held: Option<Held>,
}

/// What waits to be reported.
#[derive(Default)]
struct Held {
    changes: Vec<JobChange>,
    /// How many of them a save was given, which tells other replicas.
    handed_over: usize,
}

impl Sink {
    pub(super) fn new(worker: &Worker, claim: &Claim) -> Arc<Self> {
        let tracker = ProgressTracker::new(&Plan { order: Vec::new() }, Some(&claim.job.progress));
        Arc::new(Self {
            id: claim.job.id,
            worker: worker.id,
            claim: ClaimState::default(),
            epoch: claim.job.epoch,
            ports: worker.ports.clone(),
            blobs: worker.blobs.clone(),
            timer: worker.timer.clone(),
            kept: tokio::sync::Mutex::new(Kept {
                job: claim.job.clone(),
                put_off: Vec::new(),
            }),
            reported: Mutex::new(Reported {
                tracker,
                report: RunReport::default(),
                spans: NodeSpans::none(),
                log: RunLog::default(),
                unsaved: false,
                held: None,
            }),
            deferred: Notify::new(),
        })
    }

    /// Begins to follow the nodes of `plan`.
    pub(super) fn begin(&self, plan: &Plan) {
        let mut reported = self.reported();
        let before = reported.tracker.latest().clone();
        reported.tracker = ProgressTracker::new(plan, Some(&before));
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The job as last saved here. While it is held, nothing of this run is saved.
    pub(super) async fn kept(&self) -> tokio::sync::MutexGuard<'_, Kept> {
        self.kept.lock().await
    }

    /// Goes on with a claim like its own: a database had lost that one. `false` if the run learned of the loss already.
    pub(super) async fn goes_on(&self) -> bool {
        // A save that is under way may be about to learn of it.
        let _kept = self.kept().await;
        self.claim.make_again()
    }

    /// Looks at the job in the store, which another's save may have changed; whether the claim still counts.
    pub(super) async fn reload(&self, kept: &mut Kept) -> Result<bool, StoreError> {
        let found = self.load(kept).await?;
        self.take(kept, found);
        Ok(!self.claim.is_lost())
    }

    /// The job as the store has it.
    pub(super) async fn load(&self, kept: &Kept) -> Result<Option<Arc<Job>>, StoreError> {
        let account = &kept.job.account;
        let load = self.ports.store.load(account, self.id, self.timer.now());
        load.await
    }

    /// Goes on from the job as it was found, if the claim still counts.
    pub(super) fn take(&self, kept: &mut Kept, found: Option<Arc<Job>>) {
        match found.filter(|job| job.is_claimed_by(self.worker, self.epoch)) {
            Some(job) => kept.job = job,
            None => self.claim.lose(),
        }
    }

    /// Takes down that the run was stopped before this node.
    pub(super) fn stopped_at(&self, node: NodeId) {
        self.reported().report.stopped_at = Some(node.clone());
        self.tell(JobChange::StoppedAt(node));
    }

    /// Completes when an output has waited long enough for the end of its job. Cancel-safe.
    pub(super) async fn overdue(&self) {
        self.deferred.notified().await;
        self.timer.sleep(TOGETHER).await;
    }

    /// What was held back, for the save that brings to disk what it waits for: other replicas hear of both at once, and so never
    /// of the end of a job before what led to it.
    pub(super) fn hand_over(&self) -> Vec<Report> {
        let mut reported = self.reported();
        let Some(held) = &mut reported.held else {
            return Vec::new();
        };
        held.handed_over = held.changes.len();
        held.changes.iter().filter_map(Report::of).collect()
    }

    /// Tells what was held back: everything that was put off is on disk, with what was handed over.
    pub(super) fn release(&self) {
        // Reported with the lock held, so that nothing overtakes it.
        let mut reported = self.reported();
        let Some(held) = reported.held.take() else {
            return;
        };
        for (n, change) in held.changes.into_iter().enumerate() {
            if n < held.handed_over {
                self.ports.hub.publish_here(self.id, change);
            } else {
                self.ports.hub.publish(self.id, change);
            }
        }
    }

    /// Tells a change now, or once the outputs before it are on disk.
    fn tell(&self, change: JobChange) {
        if self.claim.is_lost() {
            return;
        }
        let mut reported = self.reported();
        match &mut reported.held {
            Some(held) => {
                let is_passing = match &change {
                    JobChange::Progress(_) | JobChange::Preview(_) | JobChange::Text { .. } => true,
                    JobChange::Saved(_) | JobChange::Node(_) | JobChange::StoppedAt(_) => false,
                };
                if held.changes.len() < MOST_HELD || !is_passing {
                    held.changes.push(change);
                }
            }
            None => self.ports.hub.publish(self.id, change),
        }
    }

    /// Has nodes traced in these spans from now on; those of the ones before end.
    pub(super) fn trace_nodes(&self, spans: NodeSpans) {
        self.reported().spans = spans;
    }

    pub(super) fn progress_now(&self) -> Progress {
        self.reported().tracker.latest().clone()
    }

    pub(super) fn log(&self, captured_at: Timestamp, complete: bool) -> JobLog {
        let reported = self.reported();
        JobLog {
            text: reported.log.text.clone(),
            truncated: reported.log.truncated,
            captured_at,
            complete,
            report: reported.report.clone(),
        }
    }

    /// Saves what was put off, and tells it; otherwise writes progress down without waiting for the disk, since losing it
    /// only makes a job that runs again show less.
    pub(super) async fn save_progress(&self) {
        // A commit under way carries the progress itself. Waiting for it here would wait for ever: the run that must finish
        // the commit is polled by the same loop as this.
        let Ok(mut kept) = self.kept.try_lock() else {
            return;
        };
        let (unsaved, deferred) = {
            let mut reported = self.reported();
            (
                std::mem::take(&mut reported.unsaved),
                reported.held.is_some(),
            )
        };
        if !unsaved && !deferred {
            return;
        }
        let durability = match deferred {
            true => Durability::Now,
            false => Durability::Lazy,
        };
        match self.save(&mut kept, Vec::new(), durability).await {
            Ok(_) => self.release(),
            Err(error) => {
                tracing::debug!(error = %error, job.id = %self.id, "progress was not written down");
            }
        }
    }

    /// Saves the job with its latest progress and these outputs.
    async fn save(
        &self,
        kept: &mut Kept,
        outputs: Vec<NewOutput>,
        durability: Durability,
    ) -> Result<Arc<Job>, CommitError> {
        while !self.claim.is_lost() {
            let mut job = Job::clone(&kept.job);
            let now = self.timer.now();
            let advanced = JobEvent::Advanced {
                epoch: self.epoch,
                progress: self.progress_now(),
            };
            job.apply(advanced, now)
                .map_err(|_| CommitError::Superseded)?;
            let save = SaveJob {
                job,
                outputs: [&kept.put_off[..], &outputs].concat(),
                log: None,
                durability,
                reports: match durability {
                    Durability::Now => self.hand_over(),
                    // Whatever waits for an output waits on.
                    Durability::WithNext | Durability::Lazy => Vec::new(),
                },
            };
            match self.ports.store.save(save).await.map_err(store_failed)? {
                SaveOutcome::Saved(job) => {
                    match durability {
                        Durability::Now => kept.put_off.clear(),
                        Durability::WithNext => kept.put_off.extend(outputs),
                        Durability::Lazy => {}
                    }
                    kept.job = job.clone();
                    return Ok(job);
                }
                SaveOutcome::QuotaExceeded => return Err(CommitError::StorageQuota),
                SaveOutcome::Conflict => {
                    self.reload(kept).await.map_err(store_failed)?;
                }
            }
        }
        Err(CommitError::Superseded)
    }

    /// Saves the job with an output. A store that does not answer is asked again for a while: the work of the run is in the
    /// output, and a database that is started again, or whose standby takes over, is back in seconds.
    async fn save_output(
        &self,
        kept: &mut Kept,
        output: NewOutput,
    ) -> Result<Arc<Job>, CommitError> {
        let (mut backoff, mut waited) = (Backoff::new(), Duration::ZERO);
        loop {
            let saved = self
                .save(kept, vec![output.clone()], Durability::WithNext)
                .await;
            let error = match saved {
                Err(CommitError::Store(error)) if waited < STORE_PATIENCE && is_away(&error) => {
                    error
                }
                saved => return saved,
            };
            tracing::warn!(error = %error, job.id = %self.id, "saving an output failed; trying again");
            let pause = backoff.next();
            self.timer.sleep(pause).await;
            waited += pause;
        }
    }

    async fn keep(&self, content: OutputContent) -> Result<Blob, CommitError> {
        match content {
            OutputContent::Bytes(bytes) => {
                let mut writer = self
                    .blobs
                    .begin(SpaceClass::Kept)
                    .await
                    .map_err(blob_failed)?;
                writer.write(bytes).await.map_err(blob_failed)?;
                writer.finish().await.map_err(blob_failed)?;
                // Nobody is reported of it before the job's row names it.
                writer.commit_with_rows().await.map_err(blob_failed)
            }
            OutputContent::Blob(blob) => {
                match self.blobs.touch(&blob.hash).await.map_err(blob_failed)? {
                    Some(_) => Ok(blob),
                    None => Err(CommitError::BlobGone),
                }
            }
        }
    }

    fn reported(&self) -> std::sync::MutexGuard<'_, Reported> {
        // A panic while this is held can only have left a line or a step out.
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RunSink for Sink {
    fn progress(&self, event: NodeEvent) {
        let now = self.timer.now();
        let progress = {
            let mut reported = self.reported();
            reported.report.record_at(&event, now);
            reported.spans.record(&event);
            let got_on = reported.tracker.record(&event);
            reported.unsaved |= got_on;
            if let NodeEvent::Started { node, class } = &event {
                reported.log.write(&format!("node {node} ({class})"));
            }
            got_on.then(|| reported.tracker.latest().clone())
        };
        self.tell(JobChange::Node(event));
        if let Some(progress) = progress {
            self.tell(JobChange::Progress(progress));
        }
    }

    fn preview(&self, preview: Preview) {
        self.tell(JobChange::Preview(preview));
    }

    fn text(&self, node: &NodeId, line: &str) {
        self.reported().log.write(&format!("node {node}: {line}"));
        let (node, line) = (node.clone(), line.to_owned());
        self.tell(JobChange::Text { node, line });
    }

    async fn frame(&self, node: &NodeId, png: Bytes) -> Result<(), FrameRefused> {
        let preview = Preview {
            node_id: node.clone(),
            content_type: "image/png",
            bytes: png,
        };
        if self.claim.is_lost() {
            return Err(FrameRefused::Superseded);
        }
        let has_held = self.reported().held.is_some();
        if has_held {
            // It is shown directly, and must not overtake what was reported before.
            self.save_progress().await;
        }
        match self.ports.hub.frame(self.id, preview).await {
            true => Ok(()),
            false => Err(FrameRefused::NobodyHere),
        }
    }

    async fn commit(&self, output: RunOutput) -> Result<JobOutput, CommitError> {
        // A name that leads outside is refused before any byte is kept.
        output.name.path(0).map_err(|_| CommitError::InvalidName)?;
        let (node_id, index) = (output.node_id.clone(), output.index);
        let blob = self.keep(output.content).await?;
        let new = NewOutput {
            node_id: output.node_id,
            index,
            kind: output.kind,
            temp: output.temp,
            name: output.name,
            content_type: output.content_type,
            size_bytes: blob.size_bytes,
            asset: asset_of(self.id, &node_id, index),
            hash: blob.hash,
        };
        let job = {
            let mut kept = self.kept().await;
            let job = self.save_output(&mut kept, new).await?;
            let saved = JobChange::Saved(job.clone());
            let mut reported = self.reported();
            reported.held.get_or_insert_default().changes.push(saved);
            job
        };
        self.deferred.notify_one();
        let committed = job
            .outputs
            .iter()
            .find(|output| output.node_id == node_id && output.index == index);
        committed.cloned().ok_or(CommitError::Superseded)
    }
}

/// The id of an output's record follows from job, node and index, so that committing it again is the same record.
fn asset_of(job: JobId, node: &NodeId, index: u32) -> AssetId {
    let mut hasher = blake3::Hasher::new_derive_key("easel output id v1");
    hasher
        .update(job.0.as_bytes())
        .update(&index.to_be_bytes())
        .update(node.as_str().as_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    AssetId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Whether a store may answer in a moment; one that is full may stay so for hours.
fn is_away(error: &BoxError) -> bool {
    matches!(
        error.downcast_ref(),
        Some(StoreError::Busy | StoreError::Unavailable(_))
    )
}

fn store_failed(error: StoreError) -> CommitError {
    CommitError::Store(Box::new(error))
}

fn blob_failed(error: BlobError) -> CommitError {
    CommitError::Store(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_output_has_one_id_for_ever_and_no_other_has_it() {
        let job = |n| JobId(Uuid::from_u128(n));
        let id = asset_of(job(1), &"9".into(), 0);
        assert_eq!(id, asset_of(job(1), &"9".into(), 0));
        for other in [
            asset_of(job(2), &"9".into(), 0),
            asset_of(job(1), &"8".into(), 0),
            asset_of(job(1), &"9".into(), 1),
        ] {
            assert_ne!(id, other);
        }
    }
}
