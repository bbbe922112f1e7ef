//! Mappings by themselves, and those of the catalog: what a body says elsewhere reads back as what the caller wrote, but for what
//! is told as dropped.

use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::json;

use super::*;

fn mapping(text: &str) -> Mapping {
    toml::from_str(text).expect(text)
}

fn names(unsaid: &[Unsaid]) -> Vec<String> {
    unsaid.iter().map(|one| one.told("P")).collect()
}

/// What a body was, as far as the rules tell it from what is said.
fn undone(mapping: &Mapping, said: &Value) -> Value {
    let mut own = Value::Object(Map::new());
    for (place, rule) in mapping.body.iter().enumerate() {
        let Rule::Move { from, to, form, .. } = rule else {
            continue;
        };
        let value = if let Form::Words(_) = form {
            word(mapping, place, said)
        } else {
            let that = at(said, to.segments());
            that.map(|value| form.undone().of(value).unwrap_or_else(|| value.clone()))
        };
        if let Some(value) = value {
            put(&mut own, from.segments(), value, false);
        }
    }
    own
}

/// The one word that everything said of it is said for: several rules may say the parts of one word.
fn word(mapping: &Mapping, place: usize, said: &Value) -> Option<Value> {
    let of = |rule: &Rule| {
        let Rule::Move { from, to, form, .. } = rule else {
            return None;
        };
        let Form::Words(pairs) = form else {
            return None;
        };
        Some((from.clone(), to.clone(), pairs.clone()))
    };
    let (from, _, pairs) = of(&mapping.body[place])?;
    let group: Vec<_> = mapping
        .body
        .iter()
        .filter_map(of)
        .filter(|one| one.0 == from)
        .collect();
    let fits = |word: &Value| {
        group.iter().all(|(_, to, pairs)| {
            let that = pairs.iter().find(|(this, _)| this == word);
            that.is_some_and(|(_, that)| at(said, to.segments()) == Some(that))
        })
    };
    let mut words = pairs.iter().map(|(this, _)| this).filter(|word| fits(word));
    let word = words.next()?;
    assert_eq!(words.next(), None, "one of two words is lost: {word}");
    Some(word.clone())
}

/// A body without what is null, what was told as dropped, and what goes without saying.
fn expected(mapping: &Mapping, body: &Value, dropped: &[Unsaid]) -> Value {
    let mut body = body.clone();
    let mut gone: Vec<Vec<String>> = dropped
        .iter()
        .map(|one| {
            let steps = one.location.iter();
            let text = |step: &ViolationStep| match step {
                ViolationStep::Field(name) => name.clone(),
                ViolationStep::Index(index) => index.to_string(),
            };
            steps.map(text).collect()
        })
        .collect();
    for rule in &mapping.body {
        if let Rule::Implied { from, .. } = rule {
            gone.push(from.segments().to_vec());
        }
    }
    for path in gone {
        let (Some((last, before)), mut place) = (path.split_last(), &mut body) else {
            continue;
        };
        for segment in before {
            if place.is_object() {
                place = &mut place[segment.as_str()];
            } else if let Some(index) = index(segment).filter(|_| place.is_array()) {
                place = &mut place[index];
            }
        }
        if place.is_object() {
            place[last.as_str()] = Value::Null;
        } else if let Some(index) = index(last).filter(|_| place.is_array()) {
            place[index] = Value::Null;
        }
    }
    pruned(body).unwrap_or_else(|| json!({}))
}

/// A value without what is null or empty, and with pictures as their base64 alone.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(members) => {
            let members = members.into_iter();
            let members = members.filter_map(|(name, value)| Some((name, pruned(value)?)));
            let members: Map<String, Value> = members.collect();
            (!members.is_empty()).then_some(Value::Object(members))
        }
        Value::Array(items) => {
            let items: Vec<Value> = items.into_iter().filter_map(pruned).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::String(text) => {
            let picture = text
                .split_once(";base64,")
                .filter(|_| text.starts_with("data:"));
            Some(Value::from(picture.map_or(text.as_str(), |(_, data)| data)))
        }
        other @ (Value::Bool(_) | Value::Number(_)) => Some(other),
    }
}

