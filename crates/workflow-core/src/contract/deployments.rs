//! Rules of stores of deployments.

use jiff::Timestamp;

use crate::deployment::{
    Definition, Deployment, DeploymentName, Deployments, NewEvent, StoredDeployment, WorkerCommand,
    WorkerSource,
};

/// Runs every rule on two replicas of one fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn deployments(one: &dyn Deployments, other: &dyn Deployments) {
    a_version_is_saved_over_once(one, other).await;
    events_are_numbered_and_the_newest_are_kept(one, other).await;
    definitions_belong_to_their_deployment(one, other).await;
    what_is_removed_is_gone_with_all_of_it(one, other).await;
}

fn name(text: &str) -> DeploymentName {
    text.parse().expect("a name")
}

fn stored(text: &str) -> (StoredDeployment, Vec<NewEvent>) {
    let command = WorkerCommand {
        arguments: ["a \"program\"", "--port={port}", "ä\n"]
            .map(str::to_owned)
            .to_vec(),
        environment: Default::default(),
        folder: None,
        models: Some("/models".to_owned()),
    };
    let definition = Definition::of(WorkerSource::Command(command));
    let made = Deployment::new(name(text), definition, Timestamp::UNIX_EPOCH);
    let (deployment, events) = made.expect("it can be used");
    (deployment.to_stored(), events)
}

async fn listed(store: &dyn Deployments) -> Vec<StoredDeployment> {
    store.list().await.expect("an answer")
}

async fn save(store: &dyn Deployments, deployment: &StoredDeployment, events: &[NewEvent]) -> bool {
    store.save(deployment, events).await.expect("an answer")
}

async fn a_version_is_saved_over_once(one: &dyn Deployments, other: &dyn Deployments) {
    assert_eq!(listed(one).await, []);
    let (new, events) = stored("b");
    assert!(save(one, &new, &events).await, "it is new");
    assert!(!save(other, &new, &events).await, "it is there");
    let seen = listed(other).await;
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].version, &seen[0].text), (1, &new.text));
    let read = Deployment::read(&seen[0]).expect("this version wrote it");
    assert_eq!(read.to_stored(), seen[0]);
    assert!(save(other, &seen[0], &[]).await, "it is as it was seen");
    assert!(!save(one, &seen[0], &[]).await, "it was saved meanwhile");
    assert_eq!(listed(one).await[0].version, 2);
    let (first, _) = stored("a");
    assert!(save(one, &first, &[]).await, "another one");
    let names: Vec<_> = listed(other).await.into_iter().map(|it| it.name).collect();
    assert_eq!(names, [name("a"), name("b")]);
}

async fn events_are_numbered_and_the_newest_are_kept(
    one: &dyn Deployments,
    other: &dyn Deployments,
) {
    let event = |second: i64| NewEvent {
        at: Timestamp::from_second(second).expect("in range"),
        kind: "scaled".to_owned(),
        text: format!("it happened at {second}, \"so\" it reads"),
    };
    let of = async |store: &dyn Deployments, before, limit| {
        let events = store.events(&name("a"), before, limit).await;
        events.expect("an answer")
    };
    assert_eq!(of(one, None, 10).await, []);
    let mut at = listed(one).await[0].clone();
    for step in 0..5 {
        let events: Vec<NewEvent> = (step * 250..(step + 1) * 250).map(event).collect();
        assert!(save(one, &at, &events).await);
        at.version += 1;
    }
    let newest = of(other, None, 3).await;
    let numbers: Vec<u64> = newest.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1250, 1249, 1248]);
    assert_eq!(newest[0].event, event(1249));
    let before = of(other, Some(1249), 1).await;
    assert_eq!(before[0].event, event(1247));
    let all = of(other, None, 2_000).await;
    assert_eq!(
        (all.len(), all[999].number),
        (1_000, 251),
        "the oldest went"
    );
    assert_eq!(
        one.events(&name("b"), None, 10)
            .await
            .expect("an answer")
            .len(),
        1
    );
}

async fn definitions_belong_to_their_deployment(one: &dyn Deployments, other: &dyn Deployments) {
    let of = async |text: &str| other.definitions(&name(text)).await.expect("an answer");
    assert_eq!(of("a").await, None);
    for text in ["{\"x\":\"ä\"}", &"y".repeat(3 << 20)] {
        one.keep_definitions(&name("a"), text)
            .await
            .expect("it is kept");
        assert_eq!(of("a").await.as_deref(), Some(text));
    }
    one.keep_definitions(&name("nobodys"), "x")
        .await
        .expect("nothing is to be done");
    assert_eq!((of("b").await, of("nobodys").await), (None, None));
}

async fn what_is_removed_is_gone_with_all_of_it(one: &dyn Deployments, other: &dyn Deployments) {
    let version = listed(one).await[0].version;
    let remove = async |version| one.remove(&name("a"), version).await.expect("an answer");
    assert!(!remove(version - 1).await, "it was saved since");
    assert!(remove(version).await, "it is as it was seen");
    assert!(!remove(version).await, "it is gone");
    assert_eq!(listed(other).await.len(), 1);
    assert_eq!(
        other.events(&name("a"), None, 10).await.expect("an answer"),
        []
    );
    assert_eq!(
        other.definitions(&name("a")).await.expect("an answer"),
        None
    );
    let (again, events) = stored("a");
    assert!(save(other, &again, &events).await, "its name is free");
    let events = one.events(&name("a"), None, 10).await.expect("an answer");
    assert_eq!(events.len(), 1);
}
