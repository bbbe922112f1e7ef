//! Figures against trees of the same texts, whatever the text.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn measured(text: &str) -> (usize, usize, usize) {
    let measure = measure(text.as_bytes());
    (measure.values, measure.depth, measure.longest_text)
}

/// The same figures, from a tree.
fn of_tree(value: &Value) -> (usize, usize, usize) {
    let of_items = |items: &mut dyn Iterator<Item = &Value>| {
        items
            .map(of_tree)
            .fold((1, 0, 0), |all, (values, depth, text)| {
                (all.0 + values, all.1.max(depth), all.2.max(text))
            })
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (1, 0, 0),
        Value::String(text) => (1, 0, text.len()),
        Value::Array(items) => {
            let (values, depth, text) = of_items(&mut items.iter());
            (values, depth + 1, text)
        }
        Value::Object(fields) => {
            let (values, depth, text) = of_items(&mut fields.values());
            let name = fields.keys().map(String::len).max().unwrap_or(0);
            (values, depth + 1, text.max(name))
        }
    }
}

fn spelled(text: &str, piece: usize) -> String {
    let (mut spelling, mut out) = (Spelling::default(), Vec::new());
    while spelling.next(text.as_bytes(), &mut out, piece) {}
    String::from_utf8(out).expect("text stays text")
}

#[test]
fn no_text_that_is_surely_small_is_too_large() {
    for worst in ["{", "[", ",", "[{"] {
        let text = worst.repeat(SURELY_SMALL / worst.len());
        let weight = weigh(text.as_bytes());
        assert!(weight.values <= MOST_VALUES, "{worst} {weight:?}");
        assert!(weight.tree_bytes <= MOST_TREE_BYTES, "{worst} {weight:?}");
    }
}

