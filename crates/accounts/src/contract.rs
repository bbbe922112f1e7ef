//! What every account store must do, written once and run on each.

mod budgets;
mod credits;
mod interleaving;
mod keys;
mod replicas;
mod scoped_budgets;
mod sessions;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Account, AccountAdmin, AccountChange, AccountId, AccountQuery, AccountState, Accounts,
    AdminError, Principal, Tier,
};

pub use interleaving::{Dice, either, either_seen};
pub use replicas::replicas;
pub use sessions::{SessionPorts, sessions};

/// The two ports of one store.
#[derive(Clone)]
pub struct Ports {
    /// What requests ask.
    pub accounts: Arc<dyn Accounts>,
    /// What operators change it through.
    pub admin: Arc<dyn AccountAdmin>,
}

/// Runs every rule, each on a fresh store whose installation gives the tier that it is handed.
///
/// # Panics
/// If the store breaks a rule.
pub async fn accounts(fresh: impl Fn(Tier) -> Ports) {
    let fresh = || fresh(Tier::standard());
    a_created_account_is_found_and_no_other_is(&fresh()).await;
    an_id_is_taken_once(&fresh()).await;
    a_change_counts_from_the_next_look_on(&fresh()).await;
    changes_of_what_is_not_there_are_refused(&fresh()).await;
    accounts_are_paged_in_the_order_of_their_ids(&fresh()).await;
    other_defaults_count_where_an_account_has_no_limit_of_its_own(&fresh()).await;
    keys::rules(&fresh).await;
    credits::rules(&fresh).await;
    budgets::rules(&fresh).await;
    scoped_budgets::rules(&fresh).await;
}

/// A time of the suites: seconds after their start.
fn at(seconds: i64) -> Timestamp {
    let start = Timestamp::from_second(1_750_000_000).expect("in range");
    let by = SignedDuration::from_secs(seconds);
    start.checked_add(by).expect("in range")
}

fn id(name: &str) -> AccountId {
    name.parse().expect("the suites use valid ids")
}

/// Adds an account, and answers its id.
async fn account(store: &Ports, name: &str) -> AccountId {
    let account = Account::new(id(name), (&id(name)).into(), at(0));
    store.admin.create(account).await.expect("the id is free");
    id(name)
}

async fn change(store: &Ports, id: &AccountId, changes: &[AccountChange]) -> Account {
    let changed = store.admin.change(id, changes.to_vec()).await;
    changed.expect("the account is there")
}

async fn principal(store: &Ports, id: &AccountId) -> Option<Principal> {
    let principal = store.accounts.by_id(id).await;
    principal.expect("the store answers")
}

async fn a_created_account_is_found_and_no_other_is(store: &Ports) {
    let acme = account(store, "acme").await;
    let expected = Principal::full(acme.clone(), Tier::standard());
    assert_eq!(principal(store, &acme).await, Some(expected));
    assert_eq!(principal(store, &id("acme2")).await, None);
    let views = store.admin.accounts(&AccountQuery::One(acme.clone())).await;
    let views = views.expect("the store answers");
    assert_eq!(views.len(), 1);
    assert_eq!(
        views[0].account,
        Account::new(acme.clone(), (&acme).into(), at(0))
    );
    let nobody = store.admin.accounts(&AccountQuery::One(id("acme2"))).await;
    assert_eq!(nobody.expect("the store answers"), []);
}

async fn an_id_is_taken_once(store: &Ports) {
    let acme = account(store, "acme").await;
    change(store, &acme, &[AccountChange::Streams(Some(7))]).await;
    let again = Account::new(acme.clone(), (&acme).into(), at(1));
    let refused = store.admin.create(again).await;
    assert!(matches!(refused, Err(AdminError::Taken)));
    let kept = principal(store, &acme).await.expect("it is there");
    assert_eq!(kept.tier.streams, 7);
}

async fn other_defaults_count_where_an_account_has_no_limit_of_its_own(store: &Ports) {
    let (acme, fixed) = (account(store, "acme").await, account(store, "fixed").await);
    change(store, &fixed, &[AccountChange::Streams(Some(7))]).await;
    let mut defaults = Tier::standard();
    (defaults.streams, defaults.queued_jobs) = (2, 3);
    defaults.router.concurrent_calls = 4;
    store.admin.set_defaults(defaults.clone());
    // An account that comes later has them, too.
    let later = account(store, "later").await;
    for (id, streams) in [(&acme, 2), (&fixed, 7), (&later, 2)] {
        let seen = principal(store, id).await.expect("it is there").tier;
        let expected = Tier {
            streams,
            ..defaults.clone()
        };
        assert_eq!(*seen, expected, "{id}");
        let views = store.admin.accounts(&AccountQuery::One(id.clone())).await;
        assert_eq!(views.expect("the store answers")[0].tier, expected, "{id}");
    }
    let kept = change(store, &fixed, &[]).await;
    assert_eq!(kept.limits.queued_jobs, None, "no row says it");
}

