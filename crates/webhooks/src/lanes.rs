//! Who is sent to next, so that receivers that hang or fail slow nobody else.
//!
//! Attempts run in three lanes, each with places of its own: receivers that answered well and quickly the last time, receivers
//! that were not heard of yet, and all others. An attempt that takes longer than [`QUICK`] leaves its place to another one and
//! counts as slow from then on. A receiver that answers quickly gets more attempts at once; one that does not gets one.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use crate::{Webhook, WebhookId};

/// How long an attempt may take to count as quick.
const QUICK: Duration = Duration::from_secs(1);

/// Most attempts at once to a receiver that answers quickly.
const WIDEST: u32 = 8;

/// Of so many webhooks it is remembered how they did; beyond it, those that are idle begin anew.
const MOST_TRACKED: usize = 50_000;

/// How many attempts run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSizes {
    /// Places of each lane.
    pub of_each: usize,
    /// Attempts in all, those included that left their place because they were slow.
    pub of_all: usize,
}

/// Which attempts run.
#[derive(Debug)]
pub struct Lanes {
    sizes: LaneSizes,
    /// Places taken, by [`Lane`].
    taken: [usize; 3],
    tracked: HashMap<WebhookId, Track>,
    running: HashMap<u64, Running>,
    /// Attempts by their begin, to find those that became slow.
    begun: VecDeque<(Duration, u64)>,
    next: u64,
}

/// How a receiver did lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Quick,
    New,
    Slow,
}

#[derive(Clone, Copy, Debug)]
struct Track {
    lane: Lane,
    /// Most attempts at once.
    window: u32,
    running: u32,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    webhook: WebhookId,
    lane: Lane,
    begun: Duration,
}

impl Lanes {
    /// Lanes in which nothing runs.
    #[must_use]
    pub fn new(sizes: LaneSizes) -> Self {
        Self {
            sizes,
            taken: [0; 3],
            tracked: HashMap::new(),
            running: HashMap::new(),
            begun: VecDeque::new(),
            next: 0,
        }
    }

    /// How many attempts to a webhook may begin now. `now` is the time since any fixed moment, and does not turn back.
    pub fn room(&mut self, webhook: &Webhook, now: Duration) -> usize {
        self.note_slow(now);
        let track = self.track(webhook);
        let window = track.window.saturating_sub(track.running);
        let lane = self
            .sizes
            .of_each
            .saturating_sub(self.taken[track.lane as usize]);
        let all = self.sizes.of_all.saturating_sub(self.running.len());
        usize::try_from(window)
            .unwrap_or(usize::MAX)
            .min(lane)
            .min(all)
    }

    /// Begins an attempt, for which there must be room; what [`Lanes::end`] is told.
    pub fn begin(&mut self, webhook: &Webhook, now: Duration) -> u64 {
        let mut track = self.track(webhook);
        track.running += 1;
        self.tracked.insert(webhook.id, track);
        self.taken[track.lane as usize] += 1;
        let id = self.next;
        self.next += 1;
        let running = Running {
            webhook: webhook.id,
            lane: track.lane,
            begun: now,
        };
        self.running.insert(id, running);
        self.begun.push_back((now, id));
        id
    }

    /// Ends an attempt: whether the receiver took the message.
    pub fn end(&mut self, attempt: u64, was_taken: bool, now: Duration) {
        self.note_slow(now);
        let Some(ended) = self.running.remove(&attempt) else {
            return;
        };
        self.taken[ended.lane as usize] -= 1;
        let is_quick = was_taken && now.saturating_sub(ended.begun) <= QUICK;
        if let Some(track) = self.tracked.get_mut(&ended.webhook) {
            track.running -= 1;
            (track.lane, track.window) = match is_quick {
                true => (Lane::Quick, WIDEST.min(track.window + 1)),
                false => (Lane::Slow, 1),
            };
        }
        if self.tracked.len() > MOST_TRACKED {
            self.tracked.retain(|_, track| track.running > 0);
        }
    }

    /// The webhooks to which no more attempts may begin before one ends, as far as they themselves are the reason.
    pub fn busy(&self) -> impl Iterator<Item = WebhookId> {
        let busy = self
            .tracked
            .iter()
            .filter(|(_, track)| track.running >= track.window);
        busy.map(|(id, _)| *id)
    }

