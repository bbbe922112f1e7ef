//! What every store must answer as the store of an installation, written once and run on each.

use accounts::{Account, AccountId, AccountQuery, Tier};
use asset_store::{BlobHash, Link, LinkKeys};
use jiff::Timestamp;

mod replicas;
mod transfers;

pub use replicas::{Replica, replicas};
pub use transfers::transfers;

use crate::{Installation, InstallationStore, OpenOptions, ReserveOptions, Turns, Work};

/// Runs every rule on the installation of `store`, which must be new.
///
/// # Panics
/// At the assertion that states the broken rule.
pub async fn installation_store(store: &dyn InstallationStore) {
    what_one_opening_wrote_the_next_one_finds(store).await;
    the_last_two_link_keys_verify_and_the_secret_stays(store).await;
    a_new_installation_is_healthy(store).await;
}

/// Runs the rules of turns on two handles of one new installation.
///
/// # Panics
/// At the assertion that states the broken rule.
pub async fn turns(one: &dyn Turns, other: &dyn Turns) {
    let at = |second| Timestamp::from_second(second).expect("in range");
    let take = async |turns: &dyn Turns, work, now, until| {
        let taken = turns.take(work, at(now), at(until)).await;
        taken.expect("an answer")
    };
    assert!(take(one, Work::Assets, 0, 60).await, "it is free");
    assert!(!take(other, Work::Assets, 1, 61).await, "it is taken");
    assert!(
        take(other, Work::Calls, 1, 61).await,
        "each work has its own"
    );
    assert!(take(one, Work::Assets, 50, 110).await, "it can be kept");
    assert!(!take(other, Work::Assets, 60, 120).await, "it was kept");
    let given = other.give_back(Work::Assets).await;
    given.expect("what is another's is left alone");
    assert!(
        !take(other, Work::Assets, 109, 169).await,
        "it is taken still"
    );
    assert!(take(other, Work::Assets, 110, 170).await, "it is over");
    assert!(!take(one, Work::Assets, 111, 171).await, "it went over");
    other
        .give_back(Work::Assets)
        .await
        .expect("it is given back");
    assert!(take(one, Work::Assets, 112, 172).await, "it is free again");
    assert!(take(one, Work::Scrub, 0, 60).await, "nobody had it");
}

async fn open(store: &dyn InstallationStore) -> Installation {
    let options = OpenOptions {
        tier: Tier::standard(),
        reserve: ReserveOptions::NONE,
        fresh: false,
    };
    store.open(options).await.expect("it can be opened")
}

async fn keys(installation: &Installation) -> LinkKeys {
    let keys = installation.keys.link_keys().await;
    keys.expect("the keys can be read")
}

async fn secret(installation: &Installation) -> [u8; 32] {
    let secret = installation.keys.installation_secret().await;
    secret.expect("the secret can be read")
}

fn link() -> Link {
    Link {
        hash: BlobHash::of(b"picture"),
        size_bytes: 7,
        content_type: "image/png".to_owned(),
        file_name: "a.png".to_owned(),
        expires_at: Timestamp::from_second(1_000).expect("in range"),
    }
}

async fn what_one_opening_wrote_the_next_one_finds(store: &dyn InstallationStore) {
    let id: AccountId = "first".parse().expect("an id");
    let first = open(store).await;
    let account = Account::new(id.clone(), (&id).into(), Timestamp::UNIX_EPOCH);
    let created = first.account_admin.create(account).await;
    created.expect("the account is new");
    assert!(store.exists().await, "it is there once it was opened");
    let signed = keys(&first).await.sign(&link());
    let before = secret(&first).await;
    drop(first);

    let second = open(store).await;
    let query = AccountQuery::One(id.clone());
    let found = second.account_admin.accounts(&query).await;
    assert_eq!(found.expect("an answer").len(), 1, "the account is there");
    let principal = second.accounts.by_id(&id).await.expect("an answer");
    assert!(principal.is_some(), "requests find the account");
    let verified = keys(&second)
        .await
        .verify(&signed, "a.png", Timestamp::UNIX_EPOCH);
    assert_eq!(verified, Ok(link()), "links outlive an opening");
    assert_eq!(secret(&second).await, before, "so does the secret");
}

async fn the_last_two_link_keys_verify_and_the_secret_stays(store: &dyn InstallationStore) {
    let installation = open(store).await;
    let before = secret(&installation).await;
    let old = keys(&installation).await.sign(&link());
    let rotate = async || {
        let rotated = installation.keys.rotate_link_keys().await;
        rotated.expect("a new key");
        keys(&installation).await
    };
    let once = rotate().await;
    assert_ne!(once.sign(&link()), old, "the newest key signs");
    let verified = once.verify(&old, "a.png", Timestamp::UNIX_EPOCH);
    assert_eq!(verified, Ok(link()), "the one before it verifies");
    let twice = rotate().await;
    let verified = twice.verify(&old, "a.png", Timestamp::UNIX_EPOCH);
    verified.expect_err("an older one does not");
    assert_eq!(secret(&installation).await, before, "the secret stays");
}

async fn a_new_installation_is_healthy(store: &dyn InstallationStore) {
    let installation = open(store).await;
    installation.health.writable().expect("it is written");
    installation.health.room().expect("nothing is kept back");
    let found = installation.health.check().await.expect("an answer");
    assert_eq!(found, Vec::<String>::new(), "nothing is damaged");
    installation.closing.write_back().await;
    installation.health.writable().expect("writes may follow");
    drop(installation);
    let (_, faults) = store.inspect().await.expect("it is not in use");
    assert_eq!(faults, Vec::<String>::new(), "it is sound");
}
