//! Estimates against bills: every priced model of the catalog, with the documented body and with others that its schema takes.

use std::collections::BTreeMap;
use std::io::Write;

use it::partners::sheets;
use it::random::Random;
use router_core::{Charge, Price};
use serde_json::{Value, json};

use super::Bench;

/// Calls of each model, unless `EASEL_ESTIMATES` says otherwise.
const CALLS: u64 = 2;

/// Changes that are made to a body, at most.
const CHANGES: u64 = 4;

#[tokio::test]
async fn bills_differ_from_estimates_by_what_the_definition_says() {
    let calls = std::env::var("EASEL_ESTIMATES").ok();
    let calls = calls.map_or(CALLS, |calls| calls.parse().expect("a number"));
    let bench = Bench::start().await;
    let mut random = Random::of(22);
    let mut seen = Seen::default();
    for sheet in sheets() {
        for example in sheet.calls.iter().flat_map(|call| &call.examples) {
            let id = &*example.id;
            let places = places(&bench, id);
            let body: Value = serde_json::from_str(&example.body).expect(id);
            let documented = bench.run(id, &example.body).await.expect(id).charge;
            let first = bench.provider(id).price(&body);
            assert_promised(id, &body, first, documented, documented);
            let mut prices = vec![first];
            for _ in 0..calls {
                let other = changed(&bench, (id, &places), &body, &mut random);
                let price = bench.provider(id).price(&other);
                let text = other.to_string();
                let done = bench.run(id, &text).await;
                let done = done.unwrap_or_else(|failure| panic!("{id}: {text}: {failure:?}"));
                assert_promised(id, &other, price, done.charge, documented);
                // Nothing but the body decides.
                assert_eq!(bench.provider(id).price(&other), price, "{id}: {text}");
                prices.push(price);
            }
            seen.add(&prices);
        }
    }
    seen.tell();
    let kinds: Vec<&str> = seen.kinds.keys().copied().collect();
    assert_eq!(kinds, ["estimated", "exact", "unknown"]);
    assert!(seen.follow_the_body > 5, "{seen:?}");
}

/// Holds a bill against its estimate. What the simulated partner says that it took is what it says of the documented body.
fn assert_promised(id: &str, body: &Value, price: Price, charge: Charge, documented: Charge) {
    let told = format!("{id}: {body}: {price:?}, {charge:?}");
    match price {
        // To the cent, whatever the partner says.
        Price::Exact { cents } => assert_eq!(charge.cents(price.hold_cents()), cents, "{told}"),
        Price::Estimated {
            min_cents,
            max_cents,
        } => {
            assert!(min_cents <= max_cents, "{told}");
            match charge {
                Charge::AsHeld => assert_eq!(charge.cents(price.hold_cents()), max_cents, "{told}"),
                // The partner has the last word, and nobody else.
                Charge::Cents(_) => assert_eq!(charge, documented, "{told}"),
            }
        }
        Price::Unknown { hold_cents } => assert!(hold_cents > 0, "{told}"),
    }
}

/// A member of a body, and what may stand there.
struct Place {
    names: Vec<String>,
    schema: Value,
}

/// The members that the schema of a model names, those of objects in it too.
fn places(bench: &Bench, id: &str) -> Vec<Place> {
    let document = bench.model(id).model.document();
    let document: Value = serde_json::from_slice(document.bytes()).expect(id);
    let operation = &document["paths"][format!("/v1/models/{id}")]["post"];
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let mut places = Vec::new();
    collect(&document, schema, &mut Vec::new(), &mut places);
    places
}

fn collect(document: &Value, schema: &Value, names: &mut Vec<String>, places: &mut Vec<Place>) {
    let referred = schema["$ref"].as_str().and_then(|at| at.strip_prefix('#'));
    let schema = match referred {
        Some(at) => document.pointer(at).expect("it is in the document"),
        None => schema,
    };
    // A schema may refer to itself.
    let properties = schema["properties"].as_object().filter(|_| names.len() < 4);
    // A stream is another answer of the partner, with usage of its own.
    let others = properties.into_iter().flatten();
    for (name, of) in others.filter(|(name, _)| *name != "stream") {
        names.push(name.clone());
        collect(document, of, names, places);
        names.pop();
    }
    if !names.is_empty() {
        places.push(Place {
            names: names.clone(),
            schema: schema.clone(),
        });
    }
}

/// The body with some of its members changed, as the schema of the model allows.
fn changed(
    bench: &Bench,
    (id, places): (&str, &[Place]),
    body: &Value,
    random: &mut Random,
) -> Value {
    let document = bench.model(id).model.document();
    let mut whole = body.clone();
    for _ in 0..=random.below(CHANGES) {
        let Some(place) = random.pick(places) else {
            return whole;
        };
        let Some(value) = any(&place.schema, random) else {
            continue;
        };
        let mut other = whole.clone();
        let mut at = Some(&mut other);
        for name in &place.names {
            at = at.filter(|at| at.is_object() || at.is_null());
            at = at.map(|at| &mut at[name.as_str()]);
        }
        if let Some(at) = at {
            *at = value;
        }
        if document.violations(&other).is_empty() {
            whole = other;
        }
    }
    whole
}

/// A value that a simple schema takes; `None` for others.
fn any(schema: &Value, random: &mut Random) -> Option<Value> {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return random.pick(choices).cloned();
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(several).and_then(Value::as_array) {
            return any(random.pick(choices)?, random);
        }
    }
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    match schema.get("type")?.as_str()? {
        "boolean" => Some(json!(random.one_in(2))),
        "integer" | "number" => {
            let least = bound("minimum")?;
            let most = bound("maximum")?;
            let span = u64::try_from(most.checked_sub(least)?).ok()?;
            let above = i64::try_from(random.below(span.checked_add(1)?)).ok()?;
            Some(json!(least.checked_add(above)?))
        }
        _ => None,
    }
}

/// What a run has seen.
#[derive(Debug, Default)]
struct Seen {
    /// Calls by the kind of their estimate.
    kinds: BTreeMap<&'static str, usize>,
    models: usize,
    /// Models with several prices among the bodies that were tried.
    follow_the_body: usize,
}

impl Seen {
    fn add(&mut self, prices: &[Price]) {
        for price in prices {
            let kind = match price {
                Price::Exact { .. } => "exact",
                Price::Estimated { .. } => "estimated",
                Price::Unknown { .. } => "unknown",
            };
            *self.kinds.entry(kind).or_default() += 1;
        }
        self.models += 1;
        self.follow_the_body += usize::from(prices.iter().any(|price| *price != prices[0]));
    }

    /// Says it, past the capture of test output.
    fn tell(&self) {
        let calls: usize = self.kinds.values().sum();
        let _ = writeln!(
            std::io::stderr(),
            "estimates: {calls} calls of {} models, {:?}; {} have prices that follow the body",
            self.models,
            self.kinds,
            self.follow_the_body,
        );
    }
}
