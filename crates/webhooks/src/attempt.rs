//! What an attempt leads to: when the next one is, and when a webhook is given up.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Delivery, DeliveryState, DisabledReason, Health, LastAttempt, MessageId, Webhook, WebhookId,
};

/// How long a message, or all of them, may fail until the webhook is disabled.
pub const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// The pauses after failed attempts, in seconds; the last one again and again.
const PAUSES_S: [u32; 9] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 10_800, 14_400];

/// So many failures one after the other, and the webhook as a whole pauses: fewer are the fault of single messages.
const PATIENCE: u32 = 3;

/// Most that a receiver can ask for by `retry-after`.
const MOST_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// An attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// The webhook.
    pub webhook: WebhookId,
    /// The place of the delivery.
    pub place: u64,
    /// How many attempts there were before it: a sender that was overtaken changes nothing.
    pub attempts_before: u32,
    /// What came of it.
    pub outcome: AttemptOutcome,
    /// When it was over.
    pub at: Timestamp,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver answered with a status of 2xx.
    Delivered {
        /// The status.
        status: u16,
    },
    /// It did not.
    Failed {
        /// The status, if it answered.
        status: Option<u16>,
        /// For people, without any secret.
        why: String,
        /// How long the receiver wants to be left alone.
        retry_after: Option<Duration>,
    },
}

/// What an attempt leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The delivery after it.
    pub delivery: Delivery,
    /// How the receiver does.
    pub health: Health,
    /// Why the webhook is to be disabled; `None` if it stays enabled.
    pub disabled: Option<DisabledReason>,
}

/// Decides what an attempt leads to; `None` if it is not of this delivery as it stands.
#[must_use]
pub fn judge(webhook: &Webhook, delivery: &Delivery, attempted: &Attempted) -> Option<Judged> {
    let is_waiting = matches!(delivery.state, DeliveryState::Waiting { .. });
    if !is_waiting || delivery.attempts != attempted.attempts_before {
        return None;
    }
    let mut next = delivery.clone();
    next.attempts = next.attempts.saturating_add(1);
    let now = attempted.at;
    match &attempted.outcome {
        AttemptOutcome::Delivered { status } => {
            next.state = DeliveryState::Delivered { at: now };
            next.last = Some(LastAttempt {
                at: now,
                status: Some(*status),
                error: None,
            });
            Some(Judged {
                delivery: next,
                health: Health::default(),
                disabled: None,
            })
        }
        AttemptOutcome::Failed {
            status,
            why,
            retry_after,
        } => {
            let wish = retry_after.unwrap_or_default().min(MOST_RETRY_AFTER);
            let pause = |failures| retry_delay(failures, delivery.message).max(wish);
            next.state = DeliveryState::Waiting {
                next_at: later(now, pause(next.attempts)),
            };
            next.failing_since = Some(delivery.failing_since.unwrap_or(now));
            next.last = Some(LastAttempt {
                at: now,
                status: *status,
                error: Some(why.clone()),
            });
            let failures = webhook.health.failures.saturating_add(1);
            let failing_since = webhook.health.failing_since.unwrap_or(now);
            let not_before = match failures.checked_sub(PATIENCE) {
                Some(beyond) => Some(later(now, pause(beyond + 1))),
                None => retry_after.map(|_| later(now, wish)),
            };
            let first = failing_since.min(next.failing_since.unwrap_or(now));
            let disabled = if *status == Some(410) {
                Some(DisabledReason::Gone)
            } else if now.duration_since(first) >= GIVE_UP_AFTER {
                Some(DisabledReason::Failing)
            } else {
                None
            };
            Some(Judged {
                delivery: next,
                health: Health {
                    failures,
                    failing_since: Some(failing_since),
                    not_before,
                },
                disabled,
            })
        }
    }
}

