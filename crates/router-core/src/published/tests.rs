//! Which versions are offered, and which changes are refused.

use super::*;

fn id(text: &str) -> ModelId {
    text.parse().expect(text)
}

fn ids(texts: &[&str]) -> BTreeSet<ModelId> {
    texts.iter().map(|text| id(text)).collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// Writes a change as a store does.
fn after(published: &Published, change: PublishedChange) -> Published {
    let kept = published.versions().filter(|one| {
        let key = (one.model.clone(), one.version);
        !change.forget.contains(&key)
    });
    let all: Vec<_> = kept.cloned().chain(change.write).collect();
    Published::new(published.revision() + 1, all)
}

fn publish(published: &Published, model: &str, text: &str, calls: &[&str]) -> Published {
    let made = published.publish(&id(model), text.into(), ids(calls), at(0));
    match made.expect("it can be published") {
        Publication::New(change) => after(published, change),
        Publication::Unchanged(version) => panic!("version {version} says the same"),
    }
}

fn offered(published: &Published, model: &str) -> Option<u32> {
    published.offered(&id(model)).map(|one| one.version)
}

#[test]
fn the_newest_version_that_is_not_withdrawn_is_offered() {
    let published = publish(&Published::default(), "easel/a", "one", &[]);
    let published = publish(&published, "easel/a", "two", &[]);
    assert_eq!(offered(&published, "easel/a"), Some(2));
    assert_eq!(offered(&published, "easel/b"), None);
    let versions: Vec<String> = published
        .versions()
        .map(|one| one.id().to_string())
        .collect();
    assert_eq!(versions, ["easel/a.v1", "easel/a.v2"]);

    let again = published.publish(&id("easel/a"), "two".into(), ids(&[]), at(9));
    assert_eq!(again, Ok(Publication::Unchanged(2)));

    let second = published.withdraw(&id("easel/a"), Some(2), at(5));
    let published = after(&published, second.expect("it is there"));
    assert_eq!(offered(&published, "easel/a"), Some(1), "the one before");
    let all = published.withdraw(&id("easel/a"), None, at(6));
    let published = after(&published, all.expect("it is there"));
    assert_eq!(offered(&published, "easel/a"), None);
    let times: Vec<_> = published.versions().map(|one| one.withdrawn_at).collect();
    assert_eq!(times, [Some(at(6)), Some(at(5))], "once");
    let nothing = published.withdraw(&id("easel/a"), None, at(7));
    assert!(nothing.expect("it is there").is_empty());

    let published = publish(&published, "easel/a", "two", &[]);
    assert_eq!(offered(&published, "easel/a"), Some(3), "numbers go on");
}

#[test]
fn what_is_not_there_cannot_be_withdrawn() {
    let published = publish(&Published::default(), "easel/a", "one", &[]);
    let refused = |model: &str, version| {
        let refused = published.withdraw(&id(model), version, at(1));
        refused.expect_err("it is not there")
    };
    assert_eq!(
        refused("easel/b", None),
        PublishError::NoModel(id("easel/b"))
    );
    assert_eq!(
        refused("easel/a", Some(2)),
        PublishError::NoVersion(id("easel/a"), 2)
    );
}

#[test]
fn models_never_come_to_call_themselves() {
    let refused = |published: &Published, model: &str, calls: &[&str]| {
        let made = published.publish(&id(model), "new".into(), ids(calls), at(1));
        made.expect_err("it is a cycle").to_string()
    };
    let none = Published::default();
    let told = refused(&none, "easel/a", &["easel/a"]);
    assert!(told.contains(": easel/a -> easel/a;"), "{told}");

    let published = publish(&none, "easel/a", "one", &["easel/b", "bfl/flux-2"]);
    let published = publish(&published, "easel/b", "one", &["easel/c"]);
    let told = refused(&published, "easel/c", &["bfl/flux-2", "easel/a"]);
    assert!(
        told.contains(": easel/c -> easel/a -> easel/b -> easel/c;"),
        "{told}"
    );
    // What calls it in turn does not matter as long as it calls none of them.
    let published = publish(&published, "easel/c", "one", &["bfl/flux-2"]);

    // The newest version alone is called by name.
    let published = publish(&published, "easel/b", "two", &[]);
    let published = publish(&published, "easel/c", "two", &["easel/b", "easel/a"]);
    let back = published.withdraw(&id("easel/b"), Some(2), at(2));
    let told = back.expect_err("version 1 would call easel/c").to_string();
    assert!(told.contains(": easel/b -> easel/c -> easel/b;"), "{told}");
    let all = published.withdraw(&id("easel/b"), None, at(2));
    all.expect("nothing is offered then");
}

#[test]
fn a_name_is_not_that_of_a_version() {
    let published = Published::default();
    let long = format!("easel/{}", "n".repeat(117));
    for name in ["easel/a.v1", "easel/a.v0", &long] {
        let refused = published.publish(&id(name), "x".into(), ids(&[]), at(0));
        assert_eq!(refused, Err(PublishError::Name(id(name))));
    }
    for name in ["easel/a.v1b", "easel/v2", "easel/a-v2", &long[..122]] {
        publish(&published, name, "x", &[]);
    }
}

#[test]
fn withdrawn_versions_make_room_after_a_day() {
    let version = |number: u32, withdrawn_at| PublishedVersion {
        model: id("easel/a"),
        version: number,
        text: number.to_string().into(),
        calls: ids(&[]),
        published_at: at(0),
        withdrawn_at,
    };
    let most = u32::try_from(MOST_VERSIONS).expect("it is small");
    let all = (1..=most).map(|number| match number {
        7 => version(number, Some(at(20))),
        9 => version(number, Some(at(10))),
        _ => version(number, None),
    });
    let published = Published::new(1, all);
    let day = 24 * 60 * 60;
    let publish = |bytes: usize, second| {
        let text = "x".repeat(bytes);
        let made = published.publish(&id("easel/b"), text.into(), ids(&[]), at(second));
        match made {
            Ok(Publication::New(change)) => Ok(change.forget),
            Ok(Publication::Unchanged(_)) => panic!("it is new"),
            Err(error) => Err(error),
        }
    };
    assert_eq!(publish(1, day + 9), Err(PublishError::Full));
    assert_eq!(publish(1, day + 20), Ok(vec![(id("easel/a"), 9)]));
    assert_eq!(publish(MOST_TEXT_BYTES, day + 20), Err(PublishError::Full));
}
