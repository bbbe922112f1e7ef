//! Random histories: rows answer whatever they are asked as the twin in memory does, also after a restart.

use std::collections::{HashMap, HashSet};

use ::accounts::{LedgerRef, MemoryAccounts};
use proptest::prelude::*;
use router_core::{CallRecord, MemoryCalls, RequestId, UsageQuery};

use super::*;

/// One step; a generation is meant by the number of the step that claimed it.
#[derive(Clone, Debug)]
enum Step {
    Claim {
        key: u8,
        fingerprint: u8,
    },
    Dispatch(u8),
    Accepted(u8),
    Keep {
        generation: u8,
        charge_cents: u64,
    },
    /// Another owner takes over what has lapsed.
    TakeOver {
        most: usize,
    },
    /// An owner renews what it has of these.
    Renew {
        is_other: bool,
        generations: [u8; 3],
    },
    /// The other owner ends a generation.
    OtherKeeps(u8),
    Fail(u8),
    Release(u8),
    Record(u8),
    Expire {
        keep_hours: i64,
    },
    Wait {
        hours: i64,
    },
    /// Looks at everything, which brings the log into the rows.
    Look,
    Reopen,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let generation = 0..24_u8;
    prop_oneof![
        6 => (0..3_u8, 0..2_u8).prop_map(|(key, fingerprint)| Step::Claim { key, fingerprint }),
        6 => generation.clone().prop_map(Step::Dispatch),
        2 => generation.clone().prop_map(Step::Accepted),
        4 => (generation.clone(), 0..9_u64)
            .prop_map(|(generation, charge_cents)| Step::Keep { generation, charge_cents }),
        2 => generation.clone().prop_map(Step::Fail),
        2 => generation.clone().prop_map(Step::Release),
        3 => (0..3_usize).prop_map(|most| Step::TakeOver { most }),
        3 => (any::<bool>(), prop::array::uniform3(generation.clone()))
            .prop_map(|(is_other, generations)| Step::Renew { is_other, generations }),
        3 => generation.clone().prop_map(Step::OtherKeeps),
        2 => generation.prop_map(Step::Record),
        2 => (0..60_i64).prop_map(|keep_hours| Step::Expire { keep_hours }),
        2 => (1..20_i64).prop_map(|hours| Step::Wait { hours }),
        4 => Just(Step::Look),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ]
}

/// The owner that takes over.
const OTHER: OwnerId = OwnerId(Uuid::from_u128(2));

/// Leases and claims last longer than most waits of a history.
const LASTS: Duration = Duration::from_secs(10 * 3600);

fn lease_of(owner: OwnerId) -> Lease {
    Lease {
        owner,
        lasts: LASTS,
    }
}

