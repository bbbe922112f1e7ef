//! Keys by number and weight, and what is kept of them when a catalog is loaded again.

use std::collections::BTreeMap;

use super::*;

fn auth() -> Auth {
    let text =
        "kind = \"hs256_jwt\"\nissuer = { env = \"ACME_ID\" }\nsecret = { env = \"ACME_KEY\" }";
    toml::from_str(text).expect("it is well written")
}

fn read(set: &[(&str, &str)], breakers: &Breakers) -> Result<PartnerKeys, KeysError> {
    let set: BTreeMap<&str, &str> = set.iter().copied().collect();
    let environment = |name: &str| set.get(name).map(|value| (*value).to_owned());
    PartnerKeys::read("acme", &auth(), &environment, breakers)
}

fn keys(set: &[(&str, &str)]) -> PartnerKeys {
    read(set, &Breakers::default()).expect("they are right")
}

/// Which keys a thousand submissions get whose chances are spread evenly.
fn spread(keys: &PartnerKeys, now: Instant) -> BTreeMap<u8, u32> {
    let mut counts = BTreeMap::new();
    for number in 0..1000 {
        let chosen = keys.choose(|| f64::from(number) / 1000.0, now);
        *counts
            .entry(chosen.expect("one may go").number)
            .or_default() += 1;
    }
    counts
}

const THREE: [(&str, &str); 7] = [
    ("ACME_ID", "id-1"),
    ("ACME_KEY", "key-1"),
    ("ACME_ID_2", "id-2"),
    ("ACME_KEY_2", "key-2"),
    ("ACME_ID_2_WEIGHT", "3"),
    ("ACME_ID_9", "id-9"),
    ("ACME_KEY_9", "key-9"),
];

#[test]
fn submissions_are_spread_by_weight() {
    let counts = spread(&keys(&THREE), Instant::now());
    assert_eq!(counts, BTreeMap::from([(1, 200), (2, 600), (9, 200)]));
    let alone = spread(&keys(&THREE[..2]), Instant::now());
    assert_eq!(alone, BTreeMap::from([(1, 1000)]));
}

#[test]
fn every_secret_of_every_key_is_masked() {
    let keys = keys(&THREE);
    let text = "id-1 key-1 id-2 key-2 id-9 key-9";
    assert_eq!(keys.mask(text), "*** *** *** *** *** ***");
    assert!(keys.is_in(b"a key-9 b") && !keys.is_in(b"key-4"));
    assert!(!format!("{keys:?}").contains("key-"));
    let longer = [("ACME_ID_3", "id-1-and-more"), ("ACME_KEY_3", "key-3")];
    let keys = self::keys(&[&THREE[..], &longer].concat());
    assert_eq!(keys.mask("id-1-and-more"), "***");
}

#[test]
fn a_task_whose_key_is_gone_is_asked_after_with_the_first() {
    let keys = keys(&THREE);
    assert!(keys.credential(9).is_in(b"key-9"));
    assert!(keys.credential(7).is_in(b"key-1"));
}

#[test]
fn a_key_that_pauses_gets_nothing_until_all_pause() {
    let (keys, now) = (keys(&THREE), Instant::now());
    let refuse = |chance: f64, outcome| {
        let chosen = keys.choose(|| chance, now).expect("one may go");
        keys.record(&chosen, Some(outcome), now);
        chosen.number
    };
    assert_eq!(refuse(0.5, Outcome::Refused), 2);
    assert_eq!(spread(&keys, now), BTreeMap::from([(1, 500), (9, 500)]));
    assert_eq!(refuse(0.9, Outcome::Busy(Some(Duration::from_secs(3)))), 9);
    assert_eq!(refuse(0.9, Outcome::Refused), 1);
    let pause = keys.choose(|| 0.0, now).expect_err("all pause");
    assert_eq!(pause.rest, Duration::from_secs(3), "the shortest");
    let later = now + pause.rest;
    assert_eq!(keys.choose(|| 0.0, later).expect("one tries").number, 9);
    let second = keys.choose(|| 0.0, later);
    second.expect_err("it is the only one that tries");
}

#[test]
fn what_is_known_of_a_key_outlives_the_catalog() {
    let (breakers, now) = (Breakers::default(), Instant::now());
    let before = read(&THREE, &breakers).expect("right");
    let chosen = before.choose(|| 0.0, now).expect("one may go");
    before.record(&chosen, Some(Outcome::Refused), now);
    let after = read(&THREE[..2], &breakers).expect("right");
    drop(before);
    let told = breakers.states(now);
    assert_eq!(
        told,
        [KeyStatus {
            partner: "acme".to_owned(),
            key: 1,
            breaker: BreakerState::Open
        }],
        "and of keys that are gone nothing"
    );
    after.choose(|| 0.0, now).expect_err("it still pauses");
}

#[test]
fn what_is_wrong_with_a_key_is_said() {
    let wrong = |more: (&str, &str)| {
        let set: Vec<_> = THREE.into_iter().chain([more]).collect();
        let error = read(&set, &Breakers::default()).expect_err("it is wrong");
        error.to_string()
    };
    for weight in ["0", "1001", "-1", "half"] {
        assert_eq!(
            wrong(("ACME_ID_2_WEIGHT", weight)),
            format!("ACME_ID_2_WEIGHT is `{weight}`; a weight is a whole number from 1 to 1000")
        );
    }
    assert_eq!(
        wrong(("ACME_KEY_9", "a\u{7}b")),
        "ACME_KEY_9 holds characters that cannot be sent"
    );
    assert_eq!(
        wrong(("ACME_KEY_4", "key-4")),
        "ACME_KEY_4 is set and ACME_ID_4 is not; set both or none"
    );
    assert_eq!(
        wrong(("ACME_ID_5", "id-5")),
        "ACME_ID_5 is set and ACME_KEY_5 is not; set both or none"
    );
    assert_eq!(
        wrong(("ACME_ID_6_WEIGHT", "2")),
        "ACME_ID_6_WEIGHT is set and ACME_ID_6 is not; set both or none"
    );
    let missing = read(&THREE[1..], &Breakers::default());
    assert!(matches!(missing, Err(KeysError::Missing(_))));
}
