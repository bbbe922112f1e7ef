//! The whole table, then every way through it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;

use asset_store::{AssetId, BlobHash};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::OutputKind;

/// Seconds after the job was submitted.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn queued() -> Job {
    Job {
        id: JobId(Uuid::nil()),
        account: AccountId::local(),
        revision: 7,
        status: JobStatus::Queued,
        epoch: Epoch(0),
        worker: None,
        lost_claims: 0,
        created_at: at(0),
        updated_at: at(0),
        started_at: None,
        completed_at: None,
        expires_at: at(86_400),
        retention: SignedDuration::from_hours(24),
        progress: Progress::start(4),
        outputs: Vec::new(),
        error: None,
        metadata: Metadata::new(),
    }
}

fn output(index: usize) -> JobOutput {
    JobOutput {
        node_id: "9".into(),
        index: u32::try_from(index).unwrap(),
        kind: OutputKind::Image,
        temp: false,
        path: "a_00001_.png".parse().unwrap(),
        content_type: "image/png".to_owned(),
        size_bytes: 1,
        asset: AssetId(Uuid::nil()),
        hash: BlobHash::of(b"a"),
    }
}

fn worker(number: u32) -> WorkerId {
    WorkerId(Uuid::from_u128(number.into()))
}

/// An event, its claim still to be named.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Claim,
    Cancel,
    Advance,
    Finish,
    Fail,
    Stop,
    GiveBack,
    LoseLease,
    TimeOut,
}

const STEPS: [(Step, &str); 9] = [
    (Step::Claim, "claimed"),
    (Step::Cancel, "cancel"),
    (Step::Advance, "advanced"),
    (Step::Finish, "finished"),
    (Step::Fail, "failed"),
    (Step::Stop, "stopped"),
    (Step::GiveBack, "given back"),
    (Step::LoseLease, "lease lost"),
    (Step::TimeOut, "timed out"),
];

impl Step {
    fn event(self, epoch: Epoch) -> JobEvent {
        match self {
            Self::Claim => JobEvent::Claimed {
                worker: worker(epoch.0),
            },
            Self::Cancel => JobEvent::CancelRequested,
            Self::Advance => JobEvent::Advanced {
                epoch,
                progress: Progress {
                    nodes_done: 1,
                    value: 0.25,
                    ..Progress::start(4)
                },
            },
            Self::Finish => JobEvent::Finished { epoch },
            Self::Fail => JobEvent::Failed {
                epoch,
                error: JobError::new(JobErrorCode::NodeExecutionError, "the node failed"),
            },
            Self::Stop => JobEvent::Stopped { epoch },
            Self::GiveBack => JobEvent::GivenBack { epoch },
            Self::LoseLease => JobEvent::LeaseLost { epoch },
            Self::TimeOut => JobEvent::TimedOut { epoch },
        }
    }

    /// Whether the event speaks for a claim.
    fn is_fenced(self) -> bool {
        match self {
            Self::Claim | Self::Cancel => false,
            Self::Advance
            | Self::Finish
            | Self::Fail
            | Self::Stop
            | Self::GiveBack
            | Self::LoseLease
            | Self::TimeOut => true,
        }
    }
}

/// A job of the first claim in this state.
fn job_that_is(status: JobStatus) -> Job {
    let steps: &[Step] = match status {
        JobStatus::Queued => &[Step::Claim, Step::GiveBack],
        JobStatus::Running => &[Step::Claim],
        JobStatus::Canceling => &[Step::Claim, Step::Cancel],
        JobStatus::Succeeded => &[Step::Claim, Step::Finish],
        JobStatus::Canceled => &[Step::Claim, Step::Cancel, Step::Stop],
        JobStatus::Failed => &[Step::Claim, Step::Fail],
        JobStatus::Expired => &[Step::Claim, Step::TimeOut],
    };
    let mut job = queued();
    for step in steps {
        job.apply(step.event(Epoch(1)), at(1)).unwrap();
    }
    assert_eq!((job.status, job.epoch), (status, Epoch(1)));
    job
}

