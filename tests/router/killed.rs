//! The process is killed in the middle of a generation of every model of the shipped catalog: what a partner accepted is picked up
//! by its key, what it may have got ends with an unknown outcome, and no partner sees a submission twice.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use it::partners::{Fault, Outcome, Partner, Plan, Step};

use super::durability::send_and_leave;
use super::*;
use crate::providers::documented::Case;
use crate::providers::{Bench, environment};

/// How often every partner is asked after its tasks, in milliseconds: often enough for a test.
const INTERVAL_MS: u32 = 500;

/// A call of a model under a key of its own.
struct Call {
    id: &'static str,
    partner: Partner,
    request: Request,
}

impl Call {
    fn of(case: Case, body: &str) -> Self {
        let id = case.id();
        let request = Request::new("POST", &path_of(id));
        let request = request
            .header("Content-Type", "application/json")
            .body(body);
        Self {
            id,
            partner: case.partner(),
            request: of("wide", request).header("Idempotency-Key", id),
        }
    }
}

fn is_polled(bench: &Bench, case: &Case) -> bool {
    let runner = bench.model(case.id()).runner.as_ref();
    runner.unwrap().is_polled()
}

/// How many of the calls go to each partner.
fn by_partner(calls: &[Call]) -> BTreeMap<Partner, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.partner).or_default() += 1;
    }
    counts
}

/// A router that has every partner of the catalog, each asked after its tasks often.
async fn rig(bench: &Bench) -> Rig {
    let wide = vec![
        AccountChange::ConcurrentCalls(Some(1_000)),
        AccountChange::CommittedSpendCents(Some(1_000_000)),
    ];
    let mut rig = Rig::with(&[], &[("wide", wide)]).await;
    rig.end().await;
    let shipped = root().join("crates/providers/catalog");
    for partner in &bench.loaded.partners {
        let to = rig.folder.path().join("catalog").join(&partner.id);
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(shipped.join(&partner.id)).unwrap() {
            let file = file.unwrap();
            let text = std::fs::read_to_string(file.path()).unwrap();
            std::fs::write(to.join(file.file_name()), hurried(&text)).unwrap();
        }
        rig.launch.variables.extend(
            partner
                .credentials
                .iter()
                .map(|name| (name.clone(), environment(name).expect(name))),
        );
    }
    rig.begin().await;
    rig
}

/// The definition with every interval made short.
fn hurried(definition: &str) -> String {
    const INTERVAL: &str = "interval_ms = ";
    let mut pieces = definition.split(INTERVAL);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        text += &format!("{INTERVAL}{INTERVAL_MS}{rest}");
    }
    text
}

/// Waits until every task of these partners has been asked after: then all their handles are on disk.
async fn asked_after(rig: &Rig, counts: &BTreeMap<Partner, usize>) {
    for (partner, count) in counts {
        let (mut seen, mut asked) = (0, BTreeSet::new());
        while asked.len() < *count {
            let looks = rig.partners.seen(*partner, Step::Poll, seen + 1).await;
            seen = looks.len();
            asked = looks.into_iter().map(|it| (it.target, it.body)).collect();
        }
    }
}

/// Sends the calls, and kills the router once `under_way` says that all of them are; then it starts anew.
async fn killed(rig: &mut Rig, calls: &[Call], under_way: impl AsyncFnOnce(&Rig)) {
    let answered = calls.iter().map(async |call| {
        let answer = rig.send(call.request.clone()).await;
        panic!("{} is answered already: {}", call.id, answer.text());
    });
    tokio::select! {
        () = under_way(rig) => {}
        _ = join_all(answered) => unreachable!("each of them panics"),
    }
    rig.kill().await;
    rig.begin().await;
}

/// Sends every call once more.
async fn retried(rig: &Rig, calls: &[Call]) -> Vec<Answer> {
    join_all(calls.iter().map(|call| rig.send(call.request.clone()))).await
}

/// The bills of all generations, by model.
async fn bills(rig: &mut Rig) -> BTreeMap<String, Vec<u64>> {
    let mut bills = BTreeMap::<String, Vec<u64>>::new();
    for row in rig.record().await.iter().filter(|row| row.began()) {
        let charge = row.generation.as_ref().unwrap().charge_cents;
        let model = row.call.model.as_ref().unwrap().to_string();
        let of_model = bills.entry(model).or_default();
        of_model.extend(charge);
    }
    bills
}

