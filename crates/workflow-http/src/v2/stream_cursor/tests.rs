//! What each kind of client is cursor, and in which order.

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use workflow_core::{Epoch, JobId, OutputKind};

use super::*;

use JobStatus::{Canceled, Canceling, Queued, Running, Succeeded};

fn progress(value: f64) -> Progress {
    Progress {
        value,
        ..Progress::start(4)
    }
}

fn output(index: u32) -> JobOutput {
    JobOutput {
        node_id: "9".into(),
        index,
        kind: OutputKind::Image,
        temp: false,
        path: format!("{index}.png").parse().expect("a path"),
        content_type: "image/png".to_owned(),
        size_bytes: 1,
        asset: asset_store::AssetId(Uuid::from_u128(u128::from(index))),
        hash: asset_store::BlobHash::of(b""),
    }
}

fn job(revision: u64, status: JobStatus, outputs: u32) -> Arc<Job> {
    let at = Timestamp::UNIX_EPOCH;
    Arc::new(Job {
        id: JobId(Uuid::nil()),
        account: accounts::AccountId::local(),
        revision,
        status,
        epoch: Epoch(1),
        worker: None,
        lost_claims: 0,
        created_at: at,
        updated_at: at,
        started_at: None,
        completed_at: None,
        expires_at: at,
        retention: SignedDuration::from_hours(24),
        progress: if status == Succeeded {
            Progress::complete(4)
        } else {
            Progress::start(4)
        },
        outputs: (0..outputs).map(output).collect(),
        error: None,
        metadata: workflow_core::Metadata::new(),
    })
}

fn view(job: &Arc<Job>) -> JobView {
    JobView {
        job: Arc::clone(job),
        progress: job.progress.clone(),
        queue_position: None,
    }
}

fn live(job: &Arc<Job>, statuses: &[JobStatus], value: Option<f64>) -> Live {
    Live {
        job: Some(Arc::clone(job)),
        statuses: statuses.to_vec(),
        progress: value.map(progress),
        preview: None,
    }
}

fn picture() -> Arc<Preview> {
    Arc::new(Preview {
        node_id: "9".into(),
        content_type: "image/jpeg",
        bytes: Bytes::from_static(b"jpeg"),
    })
}

#[test]
fn on_connect_status_progress_outputs_and_preview_are_told() {
    let running = job(3, Running, 2);
    let picture = picture();
    let known = Live {
        preview: Some(Arc::clone(&picture)),
        ..live(&running, &[Running], None)
    };
    let (mut cursor, news) = StreamCursor::begin(&view(&running), &known);
    assert_eq!(
        news,
        [
            News::Status(Running),
            News::Progress(Progress::start(4)),
            News::Output(output(0)),
            News::Output(output(1)),
            News::Preview(picture),
        ]
    );
    assert_eq!(
        cursor.take(&known, true),
        [],
        "the same snapshot is no news"
    );
}

#[test]
fn a_finished_job_is_told_at_once_and_its_status_last() {
    let done = job(7, Succeeded, 1);
    let (_, news) = StreamCursor::begin(&view(&done), &Live::default());
    let expected = [
        News::Progress(Progress::complete(4)),
        News::Output(output(0)),
        News::Over(done),
    ];
    assert_eq!(news, expected);
}

#[test]
fn outputs_precede_the_terminal_status() {
    let (mut cursor, _) = StreamCursor::begin(&view(&job(3, Running, 1)), &Live::default());
    let done = job(5, Succeeded, 3);
    let news = cursor.take(&live(&done, &[Running, Succeeded], Some(0.9)), false);
    let expected = [
        News::Progress(Progress::complete(4)),
        News::Output(output(1)),
        News::Output(output(2)),
        News::Over(done),
    ];
    assert_eq!(news, expected);
}

#[test]
fn progress_waits_for_its_time_and_only_the_newest_is_told() {
    let running = job(3, Running, 0);
    let (mut cursor, _) = StreamCursor::begin(&view(&running), &live(&running, &[Running], None));
    let first = live(&running, &[Running], Some(0.25));
    assert_eq!(cursor.take(&first, false), []);
    assert!(cursor.is_behind(&first));
    let second = live(&running, &[Running], Some(0.5));
    assert_eq!(cursor.take(&second, true), [News::Progress(progress(0.5))]);
    assert!(!cursor.is_behind(&second));
}

#[test]
fn the_last_progress_and_preview_are_told_before_the_end_whatever_the_time() {
    let (mut cursor, _) = StreamCursor::begin(&view(&job(3, Running, 0)), &Live::default());
    let over = job(4, Canceled, 0);
    let picture = picture();
    let last = Live {
        preview: Some(Arc::clone(&picture)),
        ..live(&over, &[Running, Canceling, Canceled], Some(0.75))
    };
    let expected = [
        News::Status(Canceling),
        News::Progress(progress(0.75)),
        News::Preview(picture),
        News::Over(over),
    ];
    assert_eq!(cursor.take(&last, false), expected);
}

#[test]
fn progress_never_goes_back() {
    let running = job(3, Running, 0);
    let (mut cursor, _) = StreamCursor::begin(&view(&running), &live(&running, &[Running], None));
    cursor.take(&live(&running, &[Running], Some(0.5)), true);
    let behind = live(&running, &[Running], Some(0.25));
    assert_eq!(cursor.take(&behind, true), []);
    assert!(!cursor.is_behind(&behind));
}

#[test]
fn statuses_between_two_looks_are_told_once_and_in_order() {
    let (mut cursor, _) = StreamCursor::begin(&view(&job(1, Queued, 0)), &Live::default());
    let canceling = live(&job(3, Canceling, 0), &[Running, Canceling], None);
    let news = cursor.take(&canceling, false);
    assert_eq!(news, [News::Status(Running), News::Status(Canceling)]);
    assert_eq!(cursor.take(&canceling, false), []);
}

#[test]
fn a_snapshot_that_is_older_than_the_view_is_no_news() {
    let stale = live(&job(2, Queued, 0), &[Running, Queued], None);
    let (mut cursor, news) = StreamCursor::begin(&view(&job(3, Running, 2)), &stale);
    assert_eq!(news.first(), Some(&News::Status(Running)));
    assert_eq!(cursor.take(&stale, true), []);
}

#[test]
fn a_snapshot_that_is_newer_than_the_view_is_news_from_there_on() {
    let newer = live(
        &job(5, Canceling, 0),
        &[Running, Queued, Running, Canceling],
        None,
    );
    let (mut cursor, news) = StreamCursor::begin(&view(&job(4, Running, 0)), &newer);
    assert_eq!(news.first(), Some(&News::Status(Running)));
    assert_eq!(cursor.take(&newer, true), [News::Status(Canceling)]);
    let (mut cursor, _) = StreamCursor::begin(
        &view(&job(1, Queued, 0)),
        &live(&job(2, Running, 0), &[Running], None),
    );
    let same = live(&job(2, Running, 0), &[Running], None);
    assert_eq!(cursor.take(&same, true), [News::Status(Running)]);
}

#[test]
fn a_job_that_is_given_back_is_told_as_queued_again() {
    let (mut cursor, _) = StreamCursor::begin(&view(&job(2, Running, 0)), &Live::default());
    let back = live(&job(3, Queued, 0), &[Queued], None);
    assert_eq!(cursor.take(&back, false), [News::Status(Queued)]);
}