#[test]
fn the_whole_table_of_states_and_events() {
    // The claim is the one that counts; `-` is an event that the state refuses, `.` one that changes no status.
    let expected = "
           claimed    cancel     advanced   finished   failed     stopped    given back lease lost timed out
queued     running    canceled   -          -          -          -          -          -          expired
running    -          canceling  .          succeeded  failed     -          queued     queued     expired
canceling  -          .          .          succeeded  failed     canceled   canceled   canceled   canceled
succeeded  -          .          -          -          -          -          -          -          -
canceled   -          .          -          -          -          -          -          -          -
failed     -          .          -          -          -          -          -          -          -
expired    -          .          -          -          -          -          -          -          -
";
    let heads = STEPS.map(|(_, head)| format!("{head:<11}")).concat();
    let mut table = format!("\n{:<11}{}\n", "", heads.trim_end());
    for status in JobStatus::ALL {
        let cells = STEPS.map(|(step, _)| {
            let mut job = job_that_is(status);
            let cell = match job.apply(step.event(Epoch(1)), at(2)) {
                Ok(()) if job.status == status => ".",
                Ok(()) => job.status.name(),
                Err(IllegalEvent::State(refused)) if refused == status => "-",
                Err(error) => panic!("{status:?} refuses {step:?} as {error:?}"),
            };
            format!("{cell:<11}")
        });
        table += &format!("{:<11}{}\n", status.name(), cells.concat().trim_end());
    }
    assert_eq!(table, expected);
}

#[test]
fn a_claim_that_is_lost_is_retried_once_and_not_after_an_output() {
    let mut job = job_that_is(JobStatus::Running);
    job.apply(JobEvent::LeaseLost { epoch: Epoch(1) }, at(2))
        .unwrap();
    assert_eq!(
        (job.status, job.lost_claims, job.worker),
        (JobStatus::Queued, 1, Some(worker(1)))
    );
    assert!(!job.is_claimed_by(worker(1), Epoch(1)));
    job.apply(JobEvent::Claimed { worker: worker(2) }, at(3))
        .unwrap();
    job.apply(JobEvent::LeaseLost { epoch: Epoch(2) }, at(4))
        .unwrap();
    assert_eq!(job.status, JobStatus::Failed);
    assert_eq!(job.error.unwrap().code, JobErrorCode::WorkerLost);

    let mut job = job_that_is(JobStatus::Running);
    job.outputs.push(output(0));
    job.apply(JobEvent::LeaseLost { epoch: Epoch(1) }, at(2))
        .unwrap();
    assert_eq!(job.status, JobStatus::Failed);
    assert_eq!(job.error.unwrap().code, JobErrorCode::WorkerLost);
    assert_eq!(job.outputs.len(), 1);
}

#[test]
fn a_job_whose_time_ran_out_says_whether_it_waited_or_ran() {
    let told = |before: JobStatus| {
        let mut job = job_that_is(before);
        job.apply(JobEvent::TimedOut { epoch: Epoch(1) }, at(2))
            .unwrap();
        job.error.map(|error| (error.code, error.message))
    };
    let timeout = |what: &str| {
        let message = format!("the job {what}; submit it again, or ask for a higher limit");
        Some((JobErrorCode::Timeout, message))
    };
    assert_eq!(
        told(JobStatus::Queued),
        timeout("waited for longer than a job may wait")
    );
    assert_eq!(
        told(JobStatus::Running),
        timeout("ran for longer than a job may run")
    );
    assert_eq!(told(JobStatus::Canceling), None);
}

#[test]
fn a_job_given_back_is_no_lost_attempt_whatever_it_committed() {
    let mut job = job_that_is(JobStatus::Running);
    job.outputs.push(output(0));
    for claim in 1..10 {
        job.apply(
            JobEvent::GivenBack {
                epoch: Epoch(claim),
            },
            at(2),
        )
        .unwrap();
        assert_eq!((job.status, job.lost_claims), (JobStatus::Queued, 0));
        job.apply(
            JobEvent::Claimed {
                worker: worker(claim + 1),
            },
            at(3),
        )
        .unwrap();
    }
}

#[test]
fn a_job_is_kept_from_its_end_on_and_never_shorter_than_promised() {
    let mut job = job_that_is(JobStatus::Running);
    job.apply(JobEvent::Finished { epoch: Epoch(1) }, at(7200))
        .unwrap();
    assert_eq!(job.expires_at, at(7200 + 86_400));
    assert_eq!(job.progress, Progress::complete(4));
    assert_eq!(
        (job.queue_ms(), job.execution_ms()),
        (Some(1000), Some(7_199_000))
    );
    assert!(!job.is_expired(at(7200 + 86_399)) && job.is_expired(at(7200 + 86_400)));

    let mut job = queued();
    job.expires_at = at(1_000_000);
    job.apply(JobEvent::CancelRequested, at(1)).unwrap();
    assert_eq!(job.expires_at, at(1_000_000));
    assert_eq!((job.queue_ms(), job.execution_ms()), (None, None));
}

#[test]
fn names_read_back() {
    for status in JobStatus::ALL {
        assert_eq!(JobStatus::from_name(status.name()), Some(status));
    }
    assert_eq!(JobStatus::from_name("lost"), None);
    for code in [
        "node_execution_error",
        "out_of_memory",
        "worker_lost",
        "secret_lost",
        "invalid_workflow",
        "storage_quota_exceeded",
        "timeout",
        "engine_error",
    ] {
        assert_eq!(JobErrorCode::from_name(code).name(), code);
    }
    assert_eq!(JobErrorCode::from_name("newer"), JobErrorCode::EngineError);
}

