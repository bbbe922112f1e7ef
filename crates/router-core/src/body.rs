//! A parsed view of a body, for validation and prices alone: what is forwarded are the bytes.

use serde_json::Value;

use crate::json;

/// Parses a body. Of equal keys the last counts, as a provider would read it. Nesting of 128 passes, of 129 does not. A
/// number past all bounds is the largest there is, and half a surrogate pair is U+FFFD: the body is JSON all the same.
///
/// # Errors
/// With the reason, if it is no JSON, or beyond these bounds or those of [`json_text::check`]: a view of more would take many
/// times the bytes of the body.
pub(crate) fn view(body: &[u8]) -> Result<Value, String> {
    json_text::check(body).map_err(|error| format!("the body cannot be taken: {error}"))?;
    let malformed = |error: serde_json::Error| format!("the body is not valid JSON: {error}");
    // As a text, none of its strings is looked through a second time for being one.
    let text = match str::from_utf8(body) {
        Ok(text) => text,
        Err(_) => return json_text::read_to_look(body).map_err(malformed),
    };
    let refused = match json_text::read_str_to_look(text) {
        Ok(view) => return Ok(view),
        Err(refused) => refused,
    };
    json::read_bounded(text).ok_or_else(|| malformed(json::grammar_error(text).unwrap_or(refused)))
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
            view(body.as_bytes()).expect("it is JSON");
        }
    }

    /// The partner reads an object with a strange name, so the router does as well.
    #[test]
    fn a_name_of_the_parser_is_a_name() {
        let mark = "$serde_json::private::RawValue";
        for name in [mark, "\\u0024serde_json::private::RawV\\u0061lue"] {
            let body = format!(r#"{{"model":{{"{name}":"\"cheap\""}}}}"#);
            let seen = view(body.as_bytes()).expect("valid");
            assert_eq!(seen["model"][mark], "\"cheap\"", "{body}");
        }
    }

    #[test]
    fn values_that_cannot_be_held_are_json_all_the_same() {
        let seen = view(br#"{"seed":1e400,"prompt":"\ud83d"}"#).expect("valid");
        assert_eq!(seen["seed"], f64::MAX);
        assert_eq!(seen["prompt"], "\u{fffd}");
        let told = view(br#"{"seed":1e400,"prompt":}"#).expect_err("no JSON");
        assert!(
            told.contains("expected value at line 1 column 24"),
            "{told}"
        );
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
        let in_one_string = format!(
            r#"{{"prompt":"\"{}\\","a":[1,2]}}"#,
            ",".repeat(json_text::MOST_VALUES + 1)
        );
        view(in_one_string.as_bytes()).expect("it has four values");
    }
}
