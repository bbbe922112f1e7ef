//! What operators and workers make of a row.

use std::collections::BTreeMap;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn command(program: &str) -> Definition {
    Definition::of(WorkerSource::Command(WorkerCommand {
        arguments: vec![program.to_owned(), "{port}".to_owned()],
        environment: BTreeMap::from([
            ("A".to_owned(), EnvironmentValue::Text("1".to_owned())),
            (
                "B".to_owned(),
                EnvironmentValue::Variable("TOKEN".to_owned()),
            ),
            ("C".to_owned(), EnvironmentValue::File("/run/x".to_owned())),
        ]),
        folder: Some("/srv".to_owned()),
        models: None,
    }))
}

fn new() -> Deployment {
    let name = "sdxl".parse().expect("a name");
    let (deployment, events) =
        Deployment::new(name, command("one"), at(0)).expect("it can be used");
    assert_eq!(kinds(&events), ["applied"]);
    deployment
}

fn workers(starting: u32, ready: u32, draining: u32) -> WorkerCounts {
    WorkerCounts {
        starting,
        ready,
        draining,
    }
}

fn kinds(events: &[NewEvent]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// A deployment whose revisions 1 and 2 became ready.
fn second() -> Deployment {
    let mut deployment = new();
    change(
        &mut deployment,
        DeploymentChange::RevisionReady(RevisionNumber(1)),
    );
    change(&mut deployment, DeploymentChange::Apply(command("two")));
    change(
        &mut deployment,
        DeploymentChange::RevisionReady(RevisionNumber(2)),
    );
    deployment
}

fn change(deployment: &mut Deployment, change: DeploymentChange) -> Vec<NewEvent> {
    let events = deployment.apply(change, at(1));
    events.expect("the change can be made")
}

fn numbers(deployment: &Deployment) -> (Option<u32>, Option<u32>) {
    let next = deployment.next.map(|next| next.number.0);
    (deployment.current.map(|number| number.0), next)
}

#[test]
fn a_revision_takes_the_place_of_the_current_one_once_it_is_ready() {
    let mut deployment = new();
    assert_eq!(numbers(&deployment), (None, Some(1)));
    change(
        &mut deployment,
        DeploymentChange::RevisionReady(RevisionNumber(1)),
    );
    assert_eq!(numbers(&deployment), (Some(1), None));
    assert_eq!(
        change(&mut deployment, DeploymentChange::Apply(command("one"))),
        [],
        "it is the same"
    );
    change(&mut deployment, DeploymentChange::Apply(command("two")));
    assert_eq!(numbers(&deployment), (Some(1), Some(2)));
    let ready = change(
        &mut deployment,
        DeploymentChange::RevisionReady(RevisionNumber(2)),
    );
    assert_eq!(
        ready[0].text,
        "revision 2 takes jobs, and revision 1 drains"
    );
    assert_eq!(numbers(&deployment), (Some(2), None));
}

#[test]
fn a_revision_that_does_not_become_ready_is_dropped_and_the_old_one_stays() {
    let mut deployment = second();
    change(&mut deployment, DeploymentChange::Apply(command("three")));
    let failed = DeploymentChange::RevisionFailed(RevisionNumber(3), "it exits".to_owned());
    let dropped = change(&mut deployment, failed.clone());
    assert_eq!(
        dropped[0].text,
        "revision 3 is dropped: it exits; revision 2 stays"
    );
    assert_eq!(
        (numbers(&deployment), deployment.is_stopped()),
        ((Some(2), None), false)
    );
    assert_eq!(change(&mut deployment, failed), [], "it is dropped already");
    change(&mut deployment, DeploymentChange::Apply(command("three")));
    assert_eq!(
        numbers(&deployment),
        (Some(2), Some(4)),
        "numbers are never given again"
    );
}

#[test]
fn a_first_revision_that_does_not_become_ready_fails_and_a_start_tries_it_again() {
    let mut deployment = new();
    let failed = DeploymentChange::RevisionFailed(RevisionNumber(1), "it exits".to_owned());
    change(&mut deployment, failed);
    let (state, why) = deployment.state(workers(0, 0, 0));
    assert_eq!(state, DeploymentState::Failed);
    assert!(why.contains("it exits"), "{why}");
    assert_eq!(
        kinds(&change(&mut deployment, DeploymentChange::Start)),
        ["started"]
    );
    assert_eq!(numbers(&deployment), (None, Some(1)));
    assert_eq!(
        change(&mut deployment, DeploymentChange::Start),
        [],
        "it is started"
    );
}

#[test]
fn an_operator_stops_and_starts_it_and_only_a_change_is_told() {
    let mut deployment = second();
    assert_eq!(
        kinds(&change(&mut deployment, DeploymentChange::Stop)),
        ["stopped"]
    );
    assert_eq!(change(&mut deployment, DeploymentChange::Stop), []);
    assert_eq!(
        deployment.state(workers(0, 0, 1)).0,
        DeploymentState::Draining
    );
    assert_eq!(
        deployment.state(workers(0, 0, 0)).0,
        DeploymentState::Stopped
    );
    change(&mut deployment, DeploymentChange::Start);
    assert_eq!(
        deployment.state(workers(0, 0, 0)).0,
        DeploymentState::Stopped,
        "nothing needs it"
    );
    assert_eq!(
        deployment.state(workers(1, 0, 0)).0,
        DeploymentState::Starting
    );
    assert_eq!(deployment.state(workers(1, 1, 1)).0, DeploymentState::Ready);
    change(
        &mut deployment,
        DeploymentChange::WorkersFailed("they crash".to_owned()),
    );
    assert_eq!(
        deployment.state(workers(0, 1, 0)).0,
        DeploymentState::Failed
    );
    change(&mut deployment, DeploymentChange::Apply(command("mended")));
    assert!(!deployment.is_stopped(), "a new definition is tried");
}

#[test]
fn a_roll_back_starts_the_revision_before_the_current_one_or_the_named_one() {
    let mut deployment = second();
    change(&mut deployment, DeploymentChange::RollBack(None));
    assert_eq!(numbers(&deployment), (Some(2), Some(1)));
    change(&mut deployment, DeploymentChange::RollBack(None));
    assert_eq!(
        numbers(&deployment),
        (Some(2), None),
        "away from what is not ready"
    );
    change(
        &mut deployment,
        DeploymentChange::RollBack(Some(RevisionNumber(1))),
    );
    change(
        &mut deployment,
        DeploymentChange::RevisionReady(RevisionNumber(1)),
    );
    assert_eq!(numbers(&deployment), (Some(1), None));
    let none = deployment.apply(DeploymentChange::RollBack(None), at(1));
    assert!(
        matches!(none, Err(ChangeRefused::NoRevision(_))),
        "{none:?}"
    );
    let none = deployment.apply(DeploymentChange::RollBack(Some(RevisionNumber(9))), at(1));
    assert!(
        matches!(none, Err(ChangeRefused::NoRevision(_))),
        "{none:?}"
    );
}

#[test]
fn other_numbers_of_workers_hold_until_the_next_revision() {
    let mut deployment = second();
    let bounds = Bounds { min: 1, max: 3 };
    change(&mut deployment, DeploymentChange::Scale(bounds));
    let current = deployment.serving().expect("revision 2").clone();
    assert_eq!(deployment.bounds_of(&current), bounds);
    let wrong = DeploymentChange::Scale(Bounds { min: 2, max: 1 });
    deployment
        .apply(wrong, at(1))
        .expect_err("it makes no sense");
    change(&mut deployment, DeploymentChange::Apply(command("three")));
    assert_eq!(deployment.bounds, None);
    let urls = Definition::of(WorkerSource::Urls(vec!["http://a".to_owned()]));
    let mut elsewhere = Deployment::new("x".parse().expect("a name"), urls, at(0))
        .expect("it can be used")
        .0;
    let refused = elsewhere.apply(DeploymentChange::Scale(bounds), at(1));
    assert_eq!(refused, Err(ChangeRefused::NotScaled));
}

#[test]
fn twenty_revisions_are_kept_and_those_in_use_among_them() {
    let mut deployment = second();
    for number in 3..40 {
        let definition = command(&number.to_string());
        change(&mut deployment, DeploymentChange::Apply(definition));
    }
    assert_eq!(deployment.revisions.len(), MOST_REVISIONS);
    assert_eq!(numbers(&deployment), (Some(2), Some(39)));
    assert!(deployment.revision(RevisionNumber(2)).is_some());
    assert!(deployment.revision(RevisionNumber(3)).is_none());
}

#[test]
fn what_is_stored_reads_back_and_what_is_none_does_not() {
    let mut deployment = second();
    let urls = ["http://a", "http://b"].map(str::to_owned).to_vec();
    let bounds = Bounds { min: 1, max: 3 };
    for change in [
        DeploymentChange::Scale(bounds),
        DeploymentChange::StartMeasured(1_500),
        DeploymentChange::DefinitionsKept("x".to_owned()),
        DeploymentChange::WorkersSeen(workers(1, 2, 3)),
        DeploymentChange::Apply(Definition::of(WorkerSource::Urls(urls))),
        DeploymentChange::Stop,
        DeploymentChange::WorkersFailed("they \"crash\"".to_owned()),
    ] {
        deployment
            .apply(change, at(1))
            .expect("the change can be made");
        assert_eq!(
            Deployment::read(&deployment.to_stored()).as_ref(),
            Some(&deployment)
        );
    }
    let stored = deployment.to_stored();
    let before = StoredDeployment {
        text: stored.text.replace(r#","workers":[1,2,3]"#, "").into(),
        ..stored
    };
    let read = Deployment::read(&before).expect("a version before wrote it");
    assert_eq!(read.workers, WorkerCounts::default());
    for text in [
        "",
        "{}",
        "[]",
        r#"{"revisions":[{}],"current":null,"stopped":false}"#,
    ] {
        let stored = StoredDeployment {
            text: text.into(),
            ..deployment.to_stored()
        };
        assert_eq!(Deployment::read(&stored), None, "{text}");
    }
}
