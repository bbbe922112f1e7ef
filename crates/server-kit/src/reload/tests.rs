//! What of a new configuration is brought into force, without a server.

use secrecy::ExposeSecret;

use super::*;
use crate::config::{DATA_DIR, Key, LISTEN, SERVER_KEYS};

const KEYS: &[&[Key]] = &[&[LISTEN, DATA_DIR], SERVER_KEYS];

const ONE: &str = "the-first-of-two-tokens";
const TWO: &str = "the-second-of-two-tokens";

fn settings(values: &[(&str, &str)]) -> Settings {
    Settings::of(KEYS, values).expect("the names are keys")
}

/// What a server that was started with `before` makes of `after`.
fn prepare(
    before: &[(&str, &str)],
    after: &'static [(&'static str, &'static str)],
) -> Result<Prepared, String> {
    let mut before = settings(before);
    let read = |settings: &mut Settings| {
        Ok(Reread {
            server: ServerConfig::read(settings)?,
            tier: Tier::standard(),
        })
    };
    let started = read(&mut before).expect("it started");
    let source = ConfigSource {
        gather: Box::new(|| Ok(settings(after))),
        read,
        // Stands for a limit: any setting may be one.
        limits: &[&["json_limit"]],
    };
    Prepared::of(&source, &before, started.server.access.anonymous)
}

#[test]
fn what_changed_is_found_wherever_it_came_from() {
    let before = settings(&[("token", ONE), ("json_limit", "1MiB")]);
    let after = settings(&[("json_limit", "1MiB"), ("drain_grace", "5s")]);
    assert_eq!(before.differences(&after), ["drain_grace", "token"]);
    assert_eq!(after.differences(&before), ["drain_grace", "token"]);
    let mixed = after.with(&["token"], &before);
    assert_eq!(before.differences(&mixed), ["drain_grace"]);
    let without = before.with(&["token"], &after);
    assert_eq!(without.differences(&after), ["drain_grace"]);
}

#[test]
fn what_waits_is_as_before_and_what_changes_is_new() {
    let prepared = prepare(
        &[("token", ONE), ("json_limit", "1MiB")],
        &[
            ("token", TWO),
            ("json_limit", "2MiB"),
            ("drain_grace", "5s"),
            ("log_level", "warn"),
        ],
    );
    let prepared = prepared.expect("it can be used");
    assert_eq!(
        prepared.changed.adjusted,
        ["json_limit", "log_level", "token"]
    );
    assert_eq!(prepared.changed.waiting, ["drain_grace"]);
    let server = prepared.reread.server;
    assert_eq!(server.json_limit_bytes, 2 << 20);
    assert_eq!(server.drain_grace.as_secs(), 30);
    let (token, _) = prepared
        .credentials
        .expect("they changed")
        .token
        .expect("one");
    assert_eq!(token.expose_secret(), TWO);
    let shown = prepared.settings.in_force();
    let grace: Vec<_> = shown.iter().filter(|it| it.name == "drain_grace").collect();
    assert_eq!(grace.len(), 1, "{grace:?}");
    assert_eq!(grace[0].value.as_deref(), Some("\"30s\""));
}

#[test]
fn credentials_that_did_not_change_are_not_made_again() {
    let prepared = prepare(&[("token", ONE)], &[("token", ONE), ("json_limit", "2MiB")]);
    assert!(prepared.expect("it can be used").credentials.is_none());
}

#[test]
fn whether_credentials_are_needed_waits_for_a_restart() {
    for (before, after) in [(&[("token", ONE)][..], &[][..]), (&[], &[("token", ONE)])] {
        let prepared = prepare(before, after).expect("it can be used");
        assert_eq!(prepared.changed.waiting, ["token"]);
        assert!(prepared.credentials.is_none());
        let access = prepared.reread.server.access;
        assert_eq!(access.anonymous, before.is_empty());
    }
}

#[test]
fn a_value_that_waits_must_be_right_all_the_same() {
    let refused = prepare(
        &[("token", ONE)],
        &[("token", TWO), ("drain_grace", "soon")],
    );
    let reason = refused.err().expect("it is refused");
    assert!(
        reason.starts_with("`drain_grace` cannot be \"soon\""),
        "{reason}"
    );
}