/// Every field that a request can see.
async fn a_change_counts_from_the_next_look_on(store: &Ports) {
    let acme = account(store, "acme").await;
    let windows = crate::RateWindow::read_list("5/1m,100/1d").expect("windows");
    let models: crate::Entitlements = "bfl/*,fal/a".parse().expect("patterns");
    let hour = SignedDuration::from_hours(1);
    let changes = [
        AccountChange::Name("Acme Inc.".parse().expect("a name")),
        AccountChange::Subscribed(false),
        AccountChange::Router(false),
        AccountChange::Billed(true),
        AccountChange::ConcurrentJobs(Some(1)),
        AccountChange::QueuedJobs(Some(2)),
        AccountChange::Streams(Some(0)),
        AccountChange::UploadBytes(Some(u64::from(u32::MAX) + 1)),
        AccountChange::UploadRetention(Some(hour)),
        AccountChange::JobRetention(Some(hour * 2)),
        AccountChange::ConcurrentCalls(Some(3)),
        AccountChange::CommittedSpendCents(Some(4)),
        AccountChange::Budgets(Some("500/hour,7/month".parse().expect("budgets"))),
        AccountChange::RateWindows(Some(windows.clone())),
        AccountChange::Submissions(Some(windows.clone())),
        AccountChange::StoredBytes(Some(7)),
        AccountChange::Entitlements(Some(models.clone())),
        AccountChange::KeepResults(Some(true)),
    ];
    let changed = change(store, &acme, &changes).await;
    let mut expected = Account::new(acme.clone(), (&acme).into(), at(0));
    changes
        .into_iter()
        .for_each(|change| expected.apply(change));
    assert_eq!(changed, expected);
    assert_eq!(change(store, &acme, &[]).await, expected, "a look");

    let seen = principal(store, &acme).await.expect("it is active");
    assert_eq!(
        (seen.subscribed, seen.router, seen.billed),
        (false, false, true)
    );
    assert_eq!(*seen.tier, Tier::standard().with(&expected.limits));
    assert_eq!(seen.tier.router.windows, windows);
    assert_eq!(
        (&seen.tier.submissions, seen.tier.stored_bytes),
        (&windows, 7)
    );
    assert_eq!(seen.tier.router.entitlements, models);

    let suspended = AccountChange::State(AccountState::Suspended);
    change(store, &acme, &[suspended, AccountChange::Streams(None)]).await;
    assert_eq!(principal(store, &acme).await, None);
    let resumed = AccountChange::State(AccountState::Active);
    change(store, &acme, &[resumed]).await;
    let seen = principal(store, &acme).await.expect("it is active again");
    assert_eq!(seen.tier.streams, Tier::standard().streams);
}

async fn changes_of_what_is_not_there_are_refused(store: &Ports) {
    let refused = store.admin.change(&id("nobody"), vec![]).await;
    assert!(matches!(refused, Err(AdminError::NoAccount)));
    let cause = crate::LedgerRef::Grant(uuid::Uuid::from_u128(1));
    let refused = store.admin.grant(&id("nobody"), cause, 1, at(0)).await;
    assert!(matches!(refused, Err(AdminError::NoAccount)));
}

async fn accounts_are_paged_in_the_order_of_their_ids(store: &Ports) {
    for name in ["c", "a", "d", "b"] {
        account(store, name).await;
    }
    let page = async |after: Option<&str>, limit| {
        let after = after.map(id);
        let page = AccountQuery::Page { after, limit };
        let views = store
            .admin
            .accounts(&page)
            .await
            .expect("the store answers");
        let ids = views.iter().map(|view| view.account.id.to_string());
        ids.collect::<Vec<_>>().concat()
    };
    assert_eq!(page(None, 10).await, "abcd");
    assert_eq!(page(None, 3).await, "abc");
    assert_eq!(page(Some("c"), 3).await, "d");
    assert_eq!(page(Some("d"), 3).await, "");
}
