//! One hostile neighbour: whatever one account does, another account is served meanwhile, and the program stays within its
//! bounds. The real program, attacked over real sockets and looked at from outside.
//!
//! Each test begins an attack, does an ordinary client's work as another account while the attack holds, and then compares
//! what the process uses with what it used before. The client's steps have three minutes each, which is no promise of speed: how
//! long they take is measured by `cargo xtask bench fair`.

mod bounds;
mod rig;

use std::io::Write;
use std::time::{Duration, Instant};

use it::Usage;
use it::attacks::{Attack, Running};

use bounds::Bounds;
use rig::Rig;

/// How long the neighbour goes on for attacks that have not struck: far longer than they take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often the neighbour does its work while an attack holds, at least: more than once, so that what is used up by the first
/// round is missed in the next. It goes on until each lane of the attack has struck.
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regular_expressions_without_end_take_no_thread_from_others() {
    withstands(&[Attack::Regex], &bounds::REGEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_without_a_window_take_no_descriptor_from_others() {
    withstands(&[Attack::ZeroWindow], &bounds::ZERO_WINDOW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_numbers_take_no_memory_from_others() {
    withstands(&[Attack::Json], &bounds::JSON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_end_take_no_memory_from_others() {
    withstands(&[Attack::Bodies], &bounds::BODIES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_takes_no_memory_from_others() {
    withstands(&[Attack::History], &bounds::HISTORY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_do_not_end_take_no_writer_from_others() {
    withstands(&[Attack::Uploads], &bounds::UPLOADS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_streams_take_nothing_from_others() {
    withstands(&[Attack::Events], &bounds::EVENTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_full_for_its_account_alone() {
    withstands(&[Attack::Queue], &bounds::QUEUE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_take_nothing_from_others() {
    withstands(&[Attack::Sockets], &bounds::SOCKETS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_pictures_take_no_memory_from_others() {
    withstands(&[Attack::Pictures], &bounds::PICTURES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_under_keys_take_no_write_from_others() {
    withstands(&[Attack::Calls], &bounds::CALLS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_attacks_at_once_leave_others_served() {
    withstands(Attack::ALL, &bounds::ALL).await;
}

/// Attacks as one account, works as the other, and looks at the process.
async fn withstands(attacks: &[Attack], bounds: &Bounds) {
    let rig = Rig::start(bounds.limit).await;
    // What is made once, such as threads and caches, is there before anything is compared.
    rig.neighbour.work().await.unwrap();
    let before = rig.usage();
    let begun = Attack::begin_all(attacks, &rig.target).await;
    let mut running = begun.unwrap_or_else(|error| panic!("{error}\n{}", rig.usage_told(&before)));
    let mut seen = Seen {
        before,
        most: rig.usage(),
        took: Duration::ZERO,
        rounds: 0,
    };
    let began = Instant::now();
    while seen.rounds < ROUNDS || !running.iter().all(Running::has_struck) {
        let worked = rig.neighbour.work().await;
        let times = worked.unwrap_or_else(|error| panic!("{error}\n{}", rig.usage_told(&before)));
        seen.add(rig.usage(), times.sum());
        for attack in &mut running {
            let counts = attack.still().await;
            let counts =
                counts.unwrap_or_else(|error| panic!("{error}\n{}", rig.usage_told(&before)));
            let is_late = began.elapsed() > PATIENCE && !attack.has_struck();
            assert!(!is_late, "{} has not struck: {counts:?}", attack.name());
        }
    }
    for attack in &mut running {
        let counts = attack.still().await.unwrap();
        let _ = writeln!(std::io::stderr(), "fair: {}: {counts:?}", attack.name());
    }
    seen.tell();
    bounds.hold(&seen.before, &seen.most);
    for attack in running {
        attack.end().await;
    }
    // Over with the attack, the server ends as it should.
    rig.end().await;
}

/// What a test saw from outside.
struct Seen {
    before: Usage,
    most: Usage,
    /// How long the neighbour's work took in all.
    took: Duration,
    rounds: usize,
}

impl Seen {
    fn add(&mut self, now: Usage, took: Duration) {
        self.most.threads = self.most.threads.max(now.threads);
        self.most.descriptors = self.most.descriptors.max(now.descriptors);
        self.most.peak_bytes = now.peak_bytes;
        self.took += took;
        self.rounds += 1;
    }

    /// Says it, past the capture of test output.
    fn tell(&self) {
        let (before, most) = (&self.before, &self.most);
        let _ = writeln!(
            std::io::stderr(),
            "fair: threads {} to {}, descriptors {} to {}, memory {} to {} MB; {} rounds of the neighbour in {:?}",
            before.threads,
            most.threads,
            before.descriptors,
            most.descriptors,
            before.resident_bytes / 1_000_000,
            most.peak_bytes / 1_000_000,
            self.rounds,
            self.took,
        );
    }
}