/// What a step answers, in words. `keys` has the keys of the steps that claimed one.
async fn take(
    calls: &(impl SequentialCalls + CallRetention),
    keys: &HashMap<u8, u8>,
    (number, step): (u8, &Step),
    hour: i64,
) -> String {
    let now = at(hour * 3600);
    let text = |answer: &dyn std::fmt::Debug| format!("{answer:?}");
    match *step {
        Step::Claim { key, fingerprint } => {
            let claim = KeyClaim {
                account: acme(),
                key: KeyDigest([key; 32]),
                fingerprint: Fingerprint([fingerprint; 32]),
                generation: id(number.into()),
                expires_at: now + SignedDuration::from_hours(24),
                lasts: LASTS,
            };
            text(&calls.claim(claim, now).await.expect("an answer"))
        }
        // Nothing is dispatched before it could be claimed.
        Step::Dispatch(n) if n >= number => String::new(),
        Step::Dispatch(n) => {
            let generation = Generation {
                dispatched_at: now,
                api_key: api_key(n.into()),
                labels: accounts::Labels::NONE,
                serving: None,
                ..generation(n.into())
            };
            let key = keys.get(&n).map(|key| KeyDigest([*key; 32]));
            let dispatched = calls.dispatch(generation, key, lease_of(OWNER)).await;
            text(&dispatched.expect("an answer"))
        }
        Step::Accepted(n) => {
            let handle = Handle(Bytes::copy_from_slice(&[number]));
            let poll_after = Duration::from_millis(number.into());
            let accepted = calls.accepted(
                (id(n.into()), OWNER),
                &handle,
                poll_after,
                Some("task"),
                now,
            );
            text(&accepted.await.expect("an answer"))
        }
        Step::Keep {
            generation,
            charge_cents,
        } => {
            let ending = Ending::Kept {
                outcome: Outcome::Answered(Answer {
                    content_type: "text/plain".to_owned(),
                    body: vec![number; usize::from(number % 3)].into(),
                }),
                charge_cents,
                results: Vec::new(),
            };
            let settled = calls
                .settle((id(generation.into()), OWNER), &acme(), ending, None, now)
                .await;
            text(&settled.expect("an answer"))
        }
        Step::Fail(n) => {
            let ending = Ending::Kept {
                outcome: Outcome::Failed {
                    bucket: Bucket::ProviderError,
                    message: number.to_string(),
                },
                charge_cents: 0,
                results: Vec::new(),
            };
            let settled = calls
                .settle((id(n.into()), OWNER), &acme(), ending, Some("name"), now)
                .await;
            text(&settled.expect("an answer"))
        }
        Step::Release(n) => {
            let ending = Ending::Released(Bucket::ServiceUnavailable);
            let of = (id(n.into()), OWNER);
            let settled = calls.settle(of, &acme(), ending, None, now).await;
            text(&settled.expect("an answer"))
        }
        Step::OtherKeeps(n) => {
            let (of, ending) = ((id(n.into()), OTHER), ending(b"the other"));
            let settled = calls.settle(of, &acme(), ending, None, now).await;
            text(&settled.expect("an answer"))
        }
        Step::TakeOver { most } => {
            let taken = calls.take_over(lease_of(OTHER), most, now).await;
            text(&taken.expect("an answer"))
        }
        Step::Renew {
            is_other,
            generations,
        } => {
            let owner = if is_other { OTHER } else { OWNER };
            let ids = generations.map(|n| id(n.into()));
            let lost = calls.renew(&ids, lease_of(owner), now).await;
            text(&lost.expect("an answer"))
        }
        Step::Record(n) => {
            let record = CallRecord {
                request: RequestId(Uuid::from_u128(n.into())),
                account: acme(),
                model: Some(generation(0).model),
                key: None,
                generation: Some(id(n.into())),
                api_key: api_key(n.into()),
                labels: accounts::Labels::NONE,
                bucket: (n % 2 == 0).then_some(Bucket::DeadlineExceeded),
                replayed: false,
                received_at: at(n.into()),
                answered_at: now,
                delivered: true,
            };
            calls.record(record);
            String::new()
        }
        Step::Expire { keep_hours } => {
            let keep_from = at((hour - keep_hours) * 3600);
            text(
                &calls
                    .expire(now, keep_from, 1_000)
                    .await
                    .expect("an answer"),
            )
        }
        Step::Wait { .. } | Step::Look | Step::Reopen | Step::Crash => String::new(),
    }
}

/// The API key of every other call.
fn api_key(n: u128) -> Option<::accounts::KeyId> {
    let id = n.is_multiple_of(2).then_some("abcd2345");
    id.map(|id| id.parse().expect("an id"))
}

