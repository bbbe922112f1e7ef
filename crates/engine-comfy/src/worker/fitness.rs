//! What a choice sees of a worker: whether it may have a job, how much it has, and which model files are loaded by then.

use std::collections::BTreeSet;

use tokio::time::Instant;
use workflow_core::{JobId, ModelFile, Requirements};

use super::loaded::bits;
use super::{Reach, Shared, Worker};
use crate::choose::{Candidate, explain};
use crate::slots::WorkerSlots;

/// Different definitions that one choice remembers. Workers that say the same share theirs, so there are mostly few.
const MOST_REMEMBERED: usize = 16;

/// What a job needs, and which definitions have it all: each is asked once in a choice.
pub(crate) struct Able<'a> {
    needs: &'a Requirements,
    bits: u32,
    known: Vec<(u32, bool)>,
}

impl<'a> Able<'a> {
    pub(crate) fn new(needs: &'a Requirements) -> Self {
        Self {
            needs,
            bits: bits(&needs.files),
            known: Vec::new(),
        }
    }

    /// Whether the definitions of this number have it all; `ask` looks.
    fn has_all(&mut self, number: u32, ask: impl FnOnce() -> bool) -> bool {
        if let Some((_, has_all)) = self.known.iter().find(|(known, _)| *known == number) {
            return *has_all;
        }
        let has_all = ask();
        if self.known.len() < MOST_REMEMBERED {
            self.known.push((number, has_all));
        }
        has_all
    }
}

impl Worker {
    /// The worker as the choice for a job sees it.
    pub(crate) fn candidate(&self, able: &mut Able<'_>, now: Instant) -> Candidate {
        let (jobs, needs) = (self.jobs(), able.needs);
        let Some(plain) = self.card.plain() else {
            let shared = self.shared();
            let definitions = shared.definitions.as_ref();
            return Candidate {
                is_fit: shared.reach == Reach::Up
                    && !shared.draining
                    && shared.breaker.open(now).is_none()
                    && definitions.is_none_or(|known| known.has_all(needs)),
                is_avoided: false,
                ahead: jobs as u64,
                has_place: jobs < shared.most_jobs(self.slots, now),
                is_warm: shared.files.will_have(&needs.files),
                used: shared.files.used,
            };
        };
        let is_fit = able.has_all(plain.definitions, || {
            let shared = self.shared();
            let definitions = shared.definitions.as_ref();
            definitions.is_none_or(|known| known.has_all(needs))
        });
        let may_be_warm = able.bits & !plain.bits == 0;
        Candidate {
            is_fit,
            is_avoided: false,
            ahead: jobs as u64,
            has_place: jobs < self.slots.places(),
            is_warm: may_be_warm && (able.bits == 0 || self.shared().files.will_have(&needs.files)),
            used: plain.used,
        }
    }

    /// It answers, and has this.
    #[cfg(feature = "bench")]
    pub(crate) fn imagine(&self, definitions: std::sync::Arc<crate::definitions::Definitions>) {
        let mut shared = self.shared();
        shared.reach = Reach::Up;
        shared.definitions = Some(definitions);
    }

    /// Why it does not take a job with these needs now; `None` if it could.
    pub(crate) fn why_not(&self, needs: &Requirements) -> Option<String> {
        let (jobs, now) = (self.jobs(), Instant::now());
        let shared = self.shared();
        let unfit = match (shared.draining, shared.reach) {
            (true, _) => Some("an operator drained it".to_owned()),
            (false, Reach::Never) => Some(format!("starting since {}", shared.since)),
            (false, Reach::Down) => Some(format!("unreachable since {}", shared.since)),
            (false, Reach::TooOld) => Some(shared.why.clone()),
            (false, Reach::Up) => shared
                .breaker
                .open(now)
                .map(|why| format!("it failed several times: {why}")),
        };
        let definitions = shared.definitions.as_ref();
        let lacks = definitions.map_or_else(Vec::new, |known| known.lacks(needs));
        explain(unfit, &lacks, jobs < shared.most_jobs(self.slots, now))
    }

