//! Rules of listing jobs.

use super::*;
use crate::{JobCursor, JobQuery};

pub(super) const RULES: [Rule; 4] = [
    |stores| Box::pin(each_job_is_listed_once_while_others_arrive(stores)),
    |stores| Box::pin(a_list_is_narrowed_by_labels(stores)),
    |stores| Box::pin(a_list_may_leave_out_what_is_over(stores)),
    |stores| Box::pin(a_list_by_states_is_whole_on_every_page(stores)),
];

fn query(limit: usize, after: Option<JobCursor>) -> JobQuery {
    JobQuery {
        over: None,
        statuses: Vec::new(),
        account: account("a"),
        labels: Vec::new(),
        after,
        limit,
        outputs: usize::MAX,
    }
}

async fn each_job_is_listed_once_while_others_arrive(stores: Stores) {
    for n in 1..=7 {
        let mut insert = insert_of(n, "a");
        // Three moments for seven jobs: the id decides among equals.
        insert.job.created_at = at(i64::try_from(n / 3).expect("small"));
        submit(&stores, insert).await;
        submit(&stores, insert_of(100 + n, "b")).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = stores
            .jobs
            .list(&query(2, after), at(50))
            .await
            .expect("the store answers");
        let Some(last) = page.last() else { break };
        after = Some(JobCursor {
            created_at: last.created_at,
            id: last.id,
        });
        seen.extend(page.iter().map(|job| job.id.0.as_u128()));
        submit(&stores, insert_of(1_000 + seen.len() as u128, "a")).await;
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

async fn a_list_is_narrowed_by_labels(stores: Stores) {
    for (n, labels) in [
        (1, vec![("x", "1")]),
        (2, vec![("x", "1"), ("y", "2")]),
        (3, vec![("x", "2")]),
    ] {
        let mut insert = insert_of(n, "a");
        insert.job.metadata = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        submit(&stores, insert).await;
    }
    let list = async |labels: &[(&str, &str)]| {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let found = stores
            .jobs
            .list(
                &JobQuery {
                    over: None,
                    labels,
                    ..query(10, None)
                },
                at(50),
            )
            .await;
        found
            .expect("the store answers")
            .iter()
            .map(|job| job.id.0.as_u128())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&[("x", "1")]).await, [2, 1]);
    assert_eq!(list(&[("x", "1"), ("y", "2")]).await, [2]);
    assert_eq!(list(&[("x", "3")]).await, [0; 0]);
    assert_eq!(list(&[("x' OR 1=1 --", "1")]).await, [0; 0]);
}

async fn a_list_may_leave_out_what_is_over(stores: Stores) {
    for n in 1..=3 {
        submit(&stores, insert_of(n, "a")).await;
    }
    submit(&stores, insert_of(4, "b")).await;
    let middle = JobId(Uuid::from_u128(2));
    let middle = stores.jobs.load(&account("a"), middle, at(1)).await;
    let middle = middle.expect("the store answers");
    let mut ended = Job::clone(&middle.expect("the job is there"));
    ended
        .apply(JobEvent::CancelRequested, at(2))
        .expect("a queued job can be canceled");
    let save = SaveJob {
        job: ended,
        outputs: Vec::new(),
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    stores.jobs.save(save).await.expect("the store takes it");
    for (over, listed) in [
        (None, vec![3, 2, 1]),
        (Some(false), vec![3, 1]),
        (Some(true), vec![2]),
    ] {
        let query = JobQuery {
            over,
            ..query(10, None)
        };
        let found = stores.jobs.list(&query, at(2)).await;
        let found = found.expect("the store answers");
        let found: Vec<u128> = found.iter().map(|job| job.id.0.as_u128()).collect();
        assert_eq!(found, listed, "{over:?}");
    }
    for (statuses, listed) in [
        (vec![JobStatus::Queued], vec![3, 1]),
        (vec![JobStatus::Canceled], vec![2]),
        (vec![JobStatus::Canceled, JobStatus::Queued], vec![3, 2, 1]),
        (vec![JobStatus::Running, JobStatus::Succeeded], vec![]),
    ] {
        let query = JobQuery {
            statuses: statuses.clone(),
            ..query(10, None)
        };
        let found = stores.jobs.list(&query, at(2)).await;
        let found = found.expect("the store answers");
        let found: Vec<u128> = found.iter().map(|job| job.id.0.as_u128()).collect();
        assert_eq!(found, listed, "{statuses:?}");
    }
}

async fn a_list_by_states_is_whole_on_every_page(stores: Stores) {
    for n in 1..=9 {
        let mut insert = insert_of(n, "a");
        insert.job.created_at = at(i64::try_from(n / 4).expect("small"));
        submit(&stores, insert).await;
    }
    for n in [2, 3, 6, 7, 8] {
        let job = JobId(Uuid::from_u128(n));
        let job = stores.jobs.load(&account("a"), job, at(3)).await;
        let mut ended = Job::clone(&job.expect("the store answers").expect("the job is there"));
        ended
            .apply(JobEvent::CancelRequested, at(3))
            .expect("a queued job can be canceled");
        let save = SaveJob {
            job: ended,
            outputs: Vec::new(),
            log: None,
            durability: Durability::Now,
            reports: Vec::new(),
        };
        stores.jobs.save(save).await.expect("the store takes it");
    }
    for (status, listed) in [
        (JobStatus::Canceled, vec![8, 7, 6, 3, 2]),
        (JobStatus::Queued, vec![9, 5, 4, 1]),
    ] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let query = JobQuery {
                statuses: vec![status],
                ..query(2, after)
            };
            let page = stores.jobs.list(&query, at(4)).await;
            let page = page.expect("the store answers");
            let Some(last) = page.last() else { break };
            after = Some(JobCursor {
                created_at: last.created_at,
                id: last.id,
            });
            seen.extend(page.iter().map(|job| job.id.0.as_u128()));
        }
        assert_eq!(seen, listed, "{status:?}");
    }
}
