//! Time, randomness and identity are arguments of the domain, and its types have no wire form.
//!
//! Reads the code of domain packages outside tests. The contract suites count as code: they run against every store, so
//! they take their clock and ids as arguments like everything else.

use super::layers::{LAYERS, Room};
use crate::finding::Finding;
use crate::source::{Source, segments_behind, words};
use crate::workspace::Workspace;

/// What is made or asked of the world, and what to do instead.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (
        &["Timestamp::now", "Zoned::now", "SystemTime", "Instant::now"],
        "take `now` as an argument",
    ),
    (
        &["Uuid::new_v4", "Uuid::now_v7"],
        "take the id as an argument",
    ),
    (
        &["rand::", "getrandom::", "OsRng"],
        "take the random value as an argument",
    ),
    (
        &["println!", "eprintln!", "print!", "eprint!"],
        "return the value, or trace it",
    ),
    (
        &["Serialize", "Deserialize"],
        "write the wire struct in the HTTP crate, with `From<&Domain>`",
    ),
];

/// Modules of the standard library that touch the world.
const FORBIDDEN_STD: &[&str] = &["env", "fs", "net", "process", "thread"];

/// The parts of tokio that neither spawn, wait for a clock nor touch the world.
const ALLOWED_TOKIO: &[(&str, &[&str])] = &[
    ("tokio", &["join", "pin", "select", "sync", "try_join"]),
    ("tokio_util", &["sync"]),
];

/// Checks the code of every domain package.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let is_domain = |name: &str| {
        LAYERS
            .iter()
            .any(|layer| layer.name == name && layer.room == Room::Domain)
    };
    let domain = workspace
        .packages
        .iter()
        .filter(|package| is_domain(&package.name));
    domain
        .flat_map(|package| workspace.sources_of(package))
        .flat_map(impurities)
        .collect()
}

fn impurities(source: &Source) -> Vec<Finding> {
    let code = source.code.as_str();
    let mut found = Vec::new();
    for (needles, advice) in FORBIDDEN {
        for needle in *needles {
            found.extend(words(code, needle).map(|offset| (offset, (*needle).to_owned(), *advice)));
        }
    }
    for (offset, module) in segments_behind(code, "std") {
        if FORBIDDEN_STD.contains(&module) {
            found.push((
                offset,
                format!("std::{module}"),
                "ask a port, and let an adapter touch the world",
            ));
        }
    }
    for (root, allowed) in ALLOWED_TOKIO {
        for (offset, part) in segments_behind(code, root) {
            if !allowed.contains(&part) {
                let advice = "return a future, and let the caller spawn it and bring the clock";
                found.push((offset, format!("{root}::{part}"), advice));
            }
        }
    }
    found.retain(|(offset, _, _)| !source.in_tests(*offset));
    let finding = |(offset, what, advice): (usize, String, &str)| {
        Finding::new(
            &source.path,
            source.line(offset),
            format!("the domain has no `{what}`"),
            advice,
        )
    };
    found.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(package: &str, code: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{package}\"\n");
        let workspace = Workspace::of(&[
            ("crates/x/Cargo.toml", &manifest),
            ("crates/x/src/lib.rs", code),
        ]);
        check(&workspace)
            .iter()
            .map(|finding| format!("{} {}", finding.line, finding.rule))
            .collect()
    }

    #[test]
    fn the_world_is_not_in_the_domain() {
        for (code, what) in [
            ("let now = jiff::Timestamp::now();", "Timestamp::now"),
            ("use std::time::SystemTime;", "SystemTime"),
            ("let id = Uuid::now_v7();", "Uuid::now_v7"),
            ("let n = rand::random();", "rand::"),
            ("println!();", "println!"),
            ("#[derive(Debug, Serialize)]", "Serialize"),
            ("use std::{fmt, fs::File};", "std::fs"),
            ("std::thread::spawn(f);", "std::thread"),
            ("use tokio::{sync::Notify, time};", "tokio::time"),
            ("tokio::spawn(f);", "tokio::spawn"),
            ("use tokio_util::task::TaskTracker;", "tokio_util::task"),
        ] {
            assert_eq!(
                found("workflow-core", code),
                [format!("1 the domain has no `{what}`")],
                "{code}"
            );
        }
    }

    #[test]
    fn values_and_waiting_are_allowed() {
        let code = "use std::time::Duration;\nuse tokio::sync::Notify;\nuse tokio_util::sync::CancellationToken;\ntokio::select! {}\n// SystemTime\n";
        assert_eq!(found("workflow-core", code), Vec::<String>::new());
    }

    #[test]
    fn tests_and_adapters_are_free() {
        let code = "use std::fs;";
        assert_eq!(
            found("accounts", &format!("#[cfg(test)]\nmod tests {{ {code} }}")),
            Vec::<String>::new()
        );
        assert_eq!(found("store-local", code), Vec::<String>::new());
    }
}
