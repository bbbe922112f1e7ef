//! What a caller sees of the catalog.

use std::sync::Arc;
use std::time::Duration;

use accounts::{Entitlements, MemoryAccounts, Principal, RateWindow, RouterLimits, Scopes, Tier};
use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::catalog::tests::{Idle, model};
use crate::{Bucket, Catalog, CursorKey, MemoryCalls, MemoryQuota, OwnerId, SequentialAdmissions};

#[async_trait]
impl Timer for Idle {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    async fn sleep(&self, _: Duration) {}
}

impl BlockingPool for Idle {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

fn catalog(ids: impl IntoIterator<Item = String>) -> Catalog {
    Catalog::new(ids.into_iter().map(|id| model(&id)).collect()).expect("different ids")
}

/// What a router answers over a store in memory, which is at once.
trait AtOnce {
    fn list_at_once(
        &self,
        caller: &Principal,
        query: ListQuery<'_>,
        now: Timestamp,
    ) -> Result<ModelPage, RouterError>;

    fn detail_at_once(
        &self,
        caller: &Principal,
        provider: &str,
        model: &str,
        now: Timestamp,
    ) -> Result<Arc<Model>, RouterError>;
}

impl AtOnce for Router {
    fn list_at_once(
        &self,
        caller: &Principal,
        query: ListQuery<'_>,
        now: Timestamp,
    ) -> Result<ModelPage, RouterError> {
        let listed = self.list(caller, query, now).now_or_never();
        listed.expect("memory answers at once")
    }

    fn detail_at_once(
        &self,
        caller: &Principal,
        provider: &str,
        model: &str,
        now: Timestamp,
    ) -> Result<Arc<Model>, RouterError> {
        let found = self.detail(caller, provider, model, now).now_or_never();
        found.expect("memory answers at once")
    }
}

/// A router over `a/m000` and its like.
fn router(models: usize) -> Router {
    let accounts = Arc::new(MemoryAccounts::new());
    let calls = Arc::new(MemoryCalls::new(accounts.clone()));
    let quota = MemoryQuota::new(|_| false);
    let ports = RouterPorts {
        admissions: Arc::new(SequentialAdmissions {
            accounts: accounts.clone(),
            quota: quota.clone(),
            calls: calls.clone(),
        }),
        calls: calls.clone(),
        queue: calls,
        quota: Arc::new(quota),
        accounts,
        timer: Arc::new(Idle),
        threads: Arc::new(Idle),
    };
    let config = RouterConfig {
        deadline: Duration::from_secs(600),
        give_up_after: Duration::from_secs(3600),
        queue_time: RouterConfig::QUEUE_TIME,
        queue_bounds: RouterConfig::QUEUE_BOUNDS,
        cursor_key: CursorKey::derived_from(b"secret"),
        owner: OwnerId(uuid::Uuid::from_u128(1)),
        lease: RouterConfig::LEASE,
    };
    let ids = (0..models).map(|n| format!("a/m{n:03}"));
    Router::new(ports, LiveCatalog::new(catalog(ids)), config)
}

fn caller(router: RouterLimits) -> Principal {
    let tier = Tier {
        router,
        ..Tier::standard()
    };
    Principal::full("acme".parse().expect("a valid id"), tier)
}

fn anybody() -> Principal {
    caller(RouterLimits::standard())
}

fn entitled(patterns: &str) -> Principal {
    let entitlements: Entitlements = patterns.parse().expect("patterns");
    caller(RouterLimits {
        entitlements,
        ..RouterLimits::standard()
    })
}

fn at(hours: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)
}

fn list(router: &Router, limit: &[&str], cursor: &[&str]) -> Result<ModelPage, RouterError> {
    router.list_at_once(&anybody(), ListQuery { limit, cursor }, at(0))
}

#[test]
fn a_walk_by_cursors_lists_every_model_once() {
    let router = router(250);
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let given: Vec<&str> = cursor.iter().map(String::as_str).collect();
        let page = list(&router, &["100"], &given).expect("a page");
        assert_eq!(page.limit, 100);
        assert_eq!(
            page.has_more,
            page.next_cursor.is_some(),
            "absent on the last page"
        );
        seen.extend(
            page.models
                .iter()
                .map(|model| model.id().as_str().to_owned()),
        );
        let Some(next) = page.next_cursor else { break };
        cursor = Some(next);
    }
    let all: Vec<String> = (0..250).map(|n| format!("a/m{n:03}")).collect();
    assert_eq!(seen, all);
}

