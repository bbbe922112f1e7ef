//! Who is counted, and when a place comes free.

use super::*;

fn admission(max_connections: usize, max_connections_per_peer: usize) -> Admission {
    let limits = ServerLimits {
        max_connections,
        max_connections_per_peer,
        uncounted_peers: "203.0.113.0/24".parse().expect("a network"),
        ..ServerLimits::default()
    };
    Admission::new(&limits, Arc::default())
}

fn admit(admission: &Admission, address: &str) -> Result<Ticket, Refused> {
    admission.admit(address.parse().expect("an address"))
}

fn refused(admission: &Admission, address: &str) -> Refused {
    admit(admission, address).expect_err("no room")
}

#[test]
fn a_ticket_is_given_back_when_dropped() {
    let admission = admission(1, 1);
    let ticket = admit(&admission, "192.0.2.1").expect("room");
    assert_eq!(refused(&admission, "192.0.2.2"), Refused::Full);
    assert_eq!(admission.stats.open.get(), 1);
    drop(ticket);
    assert_eq!(admission.stats.open.get(), 0);
    assert!(admit(&admission, "192.0.2.1").is_ok());
    assert!(admission.counts.lock().expect("sound").is_empty());
}

#[test]
fn a_peer_has_a_share_of_its_own() {
    let admission = admission(10, 1);
    let _first = admit(&admission, "192.0.2.1").expect("room");
    assert_eq!(refused(&admission, "192.0.2.1"), Refused::Peer);
    assert_eq!(refused(&admission, "::ffff:192.0.2.1"), Refused::Peer);
    assert!(admit(&admission, "192.0.2.2").is_ok());
}

#[test]
fn a_refused_peer_takes_no_room() {
    let admission = admission(2, 1);
    let _first = admit(&admission, "192.0.2.1").expect("room");
    assert_eq!(refused(&admission, "192.0.2.1"), Refused::Peer);
    assert!(admit(&admission, "192.0.2.2").is_ok());
}

#[test]
fn ipv6_is_counted_by_network() {
    let admission = admission(10, 1);
    let _first = admit(&admission, "2001:db8:0:1::1").expect("room");
    let neighbour = "2001:db8:0:1:ffff::2";
    assert_eq!(refused(&admission, neighbour), Refused::Peer);
    assert!(admit(&admission, "2001:db8:0:2::1").is_ok());
}

#[test]
fn loopback_and_proxies_are_not_counted() {
    let admission = admission(10, 0);
    for address in ["127.0.0.1", "::1", "203.0.113.7"] {
        assert!(admit(&admission, address).is_ok(), "{address}");
    }
}