    /// A job has a place here and will use these model files when its turn comes.
    pub(crate) fn promise(&self, job: JobId, files: &BTreeSet<ModelFile>) {
        if !files.is_empty() {
            self.shared().files.promise(job, files);
        }
    }

    /// The job has used them, or never will.
    pub(crate) fn no_promise(&self, job: JobId) {
        self.shared().files.no_promise(job);
    }

    /// It uses these model files now.
    pub(crate) fn warmed(&self, files: &BTreeSet<ModelFile>) {
        if !files.is_empty() {
            self.shared().files.load(files);
        }
    }
}

impl Shared {
    /// How many jobs it may have.
    fn most_jobs(&self, slots: WorkerSlots, now: Instant) -> usize {
        match self.breaker.is_probing(now) {
            true => 1,
            false => slots.places(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::client::WorkerClient;
    use crate::definitions::Definitions;

    fn worker() -> Worker {
        let url: crate::WorkerUrl = "http://worker.invalid:8188".parse().expect("an address");
        let client = WorkerClient::new(url.clone(), http::HeaderMap::new(), None);
        Worker::new(
            "a".to_owned(),
            client.expect("a client"),
            String::new(),
            url,
            WorkerSlots::default(),
        )
    }

    fn needs(classes: &[&str], files: &[&str]) -> Requirements {
        let file = |name: &&str| ModelFile {
            folder: "Loader/name".to_owned(),
            name: (*name).to_owned(),
        };
        Requirements {
            classes: classes.iter().map(|class| (*class).to_owned()).collect(),
            files: files.iter().map(file).collect(),
            ..Requirements::of_engine(crate::ComfyPool::name())
        }
    }

    fn seen(worker: &Worker, needs: &Requirements) -> (bool, bool, bool) {
        let candidate = worker.candidate(&mut Able::new(needs), Instant::now());
        (candidate.is_fit, candidate.has_place, candidate.is_warm)
    }

    #[tokio::test]
    async fn what_is_read_without_the_lock_is_what_is_known() {
        let worker = worker();
        let job = needs(&["Loader"], &["a.ckpt"]);
        assert_eq!(seen(&worker, &job), (false, true, false));
        let entry = json!({"Loader": {"input": {"required": {"name": [["a.ckpt", "b.ckpt"]]}}}});
        let definitions = Arc::new(Definitions::read("1", entry).expect("definitions"));
        {
            let mut shared = worker.shared();
            shared.reach = Reach::Up;
            shared.definitions = Some(definitions);
        }
        assert!(worker.card.plain().is_some());
        assert_eq!(seen(&worker, &job), (true, true, false));
        assert!(!seen(&worker, &needs(&["Loader", "Other"], &[])).0);
        assert!(!seen(&worker, &needs(&["Loader"], &["c.ckpt"])).0);
        worker.warmed(&job.files);
        assert_eq!(seen(&worker, &job), (true, true, true));
        let other = needs(&["Loader"], &["b.ckpt"]);
        worker.promise(JobId(uuid::Uuid::nil()), &other.files);
        assert_eq!(
            (seen(&worker, &job), seen(&worker, &other)),
            ((true, true, false), (true, true, true))
        );
        worker.no_promise(JobId(uuid::Uuid::nil()));
        assert!(seen(&worker, &job).2);
        // A job that names no file is warm everywhere.
        assert!(seen(&worker, &needs(&["Loader"], &[])).2);

        worker.failed("garbage");
        worker.failed("garbage");
        assert!(seen(&worker, &job).0);
        worker.failed("garbage");
        assert!(!seen(&worker, &job).0, "it is out");
        worker.succeeded();
        worker.set_draining(true);
        assert!(!seen(&worker, &job).0);
        worker.set_draining(false);
        worker.unreachable();
        assert!(!seen(&worker, &job).0);
    }
}
