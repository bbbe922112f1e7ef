//! Rules of claiming, leasing and letting go.

use std::collections::HashMap;

use super::*;
use crate::{JobErrorCode, LeaseNews, QueueDepth, RequirementId};

pub(super) const RULES: [Rule; 12] = [
    |stores| Box::pin(what_waits_is_counted_within_the_room_of_accounts(stores)),
    |stores| Box::pin(accounts_take_turns_and_positions_say_so(stores)),
    |stores| Box::pin(an_account_without_room_is_passed_over(stores)),
    |stores| Box::pin(runs_that_merely_wait_take_no_room(stores)),
    |stores| Box::pin(an_account_leaves_a_slot_to_others(stores)),
    |stores| Box::pin(what_cannot_run_blocks_nothing_behind_it(stores)),
    |stores| Box::pin(a_worker_is_present_while_it_renews(stores)),
    |stores| Box::pin(a_job_is_claimed_once(stores)),
    |stores| {
        Box::pin(a_lapsed_claim_is_retried_once_and_its_worker_refused(
            stores,
        ))
    },
    |stores| Box::pin(a_save_of_another_claim_is_refused(stores)),
    |stores| Box::pin(a_renewed_claim_does_not_lapse_and_hears_of_a_cancel(stores)),
    |stores| Box::pin(a_job_that_waited_too_long_expires(stores)),
];

async fn position(stores: &Stores, job: &Job) -> Option<u64> {
    stores
        .queue
        .position(&job.account, job.id)
        .await
        .expect("the queue answers")
}

async fn accounts_take_turns_and_positions_say_so(stores: Stores) {
    let mut jobs = Vec::new();
    for (n, name) in ["a", "a", "b", "c", "b"].into_iter().enumerate() {
        jobs.push(submit(&stores, insert_of(n as u128, name)).await);
    }
    let mut positions = Vec::new();
    for job in &jobs {
        positions.push(position(&stores, job).await.expect("the job is queued"));
    }
    for place in 0..jobs.len() as u64 {
        let claimed = claim(&stores, 1, at(10)).await.expect("a job is next").job;
        let n = jobs
            .iter()
            .position(|job| job.id == claimed.id)
            .expect("one of them");
        assert_eq!(positions[n], place, "job {n} was claimed as number {place}");
        assert_eq!(position(&stores, &claimed).await, None);
    }
    assert_eq!(
        stores.queue.depth().await.expect("an answer"),
        QueueDepth {
            queued: 0,
            running: 5
        }
    );
}

async fn what_waits_is_counted_within_the_room_of_accounts(stores: Stores) {
    let sets = |names: &[&str]| -> HashSet<RequirementId> {
        let named = names
            .iter()
            .map(|name| Requirements::of_engine(*name).to_set().id());
        named.collect()
    };
    let waiting = async |names: &[&str]| {
        let waiting = stores.queue.waiting(&sets(names)).await.expect("an answer");
        (waiting.jobs, waiting.oldest)
    };
    assert_eq!(waiting(&["one"]).await, (0, None));
    let with = |n, name: &str, engine: &str| {
        let mut insert = insert_of(n, name);
        insert.body.placement.requirements = Requirements::of_engine(engine).to_set();
        insert
    };
    // Each account has room for two.
    for (n, name, engine) in [
        (1, "a", "other"),
        (2, "a", "one"),
        (3, "a", "one"),
        (4, "a", "one"),
        (5, "b", "one"),
    ] {
        submit(&stores, with(n, name, engine)).await;
    }
    assert_eq!(waiting(&["one"]).await, (3, Some(at(2))));
    assert_eq!(waiting(&["other"]).await, (1, Some(at(1))));
    assert_eq!(waiting(&["one", "other"]).await, (3, Some(at(1))));
    assert_eq!(waiting(&[]).await, (0, None));
    let request = |names: &[&str]| ClaimRequest {
        sets: sets(names),
        ..request(1)
    };
    let claimed = stores.queue.claim(&request(&["other"]), at(10)).await;
    assert!(claimed.expect("an answer").is_some());
    assert_eq!(waiting(&["one"]).await, (2, Some(at(2))), "one of `a` runs");
    let claimed = stores.queue.claim(&request(&["one"]), at(10)).await;
    let claimed = claimed.expect("an answer").expect("a job is next").job;
    let expected = match claimed.account == account("a") {
        true => (1, Some(at(5))),
        false => (1, Some(at(2))),
    };
    assert_eq!(waiting(&["one"]).await, expected);
}

