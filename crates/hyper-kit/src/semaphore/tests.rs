//! Keys at their bounds, waiters in their order, and histories made up at random.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

fn semaphore(total: usize, per_key: usize) -> KeyedSemaphore<u8> {
    KeyedSemaphore::new(KeyedLimits {
        total,
        per_key,
        waiters_per_key: 2,
    })
}

type Acquiring<'a> = Pin<Box<dyn Future<Output = Result<KeyedPermit<u8>, NoUnits>> + 'a>>;

fn acquiring(semaphore: &KeyedSemaphore<u8>, key: u8, units: usize) -> Acquiring<'_> {
    Box::pin(semaphore.acquire(key, units))
}

fn poll(future: &mut Acquiring<'_>) -> Option<Result<KeyedPermit<u8>, NoUnits>> {
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

#[test]
fn one_key_cannot_take_what_is_left_for_others() {
    let semaphore = semaphore(10, 6);
    let _held = semaphore.try_acquire(1, 6).expect("its whole share");
    assert_eq!(semaphore.try_acquire(1, 1).err(), Some(NoUnits::Key));
    assert!(semaphore.try_acquire(2, 4).is_ok());
    assert_eq!(semaphore.try_acquire(2, 5).err(), Some(NoUnits::Total));
    assert_eq!(semaphore.try_acquire(2, 7).err(), Some(NoUnits::Never));
}

#[test]
fn a_waiter_at_its_own_bound_stands_in_nobodys_way() {
    let semaphore = semaphore(10, 6);
    let held = semaphore.try_acquire(1, 6).expect("free");
    let mut blocked = acquiring(&semaphore, 1, 1);
    assert!(poll(&mut blocked).is_none());
    assert!(semaphore.try_acquire(2, 4).is_ok());
    drop(held);
    assert!(poll(&mut blocked).is_some_and(|granted| granted.is_ok()));
}

#[test]
fn the_oldest_waiter_is_not_overtaken_by_smaller_ones() {
    let semaphore = semaphore(10, 10);
    let held = semaphore.try_acquire(1, 6).expect("free");
    let mut large = acquiring(&semaphore, 2, 8);
    assert!(poll(&mut large).is_none());
    assert_eq!(semaphore.try_acquire(3, 1).err(), Some(NoUnits::Total));
    drop(held);
    assert!(poll(&mut large).is_some_and(|granted| granted.is_ok()));
}

#[test]
fn a_key_has_a_bounded_number_of_waiters() {
    let semaphore = semaphore(1, 1);
    let _held = semaphore.try_acquire(1, 1).expect("free");
    let mut first = acquiring(&semaphore, 1, 1);
    let mut second = acquiring(&semaphore, 1, 1);
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    let mut third = acquiring(&semaphore, 1, 1);
    assert!(matches!(poll(&mut third), Some(Err(NoUnits::Key))));
    drop(first);
    let mut fourth = acquiring(&semaphore, 1, 1);
    assert!(poll(&mut fourth).is_none());
}

#[test]
fn a_grant_that_nobody_collects_goes_to_the_next() {
    let semaphore = semaphore(1, 1);
    let held = semaphore.try_acquire(1, 1).expect("free");
    let mut first = acquiring(&semaphore, 2, 1);
    let mut second = acquiring(&semaphore, 3, 1);
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    drop(held);
    drop(first);
    assert!(poll(&mut second).is_some_and(|granted| granted.is_ok()));
    drop(second);
    assert_eq!(semaphore.used(), 0);
    assert!(semaphore.lock().keys.is_empty());
}

#[test]
fn a_permit_gives_back_what_it_turned_out_not_to_need() {
    let semaphore = semaphore(10, 10);
    let mut held = semaphore.try_acquire(1, 10).expect("free");
    held.shrink_to(3);
    held.shrink_to(5);
    assert_eq!((held.units(), semaphore.used()), (3, 3));
    assert!(semaphore.try_acquire(2, 7).is_ok());
}

/// What a random history does next.
#[derive(Debug, Clone)]
enum Step {
    Begin { key: u8, units: usize },
    Poll(usize),
    Abandon(usize),
    GiveBack(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..4u8, 0..9usize).prop_map(|(key, units)| Step::Begin { key, units }),
        3 => any::<usize>().prop_map(Step::Poll),
        1 => any::<usize>().prop_map(Step::Abandon),
        2 => any::<usize>().prop_map(Step::GiveBack),
    ];
    proptest::collection::vec(step, 0..80)
}

fn pick(index: usize, len: usize) -> Option<usize> {
    index.checked_rem(len)
}

proptest! {
    /// Whatever is begun, dropped and given back: no bound is ever passed, and nothing is left over at the end.
    #[test]
    fn no_history_passes_a_bound_or_loses_a_unit(steps in steps()) {
        let semaphore = semaphore(12, 8);
        let mut waiting: Vec<Acquiring<'_>> = Vec::new();
        let mut held: Vec<KeyedPermit<u8>> = Vec::new();
        for step in steps {
            match step {
                Step::Begin { key, units } => waiting.push(acquiring(&semaphore, key, units)),
                Step::Poll(index) => {
                    if let Some(index) = pick(index, waiting.len())
                        && let Some(result) = poll(&mut waiting[index])
                    {
                        drop(waiting.swap_remove(index));
                        held.extend(result);
                    }
                }
                Step::Abandon(index) => {
                    if let Some(index) = pick(index, waiting.len()) {
                        drop(waiting.swap_remove(index));
                    }
                }
                Step::GiveBack(index) => {
                    if let Some(index) = pick(index, held.len()) {
                        drop(held.swap_remove(index));
                    }
                }
            }
            let state = semaphore.lock();
            prop_assert!(state.used <= 12);
            prop_assert!(state.keys.values().all(|of_key| of_key.units <= 8 && of_key.waiters <= 2));
            prop_assert_eq!(state.keys.values().map(|of_key| of_key.units).sum::<usize>(), state.used);
        }
        drop(held);
        // With nothing held, every waiter is granted: no wake-up was lost.
        while let Some(mut first) = (!waiting.is_empty()).then(|| waiting.remove(0)) {
            if poll(&mut first).is_none() {
                prop_assert!(semaphore.used() > 0, "waits although nothing is held");
                waiting.push(first);
            }
        }
        prop_assert_eq!(semaphore.used(), 0);
        prop_assert!(semaphore.lock().keys.is_empty());
    }
}
