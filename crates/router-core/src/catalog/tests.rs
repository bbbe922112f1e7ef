//! Pages, look-ups, suggestions and swaps.

use accounts::Entitlements;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    ChargesOnPolicyRejection, Collected, Contact, Failure, Handle, ModelDefinition, Price,
    Provider, Submission, Submitted,
};

/// Runs nothing: a view of the catalog needs only ids.
pub(crate) struct Idle;

#[async_trait]
impl Provider for Idle {
    async fn submit(&self, _: Submission) -> Result<Submitted, Failure> {
        unreachable!("nothing is submitted here")
    }

    async fn collect(&self, _: &Handle, _: &Contact) -> Result<Collected, Failure> {
        unreachable!("nothing is collected here")
    }

    async fn cancel(&self, _: &Handle) {}

    fn price(&self, _: &Value) -> Price {
        Price::Exact { cents: 0 }
    }
}

/// A model without a schema.
pub(crate) fn model(id: &str) -> Arc<Model> {
    let definition = ModelDefinition {
        id: id.parse().expect(id),
        charges_on_policy_rejection: ChargesOnPolicyRejection::Unknown,
        form: crate::ModelForm::default(),
        input_schema: None,
        polling: None,
        alternates: Vec::new(),
        provider: Arc::new(Idle),
    };
    Arc::new(Model::new(definition).expect("an open schema"))
}

fn catalog(ids: &[&str]) -> Catalog {
    Catalog::new(ids.iter().map(|id| model(id)).collect()).expect("different ids")
}

fn ids(page: &Page) -> Vec<&str> {
    page.models
        .iter()
        .map(|model| model.id().as_str())
        .collect()
}

fn walk(catalog: &Catalog, limit: usize, visible: &Entitlements) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = catalog.page(after.as_ref(), limit, visible);
        assert!(page.models.len() <= limit);
        all.extend(ids(&page).into_iter().map(str::to_owned));
        after = page.models.last().map(|model| model.id().clone());
        if !page.has_more {
            return all;
        }
    }
}

fn suggest(catalog: &Catalog, text: &str) -> Vec<String> {
    let suggested = catalog.suggest(text, &Entitlements::All);
    suggested.iter().map(ToString::to_string).collect()
}

#[test]
fn two_models_have_no_common_id() {
    let doubled = Catalog::new(vec![model("a/b"), model("a/c"), model("a/b")]);
    let id: ModelId = "a/b".parse().expect("a valid id");
    assert_eq!(doubled.map(|_| ()), Err(DuplicateModel(id)));
}

#[test]
fn a_page_tells_whether_another_follows() {
    let catalog = catalog(&["b/b", "a/a", "c/c"]);
    let first = catalog.page(None, 2, &Entitlements::All);
    assert_eq!((ids(&first), first.has_more), (vec!["a/a", "b/b"], true));
    let after = first.models.last().map(|model| model.id());
    let second = catalog.page(after, 2, &Entitlements::All);
    assert_eq!((ids(&second), second.has_more), (vec!["c/c"], false));
    let exact = catalog.page(None, 3, &Entitlements::All);
    assert!(!exact.has_more);
    let behind = catalog.page(
        Some(&"z/z".parse().expect("a valid id")),
        3,
        &Entitlements::All,
    );
    assert_eq!((ids(&behind), behind.has_more), (vec![], false));
}

#[test]
fn only_models_visible_to_the_caller_are_listed() {
    let catalog = catalog(&["a/x", "b/x", "a/y", "c/z"]);
    let visible: Entitlements = "a/*,c/z".parse().expect("patterns");
    assert_eq!(walk(&catalog, 1, &visible), ["a/x", "a/y", "c/z"]);
    let last_visible = catalog.page(None, 3, &visible);
    assert!(!last_visible.has_more, "what is hidden is no further page");
    let nothing: Entitlements = "none".parse().expect("patterns");
    assert_eq!(walk(&catalog, 10, &nothing), Vec::<String>::new());
}

