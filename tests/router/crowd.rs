//! Calls under keys, more at once than the queue of the database has places: each waits for its turn, and none is refused.

use futures_util::future::join_all;
use it::Http2;
use it::http2::{Event, OPEN_WINDOW};
use tokio::net::TcpStream;

use super::*;

/// Connections, and the calls on each: 2,000 in all, where the queue has 1,024 places.
const CONNECTIONS: usize = 16;
const STREAMS: usize = 125;

/// The statuses of calls on one connection, all sent before the first answer is read.
async fn called(rig: &Rig, connection: usize) -> Vec<u16> {
    let stream = TcpStream::connect(rig.server().address).await.unwrap();
    let mut http2 = Http2::begin(stream, OPEN_WINDOW).await.unwrap();
    for call in 0..STREAMS {
        let key = format!("crowd-{connection}-{call}");
        let request = call_of("crowd", AT_ONCE, &prompt(&key)).header("Idempotency-Key", &key);
        http2.send(&request).await.unwrap();
    }
    let mut statuses = Vec::new();
    while statuses.len() < STREAMS {
        match http2.next().await.unwrap() {
            Event::Head { status, .. } => statuses.push(status),
            Event::Ended { .. } | Event::Pong => {}
            Event::Goodbye => panic!("cut after {} answers", statuses.len()),
        }
    }
    statuses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_calls_under_keys_at_once_are_all_carried_out() {
    let most = u32::try_from(2 * CONNECTIONS * STREAMS).unwrap();
    let changes = vec![
        AccountChange::ConcurrentCalls(Some(most)),
        AccountChange::CommittedSpendCents(Some(u64::from(most) * 1_000)),
    ];
    let rig = Rig::with(&["--log-level", "warn"], &[("crowd", changes)]).await;
    let calls = (0..CONNECTIONS).map(|connection| called(&rig, connection));
    let statuses = join_all(calls).await.concat();
    let others: Vec<u16> = statuses.iter().copied().filter(|it| *it != 200).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(statuses.len(), CONNECTIONS * STREAMS);
    assert_eq!(rig.submits(Partner::FalSync), CONNECTIONS * STREAMS);
}