    /// Whether nothing can begin at all.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.running.len() >= self.sizes.of_all
    }

    fn track(&self, webhook: &Webhook) -> Track {
        let fresh = || Track {
            lane: match webhook.health.failures {
                0 => Lane::New,
                _ => Lane::Slow,
            },
            window: 1,
            running: 0,
        };
        self.tracked.get(&webhook.id).copied().unwrap_or_else(fresh)
    }

    /// Has attempts that take longer leave their places.
    fn note_slow(&mut self, now: Duration) {
        while let Some((begun, id)) = self.begun.front().copied()
            && begun + QUICK < now
        {
            self.begun.pop_front();
            if let Some(running) = self.running.get_mut(&id) {
                self.taken[running.lane as usize] -= 1;
                running.lane = Lane::Slow;
                self.taken[Lane::Slow as usize] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use accounts::AccountId;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::{EventKind, EventKinds, Health, SecretVersions, WebhookState};

    fn webhook(id: u128) -> Webhook {
        Webhook {
            id: WebhookId(Uuid::from_u128(id)),
            account: AccountId::local(),
            url: "https://example.com/".parse().expect("an address"),
            kinds: EventKinds::of([EventKind::JobEnded]).expect("a kind"),
            secrets: SecretVersions::FIRST,
            state: WebhookState::Enabled,
            health: Health::default(),
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn receivers_that_hang_leave_the_places_of_the_others_free() {
        let mut lanes = Lanes::new(LaneSizes {
            of_each: 4,
            of_all: 12,
        });
        let healthy = webhook(0);
        let first = lanes.begin(&healthy, ms(0));
        lanes.end(first, true, ms(10));
        for id in 1..=4 {
            assert_eq!(lanes.room(&webhook(id), ms(20)), 1);
            lanes.begin(&webhook(id), ms(20));
        }
        assert_eq!(
            lanes.room(&webhook(5), ms(20)),
            0,
            "places of new ones are taken"
        );
        assert_eq!(lanes.room(&healthy, ms(20)), 2, "and nobody else's");
        assert_eq!(lanes.room(&webhook(5), ms(1_021)), 1, "they became slow");
        let failing = Webhook {
            health: Health {
                failures: 1,
                ..Health::default()
            },
            ..webhook(6)
        };
        assert_eq!(
            lanes.room(&failing, ms(1_021)),
            0,
            "among which there is no place now"
        );
        assert_eq!(lanes.room(&healthy, ms(1_021)), 2);
    }

    #[test]
    fn a_quick_receiver_gets_more_at_once_and_a_slow_one_a_single_attempt() {
        let mut lanes = Lanes::new(LaneSizes {
            of_each: 100,
            of_all: 300,
        });
        let one = webhook(1);
        for round in 0..20 {
            let attempt = lanes.begin(&one, ms(round * 10));
            lanes.end(attempt, true, ms(round * 10 + 5));
        }
        assert_eq!(lanes.room(&one, ms(300)), WIDEST as usize);
        let slow = lanes.begin(&one, ms(300));
        assert_eq!(lanes.busy().count(), 0);
        lanes.end(slow, true, ms(1_400));
        assert_eq!(lanes.room(&one, ms(1_400)), 1, "it took its time");
        let attempt = lanes.begin(&one, ms(1_400));
        assert_eq!(lanes.busy().collect::<Vec<_>>(), [one.id]);
        lanes.end(attempt, true, ms(1_401));
        assert_eq!(lanes.room(&one, ms(1_401)), 2, "it is quick again");
        let attempt = lanes.begin(&one, ms(1_402));
        lanes.end(attempt, false, ms(1_403));
        assert_eq!(lanes.room(&one, ms(1_403)), 1, "it failed");
    }

    #[test]
    fn attempts_are_bounded_in_all_and_none_is_counted_twice() {
        let mut lanes = Lanes::new(LaneSizes {
            of_each: 4,
            of_all: 6,
        });
        let mut attempts = Vec::new();
        for round in 0..6 {
            let next = webhook(u128::from(round));
            assert_eq!(lanes.room(&next, ms(round * 2_000)), 1);
            attempts.push(lanes.begin(&next, ms(round * 2_000)));
        }
        assert!(lanes.is_full());
        assert_eq!(lanes.room(&webhook(9), ms(20_000)), 0);
        for attempt in attempts.iter().chain(&attempts) {
            lanes.end(*attempt, false, ms(20_000));
        }
        assert_eq!(lanes.taken, [0; 3]);
        assert!(lanes.running.is_empty());
    }
}
