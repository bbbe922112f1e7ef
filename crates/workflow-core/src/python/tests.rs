//! Python's own words, value by value.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn values_are_spelled_as_python_spells_them() {
    let cases = [
        (json!(null), "None"),
        (json!(true), "True"),
        (json!(false), "False"),
        (json!(0), "0"),
        (json!(-0.0), "-0.0"),
        (
            json!(18_446_744_073_709_551_615_u64),
            "18446744073709551615",
        ),
        (json!(i64::MIN), "-9223372036854775808"),
        (json!(1.0), "1.0"),
        (json!(0.1), "0.1"),
        (json!(1e15), "1000000000000000.0"),
        (json!(1e16), "1e+16"),
        (json!(1.5e300), "1.5e+300"),
        (json!(0.0001), "0.0001"),
        (json!(0.00001), "1e-05"),
        (json!(-1.25e-7), "-1.25e-07"),
        (json!(123_456.789), "123456.789"),
        (json!("it's"), "\"it's\""),
        (json!("say \"it's\""), "'say \"it\\'s\"'"),
        (json!("a\\b\n\r\t\u{0}\u{7f}"), r"'a\\b\n\r\t\x00\x7f'"),
        (json!("é日\u{1f600}"), "'é日\u{1f600}'"),
        (
            json!("\u{a0}\u{ad}\u{200b}\u{feff}\u{e0001}"),
            r"'\xa0\xad\u200b\ufeff\U000e0001'",
        ),
        (json!("\u{301}e\u{301}"), "'\u{301}e\u{301}'"),
        (
            json!([1, "a", [], {"k": [null]}]),
            "[1, 'a', [], {'k': [None]}]",
        ),
        (json!({}), "{}"),
    ];
    for (value, expected) in cases {
        assert_eq!(python_repr(&value), expected);
    }
    assert_eq!(python_str(&json!("it's")), "it's");
    assert_eq!(python_str(&json!(["it's"])), "[\"it's\"]");
    assert_eq!(python_str(&json!(null)), "None");
    assert_eq!(
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(float_repr),
        ["nan", "inf", "-inf"]
    );
}

fn int(value: &Value) -> Result<String, String> {
    python_int(value).map(|number| python_str(&number.to_value()))
}

#[test]
fn int_reads_what_python_reads() {
    let cases = [
        (json!("7"), "7"),
        (json!(7.9), "7"),
        (json!(-7.9), "-7"),
        (json!(-0.5), "0"),
        (json!(true), "1"),
        (json!(" \u{1c}\u{3000}-1_000\n"), "-1000"),
        (json!("+007"), "7"),
        (json!("-0"), "0"),
        (json!("１２٣"), "123"),
        (json!("18446744073709551616"), "18446744073709551616"),
        (json!(1e20), "100000000000000000000"),
        (json!(-1e40), "-10000000000000000303786028427003666890752"),
        (
            json!("123456789012345678901234567890123456789012345"),
            "123456789012345678901234567890123456789012345",
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(int(&value), Ok(expected.to_owned()));
    }
    assert_eq!(
        python_int(&json!(u64::MAX)),
        Ok(WholeNumber::Fits(u64::MAX.into()))
    );
    assert_eq!(
        python_int(&json!("18446744073709551616")),
        Ok(WholeNumber::Beyond("18446744073709551616".to_owned()))
    );
}

#[test]
fn int_says_what_python_says() {
    for wrong in [
        "abc", "", "7.9", "1e3", "_1", "1_", "1__0", "+-1", "- 1", "0x10", "½",
    ] {
        let said = format!("invalid literal for int() with base 10: '{wrong}'");
        assert_eq!(int(&json!(wrong)), Err(said));
    }
    let long = format!(
        "invalid literal for int() with base 10: '{}",
        "x".repeat(199)
    );
    assert_eq!(int(&json!("x".repeat(500))), Err(long));
    let digits = "Exceeds the limit (4300 digits) for integer string conversion: value has 4301 digits; use sys.set_int_max_str_digits() to increase the limit";
    assert_eq!(int(&json!("1".repeat(4301))), Err(digits.to_owned()));
    for (value, name) in [
        (json!(null), "NoneType"),
        (json!([1]), "list"),
        (json!({}), "dict"),
    ] {
        let said = format!(
            "int() argument must be a string, a bytes-like object or a real number, not '{name}'"
        );
        assert_eq!(int(&value), Err(said));
    }
}

#[test]
fn float_reads_and_says_what_python_does() {
    let cases = [
        (json!(7), "7.0"),
        (json!("7"), "7.0"),
        (json!(" 1_0.5e1 "), "105.0"),
        (json!(".5"), "0.5"),
        (json!("5."), "5.0"),
        (json!("1e400"), "inf"),
        (json!("-Infinity"), "-inf"),
        (json!("nAn"), "nan"),
        (json!(false), "0.0"),
        (json!(u64::MAX), "1.8446744073709552e+19"),
    ];
    for (value, expected) in cases {
        assert_eq!(
            python_float(&value).map(float_repr),
            Ok(expected.to_owned())
        );
    }
    for wrong in ["wide", "", ".", "1_.5", "1e", "0x1p3", "infinit"] {
        let said = format!("could not convert string to float: '{wrong}'");
        assert_eq!(python_float(&json!(wrong)), Err(said));
    }
    let said = "float() argument must be a string or a real number, not 'dict'";
    assert_eq!(python_float(&json!({})), Err(said.to_owned()));
}

#[test]
fn only_what_is_empty_or_zero_is_false() {
    for value in [
        json!("false"),
        json!(" "),
        json!(0.1),
        json!([0]),
        json!({"a": 0}),
        json!(true),
    ] {
        assert!(python_bool(&value), "{value}");
    }
    for value in [
        json!(""),
        json!(0),
        json!(-0.0),
        json!([]),
        json!({}),
        json!(null),
        json!(false),
    ] {
        assert!(!python_bool(&value), "{value}");
    }
}

#[test]
fn whole_numbers_compare_with_bounds_of_any_kind() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let compare = |value: Value, bound: Value| {
        python_int(&value)
            .unwrap()
            .compare(bound.as_number().unwrap())
    };
    assert_eq!(compare(json!(u64::MAX), json!(u64::MAX)), Some(Equal));
    assert_eq!(compare(json!(u64::MAX), json!(i64::MAX)), Some(Greater));
    assert_eq!(compare(json!(-1), json!(u64::MAX)), Some(Less));
    assert_eq!(compare(json!(3), json!(2.5)), Some(Greater));
    assert_eq!(
        compare(json!("9".repeat(4000)), json!(u64::MAX)),
        Some(Greater)
    );
    assert_eq!(compare(json!(-1e300), json!(i64::MIN)), Some(Less));
}

proptest! {
    #[test]
    fn floats_read_back_as_they_were(float in any::<f64>()) {
        let read: f64 = float_repr(float).parse().unwrap();
        prop_assert_eq!(read.to_bits(), float.to_bits());
    }

    #[test]
    fn conversions_never_panic(text in ".*") {
        let value = Value::String(text);
        let _ = (python_int(&value), python_float(&value), python_bool(&value), python_repr(&value));
    }
}
