//! The limits hold under any interleaving.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use accounts::Entitlements;
use futures_util::FutureExt;
use jiff::SignedDuration;
use proptest::prelude::*;
use uuid::Uuid;

use super::memory::KEPT;
use super::*;

const A: OwnerId = OwnerId(Uuid::from_u128(1));
const B: OwnerId = OwnerId(Uuid::from_u128(2));

fn limits(calls: u32, cents: u64) -> RouterLimits {
    RouterLimits {
        concurrent_calls: calls,
        committed_spend_cents: cents,
        entitlements: Entitlements::All,
        ..RouterLimits::standard()
    }
}

fn lease(owner: OwnerId) -> Lease {
    let lasts = Duration::from_secs(30);
    Lease { owner, lasts }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn id(n: u128) -> GenerationId {
    GenerationId(Uuid::from_u128(n))
}

/// What memory answers, which it does at once.
fn now<T>(answer: impl Future<Output = Result<T, QuotaError>>) -> T {
    let answer = answer.now_or_never().expect("memory answers at once");
    answer.expect("memory answers")
}

#[test]
fn nothing_is_left_of_an_account_without_calls() {
    let quota = MemoryQuota::new(|_| false);
    let account = AccountId::local();
    let permit = Permit {
        account: &account,
        generation: id(1),
        hold_cents: 3,
    };
    let refused = quota.admit(permit, &limits(0, 9), lease(A), at(0));
    assert_ne!(refused, Admission::Admitted);
    assert!(quota.permits().is_empty());
    let admitted = quota.admit(permit, &limits(1, 9), lease(A), at(0));
    assert_eq!(admitted, Admission::Admitted);
    assert_eq!(quota.permits().len(), 1);
    now(quota.release(permit, A));
    // The room of a few permits stays for the next call,
    assert!(quota.permits().values().all(Permits::is_empty));
    for n in 0..100 {
        let generation = id(n);
        let permit = Permit {
            generation,
            ..permit
        };
        let admitted = quota.admit(permit, &limits(100, 999), lease(A), at(0));
        assert_eq!(admitted, Admission::Admitted);
    }
    for n in 0..100 {
        let generation = id(n);
        now(quota.release(
            Permit {
                generation,
                ..permit
            },
            A,
        ));
    }
    // that of many does not,
    assert!(quota.permits().is_empty());
    for n in 0..2 * KEPT {
        let account: AccountId = format!("account-{n}").parse().expect("a valid name");
        let permit = Permit {
            account: &account,
            ..permit
        };
        let admitted = quota.admit(permit, &limits(1, 9), lease(A), at(0));
        assert_eq!(admitted, Admission::Admitted);
        now(quota.release(permit, A));
    }
    // nor that of thousands of accounts.
    assert_eq!(quota.permits().len(), KEPT);
}

/// Admissions that threads ask for together, unless `EASEL_ADMISSIONS` says otherwise.
const ADMISSIONS: u64 = 20_000;

#[test]
fn threads_together_never_hold_more_than_the_limits() {
    const THREADS: u64 = 8;
    let admissions = std::env::var("EASEL_ADMISSIONS").ok();
    let admissions = admissions.map_or(ADMISSIONS, |it| it.parse().expect("a number"));
    let (quota, limits, account) = (
        MemoryQuota::new(|_| false),
        limits(7, 50),
        AccountId::local(),
    );
    let permit = |generation, hold_cents| Permit {
        account: &account,
        generation: id(generation),
        hold_cents,
    };
    let barrier = Barrier::new(usize::try_from(THREADS).expect("few"));
    // The book of those who were admitted, which is not that of the store: who is in it has its permit for as long.
    let held = Mutex::new(Vec::new());
    let (most, refused) = (Mutex::new(0), AtomicU64::new(0));
    let release_all = |held: &mut Vec<(u128, u64)>| {
        for (generation, hold) in held.drain(..) {
            now(quota.release(permit(generation, hold), A));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (quota, limits, barrier, held) = (&quota, &limits, &barrier, &held);
            let (permit, account, release_all) = (&permit, &account, &release_all);
            let (most, refused) = (&most, &refused);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..admissions / THREADS {
                    let generation = u128::from(thread) << 64 | u128::from(round);
                    let hold = (thread + round) % 23;
                    let asked = quota.admit(permit(generation, hold), limits, lease(A), at(0));
                    if asked != Admission::Admitted {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let load = now(quota.load(account, at(0)));
                    assert!(load.calls <= 7 && load.committed_cents <= 50, "{load:?}");
                    // Some are given back by another thread, and later.
                    let mut held = held.lock().expect("not poisoned");
                    held.push((generation, hold));
                    let cents = held.iter().map(|(_, hold)| hold).sum::<u64>();
                    assert!(held.len() <= 7 && cents <= 50, "{held:?}");
                    let mut most = most.lock().expect("not poisoned");
                    *most = cents.max(*most);
                    if held.len() > 4 {
                        release_all(&mut held);
                    }
                }
            });
        }
    });
    release_all(&mut held.lock().expect("not poisoned"));
    assert_eq!(now(quota.load(&account, at(0))), Load::default());
    // The ceiling was near, and kept some out.
    let (most, refused) = (
        most.into_inner().expect("not poisoned"),
        refused.into_inner(),
    );
    assert!(most > 40 && refused > 0, "{most} cents, {refused} refused");
}