async fn an_account_without_room_is_passed_over(stores: Stores) {
    for n in 1..=3 {
        submit(&stores, insert_of(n, "a")).await;
    }
    let first = claim(&stores, 1, at(10)).await.expect("room for two").job;
    claim(&stores, 1, at(10)).await.expect("room for two");
    assert!(claim(&stores, 1, at(10)).await.is_none());
    submit(&stores, insert_of(4, "b")).await;
    assert_eq!(
        claim(&stores, 1, at(10))
            .await
            .expect("another account has room")
            .job
            .account,
        account("b")
    );
    apply(
        &stores,
        &first,
        JobEvent::Finished { epoch: first.epoch },
        Vec::new(),
        at(11),
    )
    .await;
    assert_eq!(
        claim(&stores, 1, at(12))
            .await
            .expect("room again")
            .job
            .id
            .0
            .as_u128(),
        3
    );
}

async fn runs_that_merely_wait_take_no_room(stores: Stores) {
    for n in 1..=4 {
        submit(&stores, insert_of(n, "a")).await;
    }
    let claimed = async |waiting: u32| {
        let request = ClaimRequest {
            rooms: Rooms {
                waiting: HashMap::from([(account("a"), waiting), (account("b"), 9)]),
                ..Rooms::default()
            },
            ..request(1)
        };
        let claimed = stores.queue.claim(&request, at(10)).await;
        claimed.expect("the queue answers").is_some()
    };
    assert!(claimed(0).await && claimed(0).await, "room for two");
    assert!(!claimed(0).await);
    assert!(claimed(1).await, "one of the two waits");
    assert!(!claimed(1).await);
    assert!(claimed(3).await, "none of the three does anything else");
}

async fn an_account_leaves_a_slot_to_others(stores: Stores) {
    for n in 1..=4 {
        let mut job = insert_of(n, if n < 4 { "a" } else { "b" });
        job.body.placement.account_room = u32::MAX;
        submit(&stores, job).await;
    }
    let claimed = async |full: &[&str]| {
        let request = ClaimRequest {
            rooms: Rooms {
                full: full.iter().map(|name| account(name)).collect(),
                ..Rooms::default()
            },
            ..request(1)
        };
        let claimed = stores.queue.claim(&request, at(10)).await;
        let claimed = claimed.expect("the queue answers");
        claimed.map(|claim| claim.job.account.to_string())
    };
    assert_eq!(claimed(&[]).await.as_deref(), Some("a"));
    let next = claimed(&["a"]).await;
    assert_eq!(next.as_deref(), Some("b"), "whatever its room");
    assert_eq!(claimed(&["a"]).await, None);
    assert_eq!(
        claimed(&["b"]).await.as_deref(),
        Some("a"),
        "a slot is free"
    );
}

async fn what_cannot_run_blocks_nothing_behind_it(stores: Stores) {
    let other = Requirements::of_engine("other").to_set();
    let demand = async || {
        let demand = stores.queue.demand(at(10)).await.expect("an answer");
        demand
            .sets
            .iter()
            .map(RequirementSet::id)
            .collect::<HashSet<_>>()
    };
    assert_eq!(demand().await, HashSet::new());
    let mut jobs = Vec::new();
    for n in 1..=6 {
        let mut job = insert_of(n, if n % 3 == 0 { "b" } else { "a" });
        if n <= 3 {
            job.body.placement.requirements = other.clone();
        }
        job.body.placement.account_room = 9;
        jobs.push(submit(&stores, job).await);
    }
    assert_eq!(demand().await, HashSet::from([known().id(), other.id()]));
    let claimed = async |sets: &[&RequirementSet]| {
        let request = ClaimRequest {
            sets: sets.iter().map(|set| set.id()).collect(),
            ..request(1)
        };
        let claimed = stores.queue.claim(&request, at(10)).await;
        let claim = claimed.expect("the queue answers")?;
        // What was kept with the job is what was sent, whichever jobs share it.
        let needs = if claim.job.id.0.as_u128() <= 3 {
            &other
        } else {
            &known()
        };
        assert_eq!(&claim.body.placement.requirements, needs);
        Some(claim.job.id.0.as_u128())
    };
    assert_eq!(claimed(&[]).await, None);
    assert_eq!(
        claimed(&[&known()]).await,
        Some(4),
        "a's oldest that can run"
    );
    assert_eq!(claimed(&[&known()]).await, Some(6), "b's turn");
    assert_eq!(claimed(&[&known()]).await, Some(5));
    assert_eq!(claimed(&[&known()]).await, None);
    assert_eq!(demand().await, HashSet::from([other.id()]));
    assert_eq!(
        claimed(&[&known(), &other]).await,
        Some(3),
        "a was served last"
    );
    assert_eq!(claimed(&[&known(), &other]).await, Some(1));
    assert_eq!(claimed(&[&known(), &other]).await, Some(2));
    assert_eq!(demand().await, HashSet::new());
}