#[test]
fn suggestions_are_up_to_3_near_ids_among_the_visible_ones() {
    let catalog = catalog(&[
        "bfl/flux-2-pro",
        "bfl/flux-2",
        "bfl/flux-2-dev",
        "bfl/flux-1",
        "xai/grok-video",
    ]);
    assert_eq!(
        suggest(&catalog, "bfl/flux-2-por"),
        ["bfl/flux-2-pro", "bfl/flux-2-dev", "bfl/flux-2"]
    );
    assert_eq!(suggest(&catalog, "XAI/Grok-Video"), ["xai/grok-video"]);
    assert_eq!(
        suggest(&catalog, "blackforest/flux-2-dev")[0],
        "bfl/flux-2-dev"
    );
    assert_eq!(suggest(&catalog, "bfl/flux-1/ultra")[0], "bfl/flux-1");
    assert_eq!(
        suggest(&catalog, "nothing/like-any-of-these-at-all"),
        Vec::<String>::new()
    );
    for odd in ["", "/", "ä/ö", &"é".repeat(500), &"x/".repeat(5_000)] {
        suggest(&catalog, odd);
    }
    let visible: Entitlements = "xai/*".parse().expect("patterns");
    assert_eq!(catalog.suggest("bfl/flux-2", &visible), []);
}

#[test]
fn a_model_that_a_reload_removed_stays_callable_for_ten_minutes() {
    let live = LiveCatalog::new(catalog(&["a/a", "b/b"]));
    let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
    let gone: ModelId = "b/b".parse().expect("a valid id");
    live.replace(catalog(&["a/a"]), at(0));
    assert_eq!(walk(&live.current(), 10, &Entitlements::All), ["a/a"]);
    assert!(live.find(&gone, at(9)).is_some());
    // Another reload meanwhile does not shorten or extend it.
    live.replace(catalog(&["a/a", "c/c"]), at(9));
    assert!(live.find(&gone, at(9)).is_some());
    assert!(live.find(&gone, at(10)).is_none());
    live.replace(catalog(&["b/b"]), at(9));
    live.replace(catalog(&["a/a"]), at(15));
    assert!(
        live.find(&gone, at(24)).is_some(),
        "it was listed again until then"
    );
    assert!(live.find(&gone, at(25)).is_none());
}

proptest! {
    #[test]
    fn a_walk_over_changing_catalogs_never_repeats_a_model_and_misses_none_that_stayed(
        before in prop::collection::btree_set("[a-c]{1,2}/[a-c]{1,3}", 1..40),
        after in prop::collection::btree_set("[a-c]{1,2}/[a-c]{1,3}", 1..40),
        limit in 1_usize..7,
        switch in 0_usize..6,
    ) {
        let of = |ids: &std::collections::BTreeSet<String>| {
            Catalog::new(ids.iter().map(|id| model(id)).collect()).expect("a set")
        };
        let (old, new) = (of(&before), of(&after));
        let (mut seen, mut position): (Vec<String>, Option<ModelId>) = (Vec::new(), None);
        for page in 0.. {
            let catalog = if page < switch { &old } else { &new };
            let page = catalog.page(position.as_ref(), limit, &Entitlements::All);
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            let last = page.models.last().map(|model| model.id().clone());
            position = last.or(position);
            if !page.has_more { break; }
        }
        prop_assert!(seen.is_sorted_by(|a, b| a < b), "{:?}", seen);
        for stayed in before.intersection(&after) {
            // A walk that ended on the old catalog has seen everything of it.
            prop_assert!(seen.contains(stayed), "{} is not in {:?}", stayed, seen);
        }
    }

    #[test]
    fn suggestions_in_a_large_catalog_are_found_without_looking_at_all_of_it(n in 0_usize..3_000) {
        static LARGE: std::sync::LazyLock<Catalog> = std::sync::LazyLock::new(|| {
            let ids = (0..3_000).map(|n| model(&format!("p{}/model-{n}", n % 50)));
            Catalog::new(ids.collect()).expect("different ids")
        });
        let id = format!("p{}/model-{n}", n % 50);
        let suggested = suggest(&LARGE, &format!("{id}x"));
        prop_assert_eq!(&suggested[0], &id);
        prop_assert!(suggested.len() <= 3);
    }
}