#[test]
fn values_depth_and_texts_are_counted() {
    for (text, expected) in [
        ("", (0, 0, 0)),
        ("1", (1, 0, 0)),
        (" [ ] ", (1, 1, 0)),
        ("[1, -2.5e3,true , null]", (5, 1, 0)),
        (r#"{"a":{"bc":[]},"d":"efg"}"#, (4, 3, 3)),
        (r#"["a,b:[{", "\"\\,"]"#, (3, 1, 6)),
        (r#"["\u0041\u00e9\u20ac\ud83d\ude00"]"#, (2, 1, 10)),
        // No JSON: no panic.
        ("\"", (1, 0, 0)),
        ("\"\\", (1, 0, 1)),
        ("\"\\u00", (1, 0, 3)),
        (":::]]]", (0, 0, 0)),
    ] {
        assert_eq!(measured(text), expected, "{text}");
    }
}

#[test]
fn a_text_whose_tree_is_too_large_is_refused() {
    let zeros = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
    let fits = zeros(MOST_VALUES - 1);
    assert_eq!(
        weigh_bounded(fits.as_bytes()).map(|weight| weight.values),
        Ok(MOST_VALUES)
    );
    let much = zeros(MOST_VALUES);
    assert_eq!(check(much.as_bytes()), Err(TooLarge::Values));
    // 16 MiB of lists within lists have hardly a comma.
    let nested = "[".repeat(100) + &"]".repeat(100);
    let nested = format!("[{}[]]", format!("{nested},").repeat(20_000));
    assert_eq!(check(nested.as_bytes()), Err(TooLarge::Values));
    let objects = format!("[{}{{}}]", "{\"a\":{}},".repeat(400_000));
    assert_eq!(check(objects.as_bytes()), Err(TooLarge::Tree));
    // What looks like values inside of a text is none.
    let text = format!("[\"{}\"]", ",[{".repeat(1 << 20));
    assert_eq!(
        weigh_bounded(text.as_bytes()).map(|weight| weight.values),
        Ok(2)
    );
}

#[test]
fn a_text_is_spelled_as_a_tree_would_print_it() {
    for text in [
        "{}",
        " [ 1 , 2 ] ",
        "[1.0, 1e3, -0, -0.0, 1.50, 12345678901234567890, 1E-7, -5]",
        r#"{"\u0041": "\/\u00e9\n\u0001\ud83d\ude00", "b c": "x  y"}"#,
        "\"plain\"",
        "\n[true,\tfalse , null]\r\n",
    ] {
        let value: Value = serde_json::from_str(text).expect("valid JSON");
        for piece in [1, 7, 1 << 20] {
            assert_eq!(spelled(text, piece), value.to_string(), "{text}");
        }
    }
}

#[test]
fn whole_numbers_keep_all_their_digits() {
    let text = "[18446744073709551616,-9223372036854775809,123456789012345678901234567890]";
    for piece in [1, 7, 1 << 20] {
        assert_eq!(spelled(text, piece), text);
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            proptest::collection::vec((".{0,4}", inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A text as a client may spell it: with spaces, and with every character that is no ASCII escaped.
fn loosely(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("a value");
    let escape = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            units.map(|unit| format!("\\u{unit:04x}")).collect()
        }
    };
    text.chars().map(escape).collect()
}

proptest! {
    #[test]
    fn a_measure_is_that_of_the_tree(value in values()) {
        for text in [value.to_string(), loosely(&value)] {
            prop_assert_eq!(measured(&text), of_tree(&value));
            let (weight, exact) = (weigh(text.as_bytes()), exact(text.as_bytes()).1);
            prop_assert!(weight.values >= exact.values && weight.tree_bytes >= exact.tree_bytes);
        }
    }

    #[test]
    fn spelling_is_parsing_and_printing(value in values(), piece in 1..64_usize) {
        let text = loosely(&value);
        // A number that is read and printed again may differ in its last digit, but only once.
        let tree: Value = serde_json::from_str(&text).expect("valid JSON");
        prop_assert_eq!(spelled(&text, piece), tree.to_string());
    }

    #[test]
    fn a_tree_is_that_of_the_usual_parser(value in values()) {
        let text = loosely(&value);
        let usual: Value = serde_json::from_str(&text).expect("valid JSON");
        prop_assert_eq!(read_str(&text).expect("valid JSON"), usual.clone());
        prop_assert_eq!(read(text.as_bytes()).expect("valid JSON"), usual);
    }

    #[test]
    fn what_the_usual_parser_refuses_is_refused(text in r#"[\[\]{}",:\\ud83d0-9eE.+ \-ntrue]{0,40}"#) {
        let refused = serde_json::from_str::<Value>(&text).err().map(|error| error.to_string());
        prop_assert_eq!(read_str(&text).err().map(|error| error.to_string()), refused);
    }

    #[test]
    fn no_bytes_make_it_panic(text in proptest::collection::vec(any::<u8>(), 0..64)) {
        let (mut spelling, mut out) = (Spelling::default(), Vec::new());
        while spelling.next(&text, &mut out, 3) {}
        let _ = (measure(&text), check(&text));
    }
}

/// The sizes behind the factors: another layout of values shows here.
#[test]
fn a_list_takes_no_more_than_its_weight() {
    for text in ["[0]".to_owned(), format!("[{}0]", "0,".repeat(5000))] {
        let Ok(Value::Array(items)) = serde_json::from_str(&text) else {
            panic!("it is a list");
        };
        let bytes = size_of::<Value>() * (1 + items.capacity());
        assert!(bytes <= weigh(text.as_bytes()).tree_bytes, "{bytes} bytes");
    }
}

#[test]
fn a_name_of_the_parser_is_refused_where_it_would_be_kept_and_a_name_elsewhere() {
    #[derive(Debug, serde::Deserialize)]
    struct Fields {
        #[serde(rename = "any", deserialize_with = "value")]
        _any: Value,
        #[serde(rename = "object", deserialize_with = "object")]
        _object: Map<String, Value>,
    }
    let mark = "$serde_json::private::RawValue";
    for name in [mark, "\\u0024serde_json::private::RawV\\u0061lue"] {
        let text = format!(r#"{{"{name}":"[1,2]"}}"#);
        let seen = json!({ mark: "[1,2]" });
        assert_eq!(read_str_to_look(&text).expect("valid JSON"), seen);
        assert_eq!(read_to_look(text.as_bytes()).expect("valid JSON"), seen);
        let second = format!(r#"[{{"a":1,"{name}":"[1,2]"}}]"#);
        for refused in [read_str(&text), read(text.as_bytes()), read_str(&second)] {
            let told = refused.expect_err("a reserved name").to_string();
            assert!(
                told.contains(mark) && told.contains("another name"),
                "{told}"
            );
        }
        for fields in [
            format!(r#"{{"any":[{text}],"object":{{}}}}"#),
            format!(r#"{{"any":[],"object":{text}}}"#),
        ] {
            serde_json::from_str::<Fields>(&fields).expect_err("a reserved name");
        }
    }
}

#[test]
fn an_object_is_no_other_value() {
    let mut reader = serde_json::Deserializer::from_str("[1]");
    let refused = object(&mut reader).expect_err("a list");
    let told = refused.to_string();
    assert!(
        told.starts_with("invalid type: sequence, expected a map"),
        "{told}"
    );
}

#[test]
fn it_nests_as_deep_as_for_the_usual_parser() {
    for depth in 120..=130 {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let usual = serde_json::from_str::<Value>(&nested).ok();
        assert_eq!(read_str(&nested).ok(), usual, "{depth}");
    }
}