async fn a_worker_is_present_while_it_renews(stores: Stores) {
    let present = async |now| {
        let demand = stores.queue.demand(now).await.expect("an answer");
        let mut present: Vec<u128> = demand.workers.iter().map(|id| id.0.as_u128()).collect();
        present.sort_unstable();
        present
    };
    let renew = async |n, seconds, now| {
        let lease = Duration::from_secs(seconds);
        let news = stores.queue.renew(worker(n), &[], lease, now).await;
        assert_eq!(news.expect("an answer"), []);
    };
    assert_eq!(present(at(0)).await, []);
    renew(1, 30, at(0)).await;
    renew(2, 30, at(10)).await;
    renew(2, 5, at(10)).await;
    assert_eq!(present(at(29)).await, [1, 2]);
    assert_eq!(present(at(30)).await, [2]);
    renew(1, 30, at(30)).await;
    assert_eq!(present(at(40)).await, [1]);
}

async fn a_job_is_claimed_once(stores: Stores) {
    for n in 0..8 {
        submit(
            &stores,
            InsertJob {
                ..insert_of(n, &format!("a{n}"))
            },
        )
        .await;
    }
    let requests: Vec<ClaimRequest> = (1..=16).map(request).collect();
    let claims = requests
        .iter()
        .map(|request| stores.queue.claim(request, at(10)));
    let claims = futures_util::future::join_all(claims).await;
    let mut ids: Vec<JobId> = claims
        .into_iter()
        .filter_map(|claim| claim.expect("an answer"))
        .map(|c| c.job.id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8);
}

