//! Answers that come as streams: what the caller gets of them and when, and what is left for the key, the bill and the record.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;

use super::harness::*;
use crate::{
    Answer, AnswerSink, AnswerStream, Answered, Bucket, Charge, Done, Failure, QueuedResult,
    REPLAY_CAP_BYTES, Ran, RouterError, StreamEnding, StreamStep, Submitted,
};

const ASKS: &str = "{\"stream\":true}";

/// How a provider tells the end of a submission.
type Told = tokio::sync::oneshot::Sender<Result<Submitted, Failure>>;

/// A call whose stream has begun with `one`.
struct Begun {
    call: Streaming,
    sink: AnswerSink,
    told: Told,
}

/// What its caller has of it.
struct Streaming {
    answered: Answered,
    execution: tokio::task::JoinHandle<()>,
}

impl Begun {
    async fn with(house: &House, call: Call<'_>) -> Self {
        let under_way = house.begin(call).await;
        let (mut submission, told) = house.submitted().await;
        let mut sink = submission.stream.take().expect("the body asks for it");
        sink.begin("text/event-stream".to_owned());
        sink.pass(Bytes::from_static(b"one")).await;
        let answered = under_way.waiter.await.expect("no panic");
        let first = answered.result.as_ref().expect("it has begun");
        assert_eq!(first.body, "one");
        assert_eq!(first.content_type, "text/event-stream");
        assert_eq!(answered.charge_cents, None);
        let call = Streaming {
            answered,
            execution: under_way.execution,
        };
        Self { call, sink, told }
    }
}

impl Streaming {
    fn stream(&mut self) -> &mut AnswerStream {
        self.answered.stream.as_mut().expect("it is a stream")
    }

    async fn next(&mut self) -> StreamStep {
        next(self.stream()).await
    }

    /// Has it end, on record.
    async fn end(mut self) -> StreamEnding {
        let StreamStep::Ended(ending) = self.next().await else {
            panic!("more came");
        };
        assert!(
            poll_fn(|cx| self.stream().poll_next(cx)).await.is_none(),
            "the end comes once"
        );
        self.answered.delivery.ended(ending);
        self.execution.await.expect("no panic");
        ending
    }

    /// The caller leaves.
    fn leave(self) -> tokio::task::JoinHandle<()> {
        drop(self.answered.stream);
        let left = StreamEnding::Cut(Bucket::ClientDisconnected);
        self.answered.delivery.ended(left);
        self.execution
    }
}

async fn next(stream: &mut AnswerStream) -> StreamStep {
    let step = poll_fn(|cx| stream.poll_next(cx)).await;
    step.expect("it has not ended")
}

fn piece(text: &'static str) -> StreamStep {
    StreamStep::Piece(Bytes::from_static(text.as_bytes()))
}

fn whole(answer: Answer, cents: u64) -> Result<Submitted, Failure> {
    Ok(Submitted::Done(Done {
        answer,
        charge: Charge::Cents(cents),
        task_id: None,
    }))
}

fn in_stream(cause: Failure, cents: u64) -> Result<Submitted, Failure> {
    Err(Failure::InStream {
        cause: Box::new(cause),
        charge: Charge::Cents(cents),
    })
}

fn broken() -> Failure {
    Failure::Failed {
        ran: Ran::Nothing,
        message: "it broke".to_owned(),
    }
}

#[tokio::test]
async fn pieces_come_while_the_work_runs_and_the_end_when_it_is_billed() {
    let house = House::new().await;
    let mut begun = Begun::with(&house, keyed(ASKS)).await;
    begun.sink.pass(Bytes::from_static(b"two")).await;
    assert_eq!(begun.call.next().await, piece("two"));
    assert_eq!(house.load().await.calls, 1, "its room is held");
    assert_eq!(house.balance().await, (1_000, 10));
    let again = house.refused(keyed(ASKS)).await;
    assert!(matches!(again, RouterError::InFlight { .. }), "{again:?}");
    let answer = begun.sink.finish();
    assert_eq!(answer.body, "onetwo");
    begun.told.send(whole(answer, 4)).expect("awaited");
    assert_eq!(begun.call.end().await, StreamEnding::Whole(None));
    assert_eq!(house.balance().await, (996, 0));
    assert_eq!(house.load().await.calls, 0);
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, None);
    assert!(record[0].call.delivered);
    let (replayed, is_replayed) = house.ask(keyed(ASKS)).await;
    let replayed = replayed.expect("the whole stream");
    assert!(is_replayed);
    assert_eq!(replayed.body, "onetwo");
    assert_eq!(replayed.content_type, "text/event-stream");
    assert_eq!(house.submits(), 1);
}