#[test]
fn the_page_size_is_echoed_as_it_was_used() {
    let router = router(3);
    for (limit, used) in [
        (&[][..], 20),
        (&["0"], 20),
        (&["-7"], 20),
        (&["2"], 2),
        (&["1000"], 100),
    ] {
        assert_eq!(
            list(&router, limit, &[]).expect("a page").limit,
            used,
            "{limit:?}"
        );
    }
    for limit in [&["x"][..], &[""], &["1", "2"]] {
        let refused = list(&router, limit, &[]).expect_err("no integer");
        assert_eq!(refused.bucket(), Bucket::InvalidInput, "{limit:?}");
    }
}

#[test]
fn a_bad_cursor_is_never_a_silent_first_page() {
    let router = router(3);
    let page = list(&router, &["1"], &[]).expect("a page");
    let good = page.next_cursor.expect("more follow");
    list(&router, &["1"], &[&good]).expect("it is good");
    for cursor in [&[""][..], &["x"], &[&good[1..]], &[&good, &good]] {
        let refused = list(&router, &["1"], cursor).expect_err("no cursor");
        assert_eq!(refused.bucket(), Bucket::InvalidInput, "{cursor:?}");
    }
    let late = router.list_at_once(
        &anybody(),
        ListQuery {
            limit: &[],
            cursor: &[&good],
        },
        at(24),
    );
    late.expect_err("it has expired");
}

#[test]
fn a_cursor_is_good_after_a_rebuild_and_repeats_nothing() {
    let router = router(4);
    let page = list(&router, &["2"], &[]).expect("a page");
    let cursor = page.next_cursor.expect("more follow");
    let ids = ["a/m000", "a/m0005", "a/m002", "a/m0025", "b/x"];
    router
        .catalog()
        .replace(catalog(ids.map(str::to_owned)), at(0));
    let page = list(&router, &["10"], &[&cursor]).expect("a page");
    let ids: Vec<&str> = page
        .models
        .iter()
        .map(|model| model.id().as_str())
        .collect();
    assert_eq!(ids, ["a/m002", "a/m0025", "b/x"]);
}

#[test]
fn what_a_caller_may_not_view_is_neither_listed_nor_suggested() {
    let router = router(3);
    let narrow = entitled("a/m001");
    let page = router
        .list_at_once(&narrow, ListQuery::default(), at(0))
        .expect("a page");
    assert_eq!(page.models.len(), 1);
    let refused = router
        .detail_at_once(&narrow, "a", "m000", at(0))
        .expect_err("not entitled");
    assert_eq!(refused.bucket(), Bucket::Forbidden);
    let unknown = router
        .detail_at_once(&narrow, "a", "m0001", at(0))
        .expect_err("unknown");
    let RouterError::ModelNotFound { suggestions, .. } = unknown else {
        panic!("{unknown:?}");
    };
    let suggestions: Vec<&str> = suggestions.iter().map(ModelId::as_str).collect();
    assert_eq!(suggestions, ["a/m001"]);
}

#[test]
fn segments_that_do_not_parse_are_model_not_found() {
    let router = router(3);
    for (provider, model) in [
        ("A", "m000"),
        ("a", ".."),
        ("a%2F", "m000"),
        ("", ""),
        (&*"p".repeat(65), "m"),
        ("a", &*"m".repeat(129)),
        ("a", "\u{fffd}"),
    ] {
        let refused = router
            .detail_at_once(&anybody(), provider, model, at(0))
            .expect_err("no id");
        assert_eq!(
            refused.bucket(),
            Bucket::ModelNotFound,
            "{provider}/{model}"
        );
    }
    let variant = router.not_found(&anybody(), "a/m001/pro");
    assert!(
        matches!(&variant, RouterError::ModelNotFound { suggestions, .. } if suggestions[0].as_str() == "a/m001"),
        "{variant:?}"
    );
}