async fn a_lapsed_claim_is_retried_once_and_its_worker_refused(stores: Stores) {
    submit(&stores, insert_of(1, "a")).await;
    let first = claim(&stores, 1, at(10)).await.expect("the job is next");
    assert_eq!(
        (first.job.status, first.job.epoch, first.job.worker),
        (JobStatus::Running, Epoch(1), Some(worker(1)))
    );
    assert_eq!(
        stores.queue.reap(at(0), at(39)).await.expect("an answer"),
        [] as [Arc<Job>; 0]
    );
    let reaped = stores.queue.reap(at(0), at(40)).await.expect("an answer");
    assert_eq!(
        reaped.iter().map(|job| job.status).collect::<Vec<_>>(),
        [JobStatus::Queued]
    );

    let second = claim(&stores, 2, at(41))
        .await
        .expect("the job is next again");
    assert_eq!(
        (second.job.epoch, second.body.workflow.clone()),
        (Epoch(2), first.body.workflow.clone())
    );
    // The first worker comes back and is refused, whatever it says.
    let lease = Duration::from_secs(30);
    let news = stores
        .queue
        .renew(worker(1), &[(first.job.id, first.job.epoch)], lease, at(42))
        .await;
    assert_eq!(news.expect("an answer"), [LeaseNews::Lost]);
    let mut zombie = Job::clone(&first.job);
    zombie
        .apply(
            JobEvent::Finished {
                epoch: first.job.epoch,
            },
            at(42),
        )
        .expect("it does not know yet");
    let save = SaveJob {
        job: zombie,
        outputs: Vec::new(),
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    assert_eq!(
        stores.jobs.save(save).await.expect("an answer"),
        SaveOutcome::Conflict
    );

    let reaped = stores.queue.reap(at(0), at(100)).await.expect("an answer");
    let codes: Vec<_> = reaped
        .iter()
        .map(|job| (job.status, job.error.as_ref().map(|error| error.code)))
        .collect();
    assert_eq!(codes, [(JobStatus::Failed, Some(JobErrorCode::WorkerLost))]);
}

/// A crash of a database can take a claim back: another worker's claim then has the same epoch and makes the same revision.
async fn a_save_of_another_claim_is_refused(stores: Stores) {
    submit(&stores, insert_of(1, "a")).await;
    let claimed = claim(&stores, 1, at(10)).await.expect("the job is next");
    let job = claimed.job;
    let epoch = job.epoch;
    let others = [(Some(worker(2)), epoch), (Some(worker(1)), Epoch(2))];
    for (worker, epoch) in others {
        let lost = Job {
            worker,
            epoch,
            ..Job::clone(&job)
        };
        let events = [
            advanced(&lost),
            JobEvent::GivenBack { epoch },
            JobEvent::Finished { epoch },
            JobEvent::CancelRequested,
        ];
        let all = [Durability::Now, Durability::WithNext, Durability::Lazy];
        for (event, durability) in events.iter().flat_map(|event| all.map(|all| (event, all))) {
            let mut next = lost.clone();
            next.apply(event.clone(), at(11)).expect("it runs");
            let save = SaveJob {
                job: next,
                outputs: vec![picture("9", 0, 1)],
                log: None,
                durability,
                reports: Vec::new(),
            };
            let refused = stores.jobs.save(save).await.expect("the store answers");
            assert_eq!(refused, SaveOutcome::Conflict, "{event:?}");
        }
    }
    assert_eq!(load(&stores, &job, at(12)).await, Some(job.clone()));
    let end = JobEvent::Finished { epoch };
    let ended = apply(&stores, &job, end, vec![picture("9", 0, 1)], at(12)).await;
    assert_eq!((ended.outputs.len(), ended.worker), (1, Some(worker(1))));
}

async fn a_renewed_claim_does_not_lapse_and_hears_of_a_cancel(stores: Stores) {
    submit(&stores, insert_of(1, "a")).await;
    let job = claim(&stores, 1, at(10))
        .await
        .expect("the job is next")
        .job;
    let renew = async |now| {
        let claims = [(job.id, job.epoch), (JobId(Uuid::from_u128(99)), Epoch(1))];
        stores
            .queue
            .renew(worker(1), &claims, Duration::from_secs(30), now)
            .await
            .expect("an answer")
    };
    assert_eq!(renew(at(30)).await, [LeaseNews::Renewed, LeaseNews::Lost]);
    assert_eq!(
        stores.queue.reap(at(0), at(59)).await.expect("an answer"),
        [] as [Arc<Job>; 0]
    );
    apply(&stores, &job, JobEvent::CancelRequested, Vec::new(), at(59)).await;
    assert_eq!(renew(at(59)).await[0], LeaseNews::CancelWanted);
    let reaped = stores.queue.reap(at(0), at(89)).await.expect("an answer");
    assert_eq!(
        reaped.iter().map(|job| job.status).collect::<Vec<_>>(),
        [JobStatus::Canceled]
    );
}

async fn a_job_that_waited_too_long_expires(stores: Stores) {
    let old = submit(&stores, insert_of(1, "a")).await;
    submit(&stores, insert_of(2, "a")).await;
    let reaped = stores.queue.reap(at(2), at(5)).await.expect("an answer");
    let expired: Vec<_> = reaped.iter().map(|job| (job.id, job.status)).collect();
    assert_eq!(expired, [(old.id, JobStatus::Expired)]);
    let loaded = stores.jobs.load(&old.account, old.id, at(6)).await;
    let loaded = loaded.expect("an answer").expect("it is kept");
    let code = loaded.error.as_ref().map(|error| error.code);
    assert_eq!(code, Some(JobErrorCode::Timeout));
    assert_eq!(
        stores.queue.depth().await.expect("an answer"),
        QueueDepth {
            queued: 1,
            running: 0
        }
    );
}