/// The pause after so many failed attempts, the first of which is 1. It differs by up to a fifth between messages, so that what
/// failed at one moment does not come back at one moment.
#[must_use]
pub fn retry_delay(failures: u32, message: MessageId) -> Duration {
    let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
    let pause_s = PAUSES_S[index.min(PAUSES_S.len() - 1)];
    let spread_ms = u64::from(message.0.as_bytes()[15]) * u64::from(pause_s) * 200 / 256;
    Duration::from_millis(u64::from(pause_s) * 1_000 + spread_ms)
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use accounts::AccountId;
    use uuid::Uuid;

    use super::*;
    use crate::{Event, EventKind, EventKinds, SecretVersions, WebhookState};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn webhook() -> Webhook {
        Webhook {
            id: WebhookId(Uuid::from_u128(1)),
            account: AccountId::local(),
            url: "https://example.com/".parse().expect("an address"),
            kinds: EventKinds::of([EventKind::JobEnded]).expect("a kind"),
            secrets: SecretVersions::FIRST,
            state: WebhookState::Enabled,
            health: Health::default(),
            created_at: at(0),
        }
    }

    fn delivery() -> Delivery {
        let id = WebhookId(Uuid::from_u128(1));
        Delivery {
            place: 1,
            webhook: id,
            message: MessageId(Uuid::from_u128(0)),
            event: Event::test(&AccountId::local(), id, at(0)),
            state: DeliveryState::Waiting { next_at: at(0) },
            attempts: 0,
            failing_since: None,
            last: None,
        }
    }

    fn failed(delivery: &Delivery, status: Option<u16>, now: Timestamp) -> Attempted {
        Attempted {
            webhook: delivery.webhook,
            place: delivery.place,
            attempts_before: delivery.attempts,
            outcome: AttemptOutcome::Failed {
                status,
                why: "it was not reached".to_owned(),
                retry_after: None,
            },
            at: now,
        }
    }

    /// Fails a message again and again, each time as soon as it may be tried; the times of all attempts, and the end.
    fn fail_for_good(webhook: &mut Webhook, delivery: &mut Delivery) -> (Vec<i64>, DisabledReason) {
        let (mut now, mut times) = (at(0), Vec::new());
        loop {
            times.push(now.as_second());
            let attempted = failed(delivery, None, now);
            let judged = judge(webhook, delivery, &attempted).expect("it is its attempt");
            (webhook.health, *delivery) = (judged.health, judged.delivery);
            if let Some(reason) = judged.disabled {
                return (times, reason);
            }
            let DeliveryState::Waiting { next_at } = delivery.state else {
                panic!("it waits");
            };
            now = next_at.max(webhook.health.not_before.unwrap_or(next_at));
        }
    }

    #[test]
    fn a_message_is_tried_for_a_day_and_then_its_webhook_is_disabled() {
        let (times, reason) = fail_for_good(&mut webhook(), &mut delivery());
        assert_eq!(reason, DisabledReason::Failing);
        assert_eq!(
            times,
            [
                0, 5, 35, 155, 755, 2_555, 6_155, 13_355, 24_155, 38_555, 52_955, 67_355, 81_755,
                96_155
            ]
        );
    }

    #[test]
    fn a_success_forgets_the_failures_and_no_attempt_counts_twice() {
        let (mut webhook, mut delivery) = (webhook(), delivery());
        for second in 0..5 {
            let attempted = failed(&delivery, Some(500), at(second));
            let judged = judge(&webhook, &delivery, &attempted).expect("it is its attempt");
            assert_eq!(
                judge(&webhook, &judged.delivery, &attempted),
                None,
                "it counted"
            );
            (webhook.health, delivery) = (judged.health, judged.delivery);
            assert_eq!(webhook.health.not_before.is_some(), second >= 2, "{second}");
        }
        let outcome = AttemptOutcome::Delivered { status: 204 };
        let attempted = Attempted {
            outcome,
            ..failed(&delivery, None, at(9))
        };
        let judged = judge(&webhook, &delivery, &attempted).expect("it is its attempt");
        assert_eq!(judged.health, Health::default());
        assert_eq!(
            judged.delivery.state,
            DeliveryState::Delivered { at: at(9) }
        );
        assert_eq!(
            judge(&webhook, &judged.delivery, &attempted),
            None,
            "it is delivered"
        );
    }

    #[test]
    fn a_receiver_that_is_gone_is_disabled_at_once_and_a_wish_to_wait_is_granted() {
        let (webhook, delivery) = (webhook(), delivery());
        let gone = judge(&webhook, &delivery, &failed(&delivery, Some(410), at(1)));
        assert_eq!(
            gone.expect("it is its attempt").disabled,
            Some(DisabledReason::Gone)
        );
        for (wish_s, granted_s) in [(1, 5), (60, 60), (86_400, 3_600)] {
            let attempted = Attempted {
                outcome: AttemptOutcome::Failed {
                    status: Some(429),
                    why: String::new(),
                    retry_after: Some(Duration::from_secs(wish_s)),
                },
                ..failed(&delivery, None, at(0))
            };
            let judged = judge(&webhook, &delivery, &attempted).expect("it is its attempt");
            assert_eq!(
                judged.delivery.state,
                DeliveryState::Waiting {
                    next_at: at(granted_s)
                }
            );
            let whole = wish_s.min(3_600).cast_signed();
            assert_eq!(
                judged.health.not_before,
                Some(at(whole)),
                "the whole webhook waits"
            );
        }
    }

    #[test]
    fn pauses_grow_and_differ_between_messages() {
        let none = MessageId(Uuid::from_u128(0));
        let most = MessageId(Uuid::from_u128(255));
        let mut before = Duration::ZERO;
        for failures in 1..=9 {
            let (low, high) = (retry_delay(failures, none), retry_delay(failures, most));
            assert!(
                before < low && low < high && high < low * 6 / 5,
                "{failures}"
            );
            before = low;
        }
        assert_eq!(retry_delay(u32::MAX, none), before);
    }
}