/// These run all the time, whatever becomes of their permits.
fn runs(generation: GenerationId) -> bool {
    generation.0.as_u128() >= 8
}

/// What may happen to the permits of an account, in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Admit { generation: u8, hold: u64 },
    Resume { generation: u8, hold: u64 },
    Renew(u8),
    Release(u8),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let generation = 0..10_u8;
    prop_oneof![
        4 => (generation.clone(), 0..20_u64).prop_map(|(generation, hold)| Step::Admit { generation, hold }),
        1 => (generation.clone(), 0..20_u64).prop_map(|(generation, hold)| Step::Resume { generation, hold }),
        2 => generation.clone().prop_map(Step::Renew),
        2 => generation.prop_map(Step::Release),
        2 => (1..20_i64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Beside the simplest model: what lapsed and does not run is never there.
    #[test]
    fn permits_are_those_that_were_given_and_have_not_lapsed_or_run(
        cap in 0_u64..60,
        count in 0_u32..6,
        steps in prop::collection::vec((any::<bool>(), step()), 1..80),
    ) {
        let (mut permits, limits, account) = (Permits::default(), limits(count, cap), AccountId::local());
        let mut model: BTreeMap<u8, (OwnerId, u64, i64)> = BTreeMap::new();
        let mut seconds = 0;
        for (is_a, step) in steps {
            let owner = if is_a { A } else { B };
            let counts = |generation: u8, until: i64, now: i64| until > now || runs(id(generation.into()));
            model.retain(|generation, (_, _, until)| counts(*generation, *until, seconds));
            let (calls, cents) = (model.len(), model.values().map(|(_, hold, _)| hold).sum::<u64>());
            let permit = |generation: u8, hold_cents| Permit {
                account: &account,
                generation: id(generation.into()),
                hold_cents,
            };
            let until = seconds + 30;
            match step {
                Step::Wait(by) => seconds += by,
                Step::Admit { generation, hold } => {
                    let fits = calls < count as usize && cents + hold <= cap;
                    let admission = permits.admit(permit(generation, hold), &limits, lease(owner), at(seconds), runs);
                    match model.get_mut(&generation) {
                        Some(known) => {
                            prop_assert_eq!(admission, Admission::Admitted);
                            let hold = if known.2 > seconds { known.1 } else { hold };
                            *known = (owner, hold, until);
                        }
                        None => {
                            prop_assert_eq!(admission == Admission::Admitted, fits);
                            if fits {
                                model.insert(generation, (owner, hold, until));
                            }
                        }
                    }
                }
                Step::Resume { generation, hold } => {
                    permits.resume(permit(generation, hold), lease(owner), at(seconds));
                    let known = model.entry(generation).or_insert((owner, hold, until));
                    let hold = if known.2 > seconds { known.1 } else { hold };
                    *known = (owner, hold, until);
                }
                Step::Renew(generation) => {
                    let known = model.get_mut(&generation);
                    let known = known.filter(|known| known.0 == owner && known.2 > seconds);
                    let had = permits.renew(id(generation.into()), lease(owner), at(seconds));
                    prop_assert_eq!(had, known.is_some());
                    if let Some(known) = known {
                        known.2 = until;
                    }
                }
                Step::Release(generation) => {
                    permits.release(id(generation.into()), owner);
                    if model.get(&generation).is_some_and(|known| known.0 == owner) {
                        model.remove(&generation);
                    }
                }
            }
            model.retain(|generation, (_, _, until)| counts(*generation, *until, seconds));
            let expected = Load {
                calls: u32::try_from(model.len()).expect("few"),
                committed_cents: model.values().map(|(_, hold, _)| hold).sum(),
            };
            // Not each time, since a look drops what lapsed.
            if seconds % 3 == 0 {
                prop_assert_eq!(permits.load(at(seconds), runs), expected);
            }
        }
    }
}