#[test]
fn reads_count_in_the_rate_windows_and_need_the_scope_but_no_subscription() {
    let router = router(1);
    let limited = caller(RouterLimits {
        windows: RateWindow::read_list("1/1h").expect("windows"),
        ..RouterLimits::standard()
    });
    router
        .list_at_once(&limited, ListQuery::default(), at(0))
        .expect("its first");
    let refused = router
        .detail_at_once(&limited, "a", "m000", at(0))
        .expect_err("its second");
    assert_eq!(refused.bucket(), Bucket::RateLimited);
    let lapsed = Principal {
        subscribed: false,
        ..anybody()
    };
    router
        .detail_at_once(&lapsed, "a", "m000", at(0))
        .expect("looking is free");
    let without = Principal {
        scopes: Scopes::NONE,
        ..anybody()
    };
    let refused = router
        .detail_at_once(&without, "a", "m000", at(0))
        .expect_err("no scope");
    assert_eq!(refused.bucket(), Bucket::Forbidden);
    let disabled = Principal {
        router: false,
        ..anybody()
    };
    let refused = router
        .detail_at_once(&disabled, "a", "m000", at(0))
        .expect_err("switched off");
    assert_eq!(refused.bucket(), Bucket::NotEnabled);
}

#[test]
fn a_model_that_is_switched_off_is_not_listed_and_says_so_when_it_is_called() {
    let router = router(3);
    let off: ModelId = "a/m001".parse().expect("an id");
    let switched = || {
        let rest = catalog(["a/m000".to_owned(), "a/m002".to_owned()]);
        rest.withholding([(off.clone(), Withheld::SwitchedOff(model("a/m001")))])
    };
    router.catalog().replace(switched(), at(0));
    let page = list(&router, &[], &[]).expect("a page");
    let ids: Vec<_> = page
        .models
        .iter()
        .map(|model| model.id().as_str())
        .collect();
    assert_eq!(ids, ["a/m000", "a/m002"]);
    // At once: what a reload removes can be called for ten minutes, what is switched off cannot.
    let told = router.detail_at_once(&anybody(), "a", "m001", at(0));
    assert!(matches!(told, Err(RouterError::SwitchedOff)), "{told:?}");
    let told = router.detail_at_once(&entitled("b/*"), "a", "m001", at(0));
    assert!(matches!(told, Err(RouterError::Forbidden(_))), "{told:?}");
    assert!(router.catalog().current().runnable(&off).is_some());
    let all = (0..3).map(|n| format!("a/m{n:03}"));
    router.catalog().replace(catalog(all), at(0));
    router
        .detail_at_once(&anybody(), "a", "m001", at(0))
        .expect("on");
}

#[test]
fn what_a_partner_lacks_is_told_to_the_operator_alone() {
    let router = router(1);
    let lacks = Withheld::NoCredentials("BFL_API_KEY is not set".to_owned());
    let id: ModelId = "bfl/flux-2".parse().expect("an id");
    let offered = catalog(["a/m000".to_owned()]).withholding([(id, lacks)]);
    router.catalog().replace(offered, at(0));
    let told = |caller: &Principal| match router.detail_at_once(caller, "bfl", "flux-2", at(0)) {
        Err(RouterError::ModelNotFound { lacks, .. }) => lacks,
        other => panic!("{other:?}"),
    };
    let operator = anybody();
    assert!(operator.scopes.allow(Scope::Admin));
    assert_eq!(told(&operator).as_deref(), Some("BFL_API_KEY is not set"));
    let ordinary = Principal {
        scopes: Scopes::standard(),
        ..anybody()
    };
    assert_eq!(told(&ordinary), None);
}

#[test]
fn an_operator_reads_records_where_the_router_is_switched_off() {
    let router = router(1);
    let off = |scopes| Principal {
        router: false,
        scopes,
        ..anybody()
    };
    let looks = |scopes| {
        let caller = off(scopes);
        let opened = router.open_record(&caller, at(0)).now_or_never();
        opened.expect("memory answers at once")
    };
    looks(Scopes::all()).expect("an operator");
    let refused = looks(Scopes::standard()).expect_err("it is switched off");
    assert_eq!(refused.bucket(), Bucket::NotEnabled);
}