#[tokio::test]
async fn a_body_that_does_not_ask_gets_no_stream() {
    let house = House::new().await;
    let call = house.begin(call("{\"stream\":false}")).await;
    let (submission, told) = house.submitted().await;
    assert!(submission.stream.is_none());
    told.send(Ok(Submitted::Done(done("{}")))).expect("awaited");
    assert_eq!(call.answer().await.expect("a result").body, "{}");
}

#[tokio::test]
async fn without_a_key_nothing_is_kept() {
    let house = House::new().await;
    let begun = Begun::with(&house, call(ASKS)).await;
    let answer = begun.sink.finish();
    assert_eq!(answer.body, "");
    begun.told.send(whole(answer, 1)).expect("awaited");
    assert_eq!(begun.call.end().await, StreamEnding::Whole(None));
}

#[tokio::test]
async fn a_break_ends_the_stream_and_its_key_tells_the_failure() {
    let house = House::new().await;
    let begun = Begun::with(&house, keyed(ASKS)).await;
    drop(begun.sink);
    // The cause claims that nothing ran: after the first byte that is not so.
    begun.told.send(in_stream(broken(), 3)).expect("awaited");
    let ending = begun.call.end().await;
    assert_eq!(ending, StreamEnding::Cut(Bucket::ProviderError));
    assert_eq!(house.balance().await, (997, 0));
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, Some(Bucket::ProviderError));
    assert!(!record[0].call.delivered);
    let (replayed, is_replayed) = house.ask(keyed(ASKS)).await;
    let replayed = replayed.expect_err("a failure");
    assert_eq!(replayed.bucket(), Bucket::ProviderError);
    assert!(is_replayed);
    assert_eq!(house.submits(), 1, "it never starts again");
}

#[tokio::test]
async fn a_failure_that_an_event_tells_ends_the_stream_whole() {
    let house = House::new().await;
    let begun = Begun::with(&house, keyed(ASKS)).await;
    let _ = begun.sink.finish();
    let busy = Failure::Transient {
        message: "busy".to_owned(),
    };
    begun.told.send(in_stream(busy, 0)).expect("awaited");
    let ending = begun.call.end().await;
    let bucket = Some(Bucket::ServiceUnavailable);
    assert_eq!(ending, StreamEnding::Whole(bucket));
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, bucket);
    assert!(record[0].call.delivered);
    let told = house.refused(keyed(ASKS)).await;
    assert_eq!(told.bucket(), Bucket::ServiceUnavailable);
    assert_eq!((house.submits(), house.balance().await), (1, (1_000, 0)));
}

#[tokio::test]
async fn who_leaves_is_billed_and_finds_the_whole_stream_behind_the_key() {
    let house = House::new().await;
    let mut begun = Begun::with(&house, keyed(ASKS)).await;
    let execution = begun.call.leave();
    begun.sink.pass(Bytes::from_static(b"two")).await;
    // A retry becomes the one who waits, and gets all of it.
    let retry = house.begin(keyed(ASKS)).await;
    let answer = begun.sink.finish();
    begun.told.send(whole(answer, 4)).expect("awaited");
    execution.await.expect("no panic");
    assert_eq!(retry.answer().await.expect("a result").body, "onetwo");
    assert_eq!(house.balance().await, (996, 0));
    let record = house.record().await;
    let left = record[0].call.bucket;
    assert_eq!(left, Some(Bucket::ClientDisconnected));
    assert!(!record[0].call.delivered);
}

#[tokio::test]
async fn who_takes_nothing_is_cut_and_the_work_goes_on() {
    let house = House::new().await;
    let begun = Begun::with(&house, keyed(ASKS)).await;
    let Begun {
        call,
        mut sink,
        told,
    } = begun;
    let feeding = tokio::spawn(async move {
        for _ in 0..20 {
            sink.pass(Bytes::from_static(b"more")).await;
        }
        sink
    });
    // Some pieces wait for the caller, then the partner waits, and then no more.
    loop {
        tokio::select! {
            () = house.clock.somebody_sleeps() => house.clock.advance(Duration::from_secs(30)),
            () = tokio::task::yield_now() => if feeding.is_finished() { break },
        }
    }
    let answer = feeding.await.expect("no panic").finish();
    assert_eq!(answer.body.len(), 3 + 20 * 4);
    told.send(whole(answer, 4)).expect("awaited");
    let mut call = call;
    let mut pieces = 0;
    let ending = loop {
        match call.next().await {
            StreamStep::Piece(_) => pieces += 1,
            StreamStep::Ended(ending) => break ending,
        }
    };
    assert_eq!(ending, StreamEnding::Cut(Bucket::ClientDisconnected));
    assert!((1..=5).contains(&pieces), "{pieces} pieces were held");
    call.execution.await.expect("no panic");
    assert_eq!(house.balance().await, (996, 0));
}