/// Bodies of a schema: every property may be there, and those that are required are.
fn bodies(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(words) = schema["enum"].as_array() {
        return proptest::sample::select(words.clone()).boxed();
    }
    if let Some(several) = schema["anyOf"].as_array()
        && schema["properties"].is_null()
    {
        return Union::new(several.iter().map(bodies)).boxed();
    }
    let kinds: Vec<&str> = match schema["type"].as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        None => schema["type"].as_str().into_iter().collect(),
    };
    let of = |kind: &&str| -> BoxedStrategy<Value> {
        match *kind {
            "null" => Just(Value::Null).boxed(),
            "boolean" => any::<bool>().prop_map(Value::from).boxed(),
            "integer" => {
                let least = schema["minimum"].as_i64().unwrap_or(0);
                let most = schema["maximum"].as_i64().unwrap_or(least + 4096);
                let step = schema["multipleOf"].as_i64().unwrap_or(1);
                (least.div_euclid(step) + i64::from(least % step != 0)..=most.div_euclid(step))
                    .prop_map(move |number| Value::from(number * step))
                    .boxed()
            }
            "number" => {
                let least = schema["minimum"].as_f64().unwrap_or(0.0);
                let most = schema["maximum"].as_f64().unwrap_or(least + 100.0);
                (least..=most).prop_map(Value::from).boxed()
            }
            "array" => {
                let items = bodies(&schema["items"]);
                let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).expect("few");
                let short = proptest::collection::vec(items.clone(), least..=least);
                let long = proptest::collection::vec(items, least + 1..=least + 2);
                prop_oneof![3 => short, 1 => long]
                    .prop_map(Value::from)
                    .boxed()
            }
            "object" => object(schema),
            _ if schema["pattern"].is_string() => {
                proptest::sample::select(vec!["1:1", "16:9", "9:16", "7:5"])
                    .prop_map(Value::from)
                    .boxed()
            }
            _ => texts(),
        }
    };
    match kinds.is_empty() {
        true => texts(),
        false => Union::new(kinds.iter().map(of)).boxed(),
    }
}

/// Texts that mean something to a rule of the catalog among others.
fn texts() -> BoxedStrategy<Value> {
    let known = [
        "a cat",
        "1024x1024",
        "1536x1024",
        "auto",
        "16:9",
        "1:1",
        "https://example.org/a.png",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJ",
        "data:image/png;base64,iVBORw0KGgo=",
    ];
    let known = proptest::sample::select(known.to_vec());
    prop_oneof![4 => known.prop_map(Value::from), 1 => "[a-z ]{1,5}".prop_map(Value::from)].boxed()
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    let Some(properties) = schema["properties"].as_object() else {
        let other = proptest::collection::btree_map("[a-c]", texts(), 0..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()));
        return prop_oneof![Just(json!({"text": "a cat"})), other].boxed();
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let members: Vec<BoxedStrategy<Option<(String, Value)>>> = properties
        .iter()
        .filter(|(_, schema)| **schema != Value::Bool(false))
        .map(|(name, schema)| {
            let (is_required, name) = (required.contains(&json!(name)), name.clone());
            let member = bodies(schema).prop_map(move |value| Some((name.clone(), value)));
            match is_required {
                true => member.boxed(),
                false => prop_oneof![2 => Just(None), 1 => member].boxed(),
            }
        })
        .collect();
    members
        .prop_map(|members| Value::Object(members.into_iter().flatten().collect()))
        .boxed()
}

#[test]
fn a_body_is_made_of_what_the_rules_take() {
    let mapping = mapping(
        r#"
        body = [
            { to = "/n", value = 1 },
            { from = "/prompt", to = "/input/text" },
            { from = "/n" },
            { from = "/ratio", to = "/size", words = [["1:1", "square"], ["16:9", "wide"]] },
            { from = "/size/width", to = "/width" },
            { from = "/format", value = "png" },
            { from = "/picture", to = "/pictures/0", as = "data_url" },
            { from = "/picture_2", to = "/pictures/1", as = "data_url" },
            { from = "/seed", drop = "takes no seed" },
            { from = "/mask", refuse = "takes no mask" },
        ]
        answer = [{ from = "/url", to = "/result/sample" }]
        "#,
    );
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
    let said = mapping.body(&json!({
        "prompt": "cat", "ratio": "16:9", "size": {"width": 3, "depth": 4}, "format": "png", "picture": png,
        "seed": 7, "unknown": {"a": [1]}, "nothing": null,
    }));
    let expected = json!({"n": 1, "input": {"text": "cat"}, "size": "wide", "width": 3,
        "pictures": [format!("data:image/png;base64,{png}")]});
    assert_eq!(said.body, expected);
    assert_eq!(
        names(&said.dropped),
        [
            "seed (P takes no seed)",
            "size.depth (P has no such field)",
            "unknown (P has no such field)",
        ]
    );
    assert!(said.refused.is_empty());
    let said = mapping.body(&json!({
        "ratio": "7:5", "n": 3, "format": "jpeg", "picture": "no picture", "picture_2": "https://a.test/b", "mask": "m",
    }));
    assert_eq!(said.body, json!({"n": 3}));
    assert_eq!(
        names(&said.dropped),
        [
            "ratio (P has no such value)",
            "format (P always has \"png\" for it)",
            "picture_2 (P takes it only with the one before it)",
        ]
    );
    assert_eq!(
        names(&said.refused),
        [
            "picture (P takes a picture as an address, or as the base64 of a PNG, JPEG, WebP or GIF)",
            "mask (P takes no mask)",
        ]
    );
}

