//! The limits hold under any interleaving.

use std::sync::Barrier;

use accounts::Entitlements;
use proptest::prelude::*;

use super::*;

fn limits(calls: u32, cents: u64) -> RouterLimits {
    RouterLimits {
        concurrent_calls: calls,
        committed_spend_cents: cents,
        entitlements: Entitlements::All,
        ..RouterLimits::standard()
    }
}

fn acme() -> AccountId {
    "acme".parse().expect("a valid id")
}

#[test]
fn the_count_is_judged_before_the_spend() {
    let (admission, limits) = (Admission::new(), limits(1, 10));
    let _first = admission.admit(&acme(), 10, &limits).expect("room");
    let refused = admission.admit(&acme(), 10, &limits);
    assert!(
        matches!(refused, Err(RouterError::TooManyCalls { limit: 1 })),
        "{refused:?}"
    );
}

#[test]
fn a_call_dearer_than_the_cap_is_refused_even_when_idle() {
    let admission = Admission::new();
    for hold in [11, u64::MAX] {
        let refused = admission.admit(&acme(), hold, &limits(5, 10));
        let told = matches!(
            refused,
            Err(RouterError::SpendCap {
                limit_cents: 10,
                current_cents: 0
            })
        );
        assert!(told, "{refused:?}");
    }
    assert_eq!(admission.load(&acme()), Load::default());
}

#[test]
fn the_committed_spend_excludes_the_refused_call() {
    let (admission, limits) = (Admission::new(), limits(5, 10));
    let _first = admission.admit(&acme(), 7, &limits).expect("room");
    let refused = admission.admit(&acme(), 4, &limits);
    let told = matches!(
        refused,
        Err(RouterError::SpendCap {
            limit_cents: 10,
            current_cents: 7
        })
    );
    assert!(told, "{refused:?}");
    admission
        .admit(&acme(), 3, &limits)
        .expect("exactly the remainder fits");
}

#[test]
fn a_free_call_needs_no_room_under_a_full_cap() {
    let (admission, limits) = (Admission::new(), limits(5, 10));
    let _full = admission.admit(&acme(), 10, &limits).expect("room");
    admission.admit(&acme(), 0, &limits).expect("free");
}

#[test]
fn accounts_do_not_share_their_room() {
    let (admission, limits) = (Admission::new(), limits(1, 10));
    let _acme = admission.admit(&acme(), 10, &limits).expect("room");
    admission
        .admit(&AccountId::local(), 10, &limits)
        .expect("room of its own");
}

#[test]
fn threads_together_never_hold_more_than_the_limits() {
    let (admission, limits) = (Admission::new(), limits(7, 50));
    let barrier = Barrier::new(8);
    let held = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (admission, limits, barrier, held) = (&admission, &limits, &barrier, &held);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..500 {
                    if let Ok(permit) = admission.admit(&acme(), (thread + round) % 23, limits) {
                        let load = admission.load(&acme());
                        assert!(load.calls <= 7 && load.committed_cents <= 50, "{load:?}");
                        // Some are given back by another thread, and later.
                        let mut held = held.lock().expect("not poisoned");
                        held.push(permit);
                        if held.len() > 4 {
                            held.clear();
                        }
                    }
                }
            });
        }
    });
    held.lock().expect("not poisoned").clear();
    assert_eq!(admission.load(&acme()), Load::default());
}

proptest! {
    #[test]
    fn holds_never_exceed_the_cap_and_every_permit_is_released_once(
        cap in 0_u64..40,
        count in 0_u32..6,
        steps in prop::collection::vec((any::<bool>(), 0_u64..20, 0_usize..8), 1..80),
    ) {
        let (admission, limits) = (Admission::new(), limits(count, cap));
        let mut held: Vec<(u64, Permit)> = Vec::new();
        for (takes, hold, which) in steps {
            let committed: u64 = held.iter().map(|(hold, _)| hold).sum();
            if takes {
                let fits = held.len() < count as usize && committed + hold <= cap;
                let admitted = admission.admit(&acme(), hold, &limits);
                prop_assert_eq!(admitted.is_ok(), fits);
                held.extend(admitted.ok().map(|permit| (hold, permit)));
            } else if !held.is_empty() {
                held.swap_remove(which % held.len());
            }
            let committed_cents: u64 = held.iter().map(|(hold, _)| hold).sum();
            prop_assert!(committed_cents <= cap);
            let calls = u32::try_from(held.len()).expect("few");
            prop_assert_eq!(admission.load(&acme()), Load { calls, committed_cents });
        }
        held.clear();
        prop_assert_eq!(admission.load(&acme()), Load::default());
    }
}
