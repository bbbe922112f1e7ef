//! The oracle of calls against a server that misbehaves in every way.

use super::*;

fn order(behavior: Behavior) -> Order {
    Order {
        call: "a".to_owned(),
        behavior,
        cents: 7,
        delay_ms: 0,
        looks: 0,
        padding: 3,
    }
}

/// A call `a` with a key that was sent, and dispatched.
fn sent(behavior: Behavior, is_polled: bool) -> Calls {
    let mut calls = Calls::new(Book::default(), String::new());
    let order = order(behavior);
    calls.book.submitted(&order, "g", is_polled);
    calls.sending("a", || Call::new(order, true, is_polled));
    calls
}

fn answer(calls: &mut Calls, status: u16, body: &[u8], replayed: bool) -> Option<Kind> {
    let judged = calls.answered("a", (status, body), replayed);
    judged.err().map(|violation| violation.kind)
}

fn result(calls: &Calls) -> Vec<u8> {
    calls.dispatches("a")[0].result.clone()
}

#[test]
fn an_answer_is_replayed_as_it_was() {
    let mut calls = sent(Behavior::Answer, false);
    let result = result(&calls);
    assert_eq!(answer(&mut calls, 200, &result, false), None);
    assert_eq!(answer(&mut calls, 200, &result, true), None);
    let again = answer(&mut calls, 200, &result, false);
    assert_eq!(again, Some(Kind::Duplicated));
    assert_eq!(answer(&mut calls, 200, b"{}", true), Some(Kind::Lost));
    assert_eq!(answer(&mut calls, 502, b"{}", true), Some(Kind::Lost));
}

#[test]
fn a_result_has_the_bytes_of_the_partner() {
    let mut calls = sent(Behavior::Answer, false);
    assert_eq!(answer(&mut calls, 200, b"{}", false), Some(Kind::Partial));
}

#[test]
fn an_outcome_is_unknown_only_after_a_kill_and_never_of_a_task_that_was_asked_after() {
    for (is_polled, looked, killed, expected) in [
        (false, 0, true, None),
        (true, 0, true, None),
        (true, 1, true, Some(Kind::Lost)),
        (false, 0, false, Some(Kind::Fault)),
    ] {
        let mut calls = sent(Behavior::Answer, is_polled);
        calls.book.lock()[0].looked = looked;
        if killed {
            calls.restarted();
        }
        let answered = answer(&mut calls, 502, b"{}", killed);
        assert_eq!(answered, expected, "{is_polled} {looked} {killed}");
    }
}

#[test]
fn a_key_that_is_free_again_has_no_end() {
    let mut calls = sent(Behavior::Busy, false);
    assert_eq!(answer(&mut calls, 503, b"{}", false), None);
    assert_eq!(calls.acknowledged(), 0);
    let mut calls = sent(Behavior::Refuse, false);
    assert_eq!(answer(&mut calls, 422, b"{}", false), None);
    assert_eq!(calls.acknowledged(), 1);
}

#[test]
fn a_power_cut_takes_nothing_with_a_key_and_no_end_of_a_second_ago() {
    let long_ago = Instant::now() - 2 * END_IS_SYNCED;
    for (is_keyed, is_answered, ended_before, expected) in [
        (true, true, false, false),
        (true, false, false, false),
        (false, true, false, true),
        (false, true, true, false),
        (false, false, false, true),
    ] {
        let mut calls = Calls::new(Book::default(), String::new());
        let order = order(Behavior::Answer);
        calls.book.submitted(&order, "g", false);
        calls.sending("a", || Call::new(order, is_keyed, false));
        if is_answered {
            let result = result(&calls);
            assert_eq!(answer(&mut calls, 200, &result, false), None);
        }
        if ended_before {
            calls.calls.get_mut("a").expect("it was sent").ended_at = Some(long_ago);
        }
        calls.lost_power();
        calls.restarted();
        let call = &calls.calls["a"];
        assert_eq!(
            call.may_be_forgotten, expected,
            "{is_keyed} {is_answered} {ended_before}"
        );
    }
}

#[test]
fn a_call_of_an_earlier_life_has_nothing_to_lose() {
    let mut calls = Calls::new(Book::default(), String::new());
    calls.sending("a", || Call::new(order(Behavior::Answer), false, false));
    calls.restarted();
    calls.recovered();
    calls.lost_power();
    assert!(!calls.calls["a"].may_be_forgotten);
}

#[test]
fn what_a_kill_left_unsynced_is_lost_with_the_power_until_a_start_is_over() {
    for (is_recovered, expected) in [(false, true), (true, false)] {
        let mut calls = Calls::new(Book::default(), String::new());
        let order = order(Behavior::Answer);
        calls.book.submitted(&order, "g", false);
        calls.sending("a", || Call::new(order, false, false));
        let result = result(&calls);
        assert_eq!(answer(&mut calls, 200, &result, false), None);
        calls.restarted();
        if is_recovered {
            calls.recovered();
        }
        calls.lost_power();
        assert_eq!(calls.calls["a"].may_be_forgotten, expected);
    }
}
