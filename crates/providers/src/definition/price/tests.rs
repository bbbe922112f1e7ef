//! Prices by table, and what no body can do to them.

use proptest::prelude::*;
use router_core::Price;
use serde_json::{Value, json};

use super::{MAX_CENTS, Pricing, SettleOn};

fn pricing(text: &str) -> Pricing {
    toml::from_str(text).expect("it is well written")
}

fn exact(cents: u64) -> Price {
    Price::Exact { cents }
}

#[test]
fn a_fixed_price_is_rounded_up_to_whole_cents() {
    for (cents, expected) in [("4", 4), ("3.2", 4), ("0.3", 1), ("0", 0), ("7.0000001", 7)] {
        let pricing = pricing(&format!("kind = \"fixed\"\ncents = {cents}"));
        assert_eq!(pricing.quote(&json!({})), exact(expected));
    }
}

#[test]
fn units_are_counted_in_the_body() {
    let pricing = pricing(
        "kind = \"per_unit\"\ncents = 2.5\nunits = { pointer = \"/n\", default = 1 }\nunknown_hold_cents = 99",
    );
    assert_eq!(pricing.quote(&json!({})), exact(3));
    assert_eq!(pricing.quote(&json!({"n": null})), exact(3));
    assert_eq!(pricing.quote(&json!({"n": 4})), exact(10));
    assert_eq!(pricing.quote(&json!({"n": "4"})), exact(10));
    assert_eq!(pricing.quote(&json!({"n": -4})), exact(0));
    let unknown = Price::Unknown { hold_cents: 99 };
    assert_eq!(pricing.quote(&json!({"n": "many"})), unknown);
    assert_eq!(pricing.quote(&json!({"n": [4]})), unknown);
    // A body that asks for more than there is money does not become cheap.
    assert_eq!(pricing.quote(&json!({"n": 1e300})), exact(MAX_CENTS as u64));
}

#[test]
fn a_table_is_read_from_the_top() {
    let pricing = pricing(
        r#"
        kind = "table"
        unknown_hold_cents = 200
        [[rows]]
        when = [
            { pointer = "/resolution", is = ["1080p"] },
            { pointer = "/duration", is = [10] },
        ]
        cents = 150
        [[rows]]
        when = [{ pointer = "/resolution", is = ["720p", "1080p"], or_absent = true }]
        cents = 50
        "#,
    );
    assert_eq!(
        pricing.quote(&json!({"resolution": "1080p", "duration": 10})),
        exact(150)
    );
    assert_eq!(
        pricing.quote(&json!({"resolution": "1080p", "duration": 5})),
        exact(50)
    );
    assert_eq!(pricing.quote(&json!({})), exact(50));
    let unknown = Price::Unknown { hold_cents: 200 };
    assert_eq!(pricing.quote(&json!({"resolution": "8k"})), unknown);
}

#[test]
fn a_formula_takes_numbers_words_and_counts() {
    let pricing = pricing(
        r#"
        kind = "formula"
        formula = "ceil(seconds) * rate + pictures * 2"
        unknown_hold_cents = 500
        [values]
        seconds = { pointer = "/duration", default = 5 }
        rate = { pointer = "/quality", default = 10, words = { std = 10, pro = 16.5 } }
        pictures = { pointer = "/images", default = 0, count = true }
        "#,
    );
    assert_eq!(pricing.quote(&json!({})), exact(50));
    let body = json!({"duration": 4.2, "quality": "pro", "images": ["a", "b"]});
    assert_eq!(pricing.quote(&body), exact(87));
    let unknown = Price::Unknown { hold_cents: 500 };
    assert_eq!(pricing.quote(&json!({"quality": "ultra"})), unknown);
}

#[test]
fn the_partner_has_the_last_word_where_it_tells_the_price() {
    let pricing = pricing(
        "kind = \"fixed\"\ncents = 4\nsettle = { pointer = \"/credits\", cents_per_unit = 0.1 }",
    );
    let estimated = Price::Estimated {
        min_cents: 4,
        max_cents: 4,
    };
    assert_eq!(pricing.quote(&json!({})), estimated);
    let settled = |answer: Value| pricing.settled(SettleOn::Result, &answer);
    assert_eq!(settled(json!({"credits": 80})), Some(8));
    assert_eq!(settled(json!({"credits": 81})), Some(9));
    assert_eq!(settled(json!({"credits": -1})), None);
    assert_eq!(settled(json!({})), None);
    assert_eq!(
        pricing.settled(SettleOn::Submit, &json!({"credits": 80})),
        None
    );
}

#[test]
fn amounts_of_several_places_add_up_before_they_are_rounded() {
    let pricing = pricing(
        "kind = \"between\"\nmin_cents = 0\nmax_cents = 90\n\
         settle = [{ pointer = \"/usage/in\", cents_per_unit = 0.3 }, { pointer = \"/usage/out\", cents_per_unit = 1.4 }]",
    );
    let settled = |answer: Value| pricing.settled(SettleOn::Result, &answer);
    assert_eq!(settled(json!({"usage": {"in": 1, "out": 2}})), Some(4));
    assert_eq!(settled(json!({"usage": {"out": 2}})), Some(3));
    assert_eq!(settled(json!({"usage": {}})), None);
}

#[test]
fn a_price_that_could_not_be_found_is_refused() {
    for text in [
        "kind = \"fixed\"",
        "kind = \"fixed\"\ncents = -1",
        "kind = \"fixed\"\ncents = nan",
        "kind = \"fixed\"\ncents = 1\nformula = \"2\"",
        "kind = \"unknown\"",
        "kind = \"between\"\nmin_cents = 5\nmax_cents = 4",
        "kind = \"formula\"\nformula = \"n * 2\"\nunknown_hold_cents = 1",
        "kind = \"per_unit\"\ncents = 1\nunits = { pointer = \"/n\" }",
        "kind = \"free\"",
    ] {
        assert!(toml::from_str::<Pricing>(text).is_err(), "{text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.eE+-]{0,12}".prop_map(Value::from),
        Just(json!("inf")),
        Just(json!("NaN")),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,8}", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_has_a_price_within_bounds(n in any_json(), body in any_json()) {
        let pricing = pricing(
            "kind = \"formula\"\nformula = \"n * 3 / n\"\nunknown_hold_cents = 7\n\
             [values]\nn = { pointer = \"/n\", default = 1 }",
        );
        for body in [json!({"n": n}), body] {
            prop_assert!(pricing.quote(&body).hold_cents() <= MAX_CENTS as u64);
        }
    }
}
