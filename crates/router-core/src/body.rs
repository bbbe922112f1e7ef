//! A parsed view of a body, for validation and prices alone: what is forwarded are the bytes.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Parses a body. Of equal keys the last counts, as a provider would read it. Nesting of 128 passes, of 129 does not.
///
/// # Errors
/// With the reason, if it is no JSON, or beyond these bounds or those of [`json_text::check`]: a view of more would take many
/// times the bytes of the body.
pub(crate) fn view(body: &[u8]) -> Result<Value, String> {
    json_text::check(body).map_err(|error| format!("the body cannot be taken: {error}"))?;
    // As a text, none of its strings is looked through a second time for being one.
    let parsed = match str::from_utf8(body) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(body),
    };
    parsed
        .or_else(|error: serde_json::Error| deepest(body).ok_or(error))
        .map_err(|error| format!("the body is not valid JSON: {error}"))
}

/// Parses a body that is nested one level deeper than the parser goes by itself, by taking its outermost level apart.
fn deepest(body: &[u8]) -> Option<Value> {
    let inner = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    if let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(body) {
        return items.into_iter().map(inner).collect();
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let mut fields: Vec<_> = fields.into_iter().collect();
    // The order in which they stand in the body, which is where the raw values point.
    fields.sort_by_key(|(_, raw)| raw.get().as_ptr());
    let fields = fields
        .into_iter()
        .map(|(name, raw)| Some((name, inner(raw)?)));
    fields.collect::<Option<Map<_, _>>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> [String; 3] {
        [
            format!("{}{}", "[".repeat(depth), "]".repeat(depth)),
            format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)),
            format!(
                "{{\"z\":1,\"a\":{}{},\"b\":[2]}}",
                "[".repeat(depth - 1),
                "]".repeat(depth - 1)
            ),
        ]
    }

    #[test]
    fn depth_128_passes_and_129_does_not() {
        for depth in [1, 2, 126, 127, 128] {
            for body in nested(depth.max(2)) {
                let view = view(body.as_bytes()).expect("not too deep");
                assert_eq!(view.to_string(), body);
            }
        }
        for depth in [129, 130, 100_000] {
            for body in nested(depth) {
                view(body.as_bytes()).expect_err("too deep");
            }
        }
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        let seen = view(br#"{"a":1,"b":2,"a":3}"#).expect("valid");
        assert_eq!(seen["a"], 3);
        let deep = "[".repeat(127) + &"]".repeat(127);
        let body = format!(r#"{{"a":{deep},"b":2,"a":3}}"#);
        let deeper = format!(r#"{{"b":2,"a":3,"c":{deep},"b":4}}"#);
        assert_eq!(view(body.as_bytes()).expect("valid")["a"], 3);
        assert_eq!(view(deeper.as_bytes()).expect("valid")["b"], 4);
    }

    #[test]
    fn what_is_no_json_is_malformed() {
        for body in [
            "",
            " ",
            "{",
            "{\"a\":}",
            "nul",
            "{}{}",
            "{'a':1}",
            "[1,]",
            "\"\u{1}\"",
            "NaN",
        ] {
            assert!(view(body.as_bytes()).is_err(), "{body:?}");
        }
        assert!(view(b"{\"a\":\"\xff\"}").is_err());
        for body in ["1", "null", "\"x\"", "[]", " {} \n", "1e999999"] {
            // A number without a finite value is no JSON number to any reader that we know.
            assert_eq!(
                view(body.as_bytes()).is_ok(),
                body != "1e999999",
                "{body:?}"
            );
        }
    }

    #[test]
    fn a_view_has_a_bounded_number_of_values() {
        let many = format!("[0{}]", ",0".repeat(json_text::MOST_VALUES));
        view(many.as_bytes()).expect_err("too many");
        // Lists within lists are values too, and have no commas.
        let nested = format!(
            "[{}1]",
            format!("{}{},", "[".repeat(100), "]".repeat(100)).repeat(20_000)
        );
        view(nested.as_bytes()).expect_err("too many");
    }
}