#[test]
fn what_is_left_of_a_refused_part_is_refused() {
    let mapping = mapping(
        r#"
        body = [
            { from = "/contents/0/role", value = "user" },
            { from = "/contents/0/parts/0/text", to = "/prompt" },
            { from = "/contents", refuse = "takes one text alone" },
        ]
        answer = [{ from = "/url", to = "/sample" }]
        "#,
    );
    let one = json!({"contents": [{"role": "user", "parts": [{"text": "cat"}]}]});
    let said = mapping.body(&one);
    assert_eq!(
        (said.body, said.refused),
        (json!({"prompt": "cat"}), Vec::new())
    );
    let mut two = one.clone();
    two["contents"][0]["parts"] = json!([{"text": "cat"}, {"inlineData": {"data": "x"}}]);
    assert_eq!(
        names(&mapping.body(&two).refused),
        ["contents (P takes one text alone)"]
    );
    let mut other = one;
    other["contents"][0]["role"] = json!("model");
    let said = mapping.body(&other);
    assert_eq!(
        names(&said.dropped),
        ["contents[0].role (P always has \"user\" for it)"]
    );
}

#[test]
fn an_answer_is_made_of_what_the_rules_find() {
    let mapping = mapping(
        r#"
        body = [{ from = "/prompt" }]
        answer = [
            { to = "/status", value = "Ready" },
            { from = "/data/*/url", to = "/images/*/link" },
            { from = "/data/*/b64", to = "/images/*/b64", as = "base64" },
            { from = "/data/*/b64", to = "/images/*/address", as = "address" },
            { from = "/id" },
        ]
        "#,
    );
    let answered = |body: &str| {
        let answer = Answer {
            content_type: "text/json".to_owned(),
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        let said = mapping.answer(answer);
        (
            said.content_type,
            String::from_utf8(said.body.to_vec()).expect("text"),
        )
    };
    let json = "application/json".to_owned();
    assert_eq!(
        answered(r#"{"id":7,"data":[{"url":"a"},{"b64":"data:x;base64,QQ=="},{"b64":"https://a.test"}],"cost":1}"#),
        (json, r#"{"status":"Ready","images":[{"link":"a"},{"b64":"QQ=="},{"address":"https://a.test"}],"id":7}"#.to_owned())
    );
    for other in ["no JSON", "[1]", r#"{"else":1}"#] {
        assert_eq!(answered(other), ("text/json".to_owned(), other.to_owned()));
    }
}

#[test]
fn a_rule_that_says_too_much_or_too_little_is_refused() {
    for rule in [
        r#"{ }"#,
        r#"{ from = "prompt" }"#,
        r#"{ to = "/a" }"#,
        r#"{ value = 1 }"#,
        r#"{ from = "/a", to = "/b", value = 1 }"#,
        r#"{ from = "/a", drop = "x", refuse = "y" }"#,
        r#"{ from = "/a", drop = "x", to = "/b" }"#,
        r#"{ from = "/a", words = [["a", "b"]], as = "data_url" }"#,
        r#"{ from = "/a", words = [["a"]] }"#,
        r#"{ from = "/a", as = "jpeg" }"#,
        r#"{ from = "/a", else = 1 }"#,
    ] {
        let text = format!("body = [{rule}]\nanswer = []");
        assert!(toml::from_str::<Mapping>(&text).is_err(), "{rule}");
    }
}

mod catalog;