/// Everything that can be read.
async fn seen(calls: &(impl Calls + Usage), accounts: &dyn CreditLedger) -> String {
    let query = UsageQuery::default();
    let by = router_core::Breakdown {
        by_key: true,
        label: None,
    };
    let credits = accounts.credits(&acme(), at(0)).await.expect("an answer");
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}",
        calls.unfinished().await.expect("an answer"),
        calls.page(&query, None, 100).await.expect("an answer"),
        calls.totals(&query, by).await.expect("an answer"),
        credits.balance_cents,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn rows_answer_any_calls_as_memory_does(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (mut root, mut store) = fresh().await;
            let accounts = Arc::new(MemoryAccounts::new());
            let account = Account::new(acme(), (&acme()).into(), at(0));
            accounts.create(account).await.expect("a free id");
            let memory = MemoryCalls::new(accounts.clone());
            let mut hour = 0;
            // The claims that a restart makes void.
            let mut undispatched: Vec<u8> = Vec::new();
            let mut dispatched: HashSet<u8> = HashSet::default();
            let mut keys: HashMap<u8, u8> = HashMap::new();
            for (number, step) in (0..).zip(&steps) {
                match step {
                    Step::Wait { hours } => hour += hours,
                    Step::Reopen | Step::Crash => {
                        if matches!(step, Step::Crash) {
                            // Records may be lost, but for those that a later commit took along.
                            let last = generation(1_000 + u128::from(number));
                            let lease = lease_of(OWNER);
                            let begun = store.calls().dispatch(last.clone(), None, lease).await;
                            begun.expect("an answer");
                            memory.dispatch(last, None, lease).await.expect("an answer");
                            let crashed = log::crash(root.path());
                            drop(store);
                            root = crashed;
                        } else {
                            drop(store);
                        }
                        store = open(root.path(), 0);
                        for n in undispatched.drain(..) {
                            let released = Ending::Released(Bucket::InternalError);
                            let of = (id(n.into()), OWNER);
                            let void = memory.settle(of, &acme(), released, None, at(0)).await;
                            void.expect("an answer");
                        }
                        // The owner is gone, and a router of the new process takes it over.
                        let all: Vec<_> = memory.unfinished().await.expect("an answer");
                        let all: Vec<_> = all.iter().map(|one| one.generation.id).collect();
                        for owner in [OWNER, OTHER] {
                            let lasts = Duration::ZERO;
                            let over = memory.renew(&all, Lease { owner, lasts }, at(0)).await;
                            over.expect("an answer");
                        }
                        let now = at(hour * 3600);
                        let rows = store.calls().take_over(lease_of(OWNER), 1_000, now).await;
                        let twin = memory.take_over(lease_of(OWNER), 1_000, now).await;
                        assert_eq!(rows.expect("an answer"), twin.expect("an answer"));
                    }
                    Step::Claim { key, .. } => {
                        undispatched.push(number);
                        keys.insert(number, *key);
                    }
                    // An id is dispatched once.
                    Step::Dispatch(n) if !dispatched.insert(*n) => continue,
                    Step::Dispatch(n) if *n < number => undispatched.retain(|claimed| claimed != n),
                    Step::Dispatch(_) => {}
                    Step::Accepted(_)
                    | Step::Keep { .. }
                    | Step::Fail(_)
                    | Step::Release(_)
                    | Step::OtherKeeps(_)
                    | Step::TakeOver { .. }
                    | Step::Renew { .. }
                    | Step::Record(_)
                    | Step::Look
                    | Step::Expire { .. } => {}
                }
                let rows = take(&store.calls(), &keys, (number, step), hour).await;
                let twin = take(&memory, &keys, (number, step), hour).await;
                assert_eq!(rows, twin, "step {number}: {step:?}");
                if !matches!(step, Step::Look | Step::Reopen | Step::Crash) {
                    continue;
                }
                let (rows, twin) = (
                    seen(&store.calls(), &store.accounts()).await,
                    seen(&memory, &*accounts).await,
                );
                assert_eq!(rows, twin, "after step {number}: {step:?}");
            }
            let (rows, twin) = (
                seen(&store.calls(), &store.accounts()).await,
                seen(&memory, &*accounts).await,
            );
            assert_eq!(rows, twin, "in the end");
            let entries = store.accounts().entries(&acme(), None, 1_000).await;
            let entries = entries.expect("an answer");
            let causes: HashSet<LedgerRef> = entries.iter().map(|entry| entry.cause).collect();
            assert_eq!(causes.len(), entries.len(), "nothing is billed twice");
        });
    }
}