#[tokio::test]
async fn at_every_polled_model_a_retry_picks_up_the_one_task() {
    let bench = Bench::start().await;
    let mut rig = rig(&bench).await;
    let calls: Vec<Call> = Case::all()
        .filter(|case| is_polled(&bench, case))
        .map(|case| Call::of(case, &case.example.body))
        .collect();
    let counts = by_partner(&calls);
    for call in &calls {
        rig.partners.plan(call.partner, Plan::held());
    }
    killed(&mut rig, &calls, async |rig| {
        asked_after(rig, &counts).await
    })
    .await;
    for partner in counts.keys() {
        for task in rig.partners.tasks(*partner) {
            rig.partners.end(*partner, &task, Outcome::Succeed);
        }
    }
    for (call, answer) in calls.iter().zip(retried(&rig, &calls).await) {
        assert_eq!(answer.status, 200, "{}: {}", call.id, answer.text());
    }
    for (partner, count) in counts {
        assert_eq!(rig.submits(partner), count, "{partner:?}");
    }
    let bills = bills(&mut rig).await;
    assert_eq!(bills.len(), calls.len());
    for (model, cents) in bills {
        assert_eq!(cents.len(), 1, "{model}: {cents:?}");
    }
}

#[tokio::test]
async fn at_every_other_model_the_outcome_is_unknown_and_nothing_is_sent_again() {
    let bench = Bench::start().await;
    let mut rig = rig(&bench).await;
    let calls: Vec<Call> = Case::all()
        .filter(|case| !is_polled(&bench, case))
        .map(|case| Call::of(case, &case.example.body))
        .collect();
    for call in &calls {
        rig.partners.fault(call.partner, Step::Submit, Fault::Stall);
    }
    let submitted = async |rig: &Rig| {
        for (partner, count) in by_partner(&calls) {
            rig.partners.seen(partner, Step::Submit, count).await;
        }
    };
    killed(&mut rig, &calls, submitted).await;
    unknown_and_free(rig, &calls).await;
}

#[tokio::test]
async fn at_every_model_that_streams_the_outcome_is_unknown_and_nothing_is_sent_again() {
    let bench = Bench::start().await;
    let mut rig = rig(&bench).await;
    let (mut calls, mut connections) = (Vec::new(), Vec::new());
    for case in Case::all() {
        let Some(stream) = &case.call.stream else {
            continue;
        };
        let (_, rest) = case.example.body.split_once('{').expect("an object");
        let call = Call::of(case, &format!(r#"{{"stream":true,{rest}"#));
        // Its first half comes, and no end.
        let (half, _) = stream
            .succeeded
            .as_bytes()
            .split_at(stream.succeeded.len() / 2);
        let pieces = Fault::Pieces(vec![half.to_vec()], false);
        rig.partners.fault(call.partner, Step::Submit, pieces);
        let mut connection = send_and_leave(&rig, &call.request).await;
        let (status, _) = connection.head().await.unwrap();
        assert_eq!(status, 200, "{}", call.id);
        assert!(connection.chunk().await.unwrap().is_some(), "{}", call.id);
        connections.push(connection);
        calls.push(call);
    }
    rig.kill().await;
    drop(connections);
    rig.begin().await;
    unknown_and_free(rig, &calls).await;
}

/// Each key answers that nobody knows what came of its call; nothing was sent again, and nothing is billed.
async fn unknown_and_free(mut rig: Rig, calls: &[Call]) {
    assert!(!calls.is_empty());
    for (call, answer) in calls.iter().zip(retried(&rig, calls).await) {
        let told = (answer.status, answer.header("idempotent-replayed"));
        assert_eq!(told, (502, Some("true")), "{}: {}", call.id, answer.text());
        let detail = "the outcome at the partner is unknown; use a new key";
        assert_eq!(answer.json()["detail"], detail, "{}", call.id);
    }
    for (partner, count) in by_partner(calls) {
        assert_eq!(rig.submits(partner), count, "{partner:?}");
    }
    let bills = bills(&mut rig).await;
    assert_eq!(bills.len(), calls.len());
    for (model, cents) in bills {
        assert_eq!(cents, [0], "{model}");
    }
}
