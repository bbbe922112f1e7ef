//! What follows from a definition, and every definition of the shipped catalog read against itself.

use std::collections::BTreeSet;

use super::*;
use crate::builtin::FILES;
use crate::definition::{ModelFile, PartnerFile};

const MODEL: &str = "charges_on_policy_rejection = \"no\"\n[price]\nkind = \"fixed\"\ncents = 4\n";

const PARTNER: &str = r#"
name = "P"
base_url = "https://a.test"
auth = { kind = "none" }
[[errors]]
pointer = "/errors/*/code"
is = ["*blocked*"]
bucket = "content_policy_violation"
[[errors]]
status = [400]
bucket = "provider_error"
retryable = true
[[errors]]
status = [400]
header = "x-why"
is = ["busy"]
bucket = "service_unavailable"
[call.x]
style = "poll"
submit = { path = "/" }
task = { id = "/id" }
poll = { path = "/{task}" }
state = { pointer = "/state", ok = ["done"], failed = ["failed", 3] }
guards = [{ pointer = "/ok", is = [false], bucket = "service_unavailable" }]
"#;

fn dialects(partner: &str, models: &[&str]) -> Vec<Dialect> {
    let partner: PartnerFile = toml::from_str(partner).expect("it is well written");
    let of_model = |text: &&str| {
        let model: ModelFile = toml::from_str(text).expect("it is well written");
        let mut calls = partner.call.values();
        let call = match &model.call {
            Some(name) => partner.call.get(name),
            None => calls.next(),
        };
        Dialect::new(&partner, call.expect("there is one"), &model)
    };
    models.iter().map(of_model).collect()
}

#[test]
fn every_rule_word_and_status_has_an_answer() {
    let dialect = &dialects(PARTNER, &[MODEL])[0];
    let found = dialect.cases();
    let told = found.cases.iter().map(|case| {
        let (step, status, body) = (case.step, case.status, &case.body);
        format!("{step:?} {status} {body}: {:?}, {}", case.expected, case.of)
    });
    let told: Vec<String> = told.collect();
    let expected = [
        r#"Submit 400 {"errors":[{"code":"blocked"}]}: Policy, rule 1 of `errors`"#,
        r#"Poll 400 {"errors":[{"code":"blocked"}]}: Policy, rule 1 of `errors`"#,
        r#"Submit 400 {}: Transient, rule 2 of `errors`"#,
        r#"Poll 400 {}: AskedAgain, rule 2 of `errors`"#,
        r#"Submit 200 {"ok":false}: Account, rule 1 of `guards`"#,
        r#"Poll 200 {"ok":false}: Account, rule 1 of `guards`"#,
        r#"Poll 200 {"state":"failed"}: Failed, a word of `failed` in `state`"#,
        r#"Poll 200 {"state":3}: Failed, a word of `failed` in `state`"#,
        r#"Submit 401 {}: Account, the status 401"#,
        r#"Submit 402 {}: Account, the status 402"#,
        r#"Submit 403 {}: Account, the status 403"#,
        r#"Submit 422 {}: Refused, the status 422"#,
        r#"Submit 429 {}: Transient, the status 429"#,
        r#"Submit 500 {}: Failed, the status 500"#,
        r#"Submit 504 {}: TimedOut, the status 504"#,
        r#"Poll 401 {}: AskedAgain, the status 401"#,
        r#"Poll 429 {}: AskedAgain, the status 429"#,
        r#"Poll 500 {}: AskedAgain, the status 500"#,
        r#"Poll 503 {}: AskedAgain, the status 503"#,
        r#"Poll 422 {}: Refused, the status 422"#,
    ];
    assert_eq!(told, expected);
    // The rule before it matches every answer of its status.
    assert_eq!(found.never, ["rule 3 of `errors`"]);
    for case in &found.cases {
        assert_eq!(dialect.reads(case), Some(case.expected), "{case:?}");
    }
}

#[test]
fn a_rule_for_tasks_that_failed_has_one() {
    let partner = PARTNER.replace("status = [400]\nbucket", "status = [200]\nbucket");
    let dialect = &dialects(&partner, &[MODEL])[0];
    let found = dialect.cases();
    let of_task = found.cases.iter().find(|case| case.of.ends_with("failed"));
    let of_task = of_task.expect("rule 2 is for nothing else");
    assert_eq!((of_task.step, of_task.status), (Step::Poll, 200));
    assert_eq!(of_task.body, r#"{"state":"failed"}"#);
    assert_eq!(dialect.reads(of_task), Some(Expected::Failed));
}

#[test]
fn every_model_of_the_catalog_reads_its_cases_as_its_files_say() {
    let files = || FILES.iter().filter(|(path, _)| path.ends_with(".toml"));
    let mut wrong = Vec::new();
    for (path, partner) in files() {
        let Some(folder) = path.strip_suffix("partner.toml") else {
            continue;
        };
        let models = files().filter(|(other, _)| other.starts_with(folder) && other != path);
        let (names, texts): (Vec<&str>, Vec<&str>) = models.copied().unzip();
        let dialects = dialects(partner, &texts);
        for (name, dialect) in names.iter().zip(&dialects) {
            let found = dialect.cases();
            let kinds: BTreeSet<Expected> = found.cases.iter().map(|case| case.expected).collect();
            for kind in [
                Expected::Refused,
                Expected::Failed,
                Expected::Account,
                Expected::TimedOut,
            ] {
                if !kinds.contains(&kind) {
                    wrong.push(format!("{name}: nothing means {kind:?}"));
                }
            }
            for case in &found.cases {
                let read = dialect.reads(case);
                if read != Some(case.expected) {
                    wrong.push(format!("{name}: read as {read:?}: {case:?}"));
                }
            }
            // Rules of the call, which come first, are for no other call.
            let own = dialect.call.errors.len();
            let never = found.never.iter().filter(|rule| {
                let (rule, of) = rule.split_once(" of ").expect("both");
                let number: usize = rule.trim_start_matches("rule ").parse().expect("a number");
                of == "`guards`" || number <= own
            });
            wrong.extend(never.map(|rule| format!("{name}: {rule} never decides")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