/// A job on its way, and what has to be remembered to judge the next step.
#[derive(Clone)]
struct Life {
    job: Job,
    /// How often a lost claim led to another run.
    retries: u32,
    now: i64,
}

impl Life {
    fn begin() -> Self {
        Self {
            job: queued(),
            retries: 0,
            now: 0,
        }
    }

    /// A worker commits an output, if its claim counts: the store lets nobody else.
    fn commit(&mut self, epoch: Epoch) {
        let has_claim = matches!(self.job.status, JobStatus::Running | JobStatus::Canceling);
        if has_claim && self.job.epoch == epoch {
            self.job.outputs.push(output(self.job.outputs.len()));
        }
    }

    /// Lets an event happen and checks all that must hold, whatever came before.
    fn take(&mut self, step: Step, epoch: Epoch) {
        self.now += 1;
        let before = self.job.clone();
        let result = self.job.apply(step.event(epoch), at(self.now));
        let after = &self.job;

        if step.is_fenced() && epoch != before.epoch {
            assert_eq!(result, Err(IllegalEvent::Superseded));
        }
        if result.is_err() {
            assert_eq!(*after, before, "a refused event leaves no trace");
            return;
        }
        if before.status.is_terminal() {
            assert_eq!(*after, before, "a terminal job never changes");
        } else if *after != before {
            assert_eq!(after.updated_at, at(self.now));
        }
        assert_eq!(
            after.revision, before.revision,
            "only a save counts the revision up"
        );
        assert_eq!(
            after.epoch.0,
            before.epoch.0 + u32::from(step == Step::Claim)
        );
        assert_eq!(
            after.outputs, before.outputs,
            "no event takes an output away"
        );
        assert!(after.expires_at >= before.expires_at);
        assert!(before.started_at.is_none() || after.started_at == before.started_at);
        assert!(after.lost_claims >= before.lost_claims);

        let runs = matches!(after.status, JobStatus::Running | JobStatus::Canceling);
        let last = after
            .worker
            .is_some_and(|worker| after.is_claimed_by(worker, after.epoch));
        assert_eq!(last, runs);
        assert_eq!(after.worker.is_some(), after.epoch.0 > 0);
        assert_eq!(after.completed_at.is_some(), after.status.is_terminal());
        let has_reason = matches!(after.status, JobStatus::Failed | JobStatus::Expired);
        assert_eq!(after.error.is_some(), has_reason);

        if step == Step::LoseLease && after.status == JobStatus::Queued {
            self.retries += 1;
            assert!(after.outputs.is_empty());
        }
        assert!(self.retries <= 1, "a lost claim is made good once");
    }
}

/// All that can happen next: every event for every claim there ever was and the next one, which nobody has yet.
fn choices(life: &Life) -> Vec<(Option<Step>, Epoch)> {
    let steps = STEPS.iter().map(|(step, _)| Some(*step)).chain([None]);
    let epochs = 0..=life.job.epoch.0 + 1;
    steps
        .flat_map(|step| epochs.clone().map(move |epoch| (step, Epoch(epoch))))
        .collect()
}

#[test]
fn every_interleaving_of_up_to_five_claims_holds() {
    let mut open = vec![Life::begin()];
    let mut seen = HashSet::new();
    let mut ends = HashSet::new();
    while let Some(life) = open.pop() {
        for (step, epoch) in choices(&life) {
            let mut next = life.clone();
            match step {
                Some(step) => next.take(step, epoch),
                None => next.commit(epoch),
            }
            let job = &next.job;
            // Times, texts and further outputs make no difference to what can happen.
            let state = (
                job.status,
                job.epoch,
                job.lost_claims,
                next.retries,
                job.outputs.len().min(1),
            );
            if seen.insert(state) && job.epoch.0 <= 5 {
                ends.extend(job.status.is_terminal().then_some(job.status));
                open.push(next);
            }
        }
    }
    assert_eq!(ends.len(), 4, "every end can be reached");
    assert!(seen.iter().any(|(_, epoch, ..)| epoch.0 == 5));
}

proptest! {
    #[test]
    fn any_long_life_holds(choices_made in proptest::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.6)), 1..80)) {
        let mut life = Life::begin();
        for (choice, from_current_claim) in choices_made {
            let choices = choices(&life);
            let (step, epoch) = choices[choice.index(choices.len())];
            let epoch = if from_current_claim { life.job.epoch } else { epoch };
            match step {
                Some(step) => life.take(step, epoch),
                None => life.commit(epoch),
            }
        }
    }
}