#[tokio::test]
async fn a_deadline_cuts_the_stream_and_not_the_work() {
    let house = House::new().await;
    let mut begun = Begun::with(&house, keyed(ASKS)).await;
    let waiting = async {
        let step = begun.call.next().await;
        assert_eq!(
            step,
            StreamStep::Ended(StreamEnding::Cut(Bucket::DeadlineExceeded))
        );
    };
    let passing = async {
        // It falls asleep once it is asked for more.
        house.clock.somebody_sleeps().await;
        house.clock.advance(DEADLINE);
    };
    tokio::join!(waiting, passing);
    let answer = begun.sink.finish();
    begun.told.send(whole(answer, 4)).expect("awaited");
    let ending = StreamEnding::Cut(Bucket::DeadlineExceeded);
    begun.call.answered.delivery.ended(ending);
    begun.call.execution.await.expect("no panic");
    assert_eq!(house.balance().await, (996, 0));
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, Some(Bucket::DeadlineExceeded));
    let (replayed, _) = house.ask(keyed(ASKS)).await;
    assert_eq!(replayed.expect("the whole").body, "one");
}

#[tokio::test]
async fn a_router_that_stops_cuts_its_streams() {
    let house = House::new().await;
    let mut begun = Begun::with(&house, keyed(ASKS)).await;
    house.router.dismiss_callers();
    let ended = StreamStep::Ended(StreamEnding::Cut(Bucket::ServiceUnavailable));
    drop(begun.sink);
    assert_eq!(begun.call.next().await, ended);
}

#[tokio::test]
async fn a_stream_over_the_cap_is_not_replayed() {
    let house = House::new().await;
    let mut begun = Begun::with(&house, keyed(ASKS)).await;
    let execution = begun.call.leave();
    let retry = house.begin(keyed(ASKS)).await;
    let large = Bytes::from(vec![b'x'; REPLAY_CAP_BYTES]);
    begun.sink.pass(large.clone()).await;
    begun.sink.pass(large).await;
    let answer = begun.sink.finish();
    assert_eq!(answer.body.len(), REPLAY_CAP_BYTES + 1, "no more is held");
    begun.told.send(whole(answer, 4)).expect("awaited");
    execution.await.expect("no panic");
    let error = retry.answer().await.expect_err("only a part is kept");
    assert!(matches!(error, RouterError::NotReplayable), "{error:?}");
    let error = house.refused(keyed(ASKS)).await;
    assert!(matches!(error, RouterError::NotReplayable), "{error:?}");
}

#[tokio::test]
async fn a_queued_request_has_the_whole_stream_as_its_result() {
    let house = House::new().await;
    let request = house.submitted_request(ASKS).await;
    let running = tokio::spawn(house.next_execution().await.expect("there is room"));
    let (mut submission, told) = house.submitted().await;
    let mut sink = submission.stream.take().expect("the body asks for it");
    sink.begin("text/event-stream".to_owned());
    let large = Bytes::from(vec![b'x'; REPLAY_CAP_BYTES]);
    sink.pass(large.clone()).await;
    sink.pass(large).await;
    told.send(whole(sink.finish(), 4)).expect("awaited");
    running.await.expect("no panic");
    let result = house.result(&request).await.expect("a result");
    let QueuedResult::Answered { answer, .. } = result else {
        panic!("it is over");
    };
    assert_eq!(answer.content_type, "text/event-stream");
    assert_eq!(answer.body.len(), 2 * REPLAY_CAP_BYTES);
}

#[tokio::test]
async fn who_takes_no_stream_gets_the_answer_as_a_whole() {
    let house = House::new().await;
    let mut begun = Begun::with(&house, keyed(ASKS)).await;
    begun.sink.pass(Bytes::from_static(b"two")).await;
    let answer = begun.sink.finish();
    begun.told.send(whole(answer, 4)).expect("awaited");
    let answer = begun.call.answered.whole().await.expect("a result");
    assert_eq!(answer.body, "onetwo");
    begun.call.execution.await.expect("no panic");
    assert!(house.record().await[0].call.delivered);
    let begun = Begun::with(&house, call(ASKS)).await;
    drop(begun.sink);
    begun.told.send(in_stream(broken(), 0)).expect("awaited");
    let error = begun.call.answered.whole().await.expect_err("a part");
    assert_eq!(error.bucket(), Bucket::ServiceUnavailable);
    begun.call.execution.await.expect("no panic");
}
