//! What Python's `re` answers, side by side; the expectations were read off Python 3.11.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn sub(pattern: &str, replacement: &str, text: &str) -> String {
    Pattern::new(pattern, Options::default())
        .unwrap()
        .replaced(text, replacement, 0, usize::MAX)
        .unwrap()
}

fn find_all(pattern: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let pattern = Pattern::new(pattern, Options::default()).unwrap();
    let taken = pattern.each(text, 0, |captures| {
        found.push(captures[0].to_owned());
        Ok(())
    });
    assert_eq!(taken, Ok(()));
    found
}

#[test]
fn empty_matches_are_replaced_where_python_replaces_them() {
    assert_eq!(sub("x*", "-", "abxd"), "-a-b--d-");
    assert_eq!(sub("", "-", "äb"), "-ä-b-");
    assert_eq!(sub("|b", "-", "abc"), "-a---c-");
    assert_eq!(find_all("a|", "ba"), ["", "a", ""]);
    assert_eq!(find_all("a*?", "aa"), ["", "a", "", "a", ""]);
}

#[test]
fn replacements_name_groups_by_number_and_by_name() {
    assert_eq!(sub(r"(\w+) (\w+)", r"\2 \1", "hello world"), "world hello");
    assert_eq!(
        sub("(?P<a>x)(y)?", r"[\g<a>\g<2>\g<0>]\n\\", "x"),
        "[xx]\n\\"
    );
    assert_eq!(sub("(a)", r"\1\060\101", "a"), "a0A");
    assert_eq!(sub("a", r"\.\-", "a"), r"\.\-");
    let pattern = Pattern::new("(a)", Options::default()).unwrap();
    for bad in [r"\2", r"\g<b>", r"\g<7>", r"\q", r"\g", r"\g<1", r"x\"] {
        assert!(
            matches!(
                pattern.replaced("a", bad, 0, usize::MAX),
                Err(PatternError::Template(_))
            ),
            "{bad}"
        );
    }
    assert_eq!(pattern.replaced("aaa", "b", 2, usize::MAX).unwrap(), "bba");
}

#[test]
fn dollar_and_ends_are_python_s() {
    assert_eq!(find_all("a$", "a\n"), ["a"]);
    assert_eq!(find_all(r"a\Z", "a\n"), [""; 0]);
    assert_eq!(sub("$", "!", "a\n"), "a!\n!");
    let multiline = Options {
        multiline: true,
        ..Options::default()
    };
    let pattern = Pattern::new("^b$", multiline).unwrap();
    assert_eq!(pattern.joined("a\nb\n", 0), Ok(("b".to_owned(), true)));
}

#[test]
fn references_and_looks_around_work() {
    assert_eq!(find_all(r"(\w)\1", "hello book"), ["ll", "oo"]);
    assert_eq!(find_all(r"(?<=a)b(?!c)", "abc ab"), ["b"]);
    assert_eq!(
        find_all(r"(?P<q>['\x22]).*?(?P=q)", "'a' \"b'\""),
        ["'a'", "\"b'\""]
    );
    assert_eq!(find_all("(?>a+)b|a++c", "aab aac"), ["aab", "aac"]);
    assert_eq!(find_all("(?#nothing)a(?:b)?", "ab"), ["ab"]);
}

#[test]
fn braces_classes_and_numbers_are_python_s() {
    assert_eq!(find_all("a{,2}b", "aaab"), ["aab"]);
    assert_eq!(find_all("a{x}", "a{x}"), ["a{x}"]);
    assert_eq!(find_all("{", "{"), ["{"]);
    assert_eq!(find_all("[]a]+", "]a["), ["]a"]);
    assert_eq!(find_all("[[&&~]+", "a[&~b"), ["[&~"]);
    assert_eq!(find_all(r"[\b\101-\103]+", "x\u{8}ABCD"), ["\u{8}ABC"]);
    assert_eq!(find_all(r"\0?\101", "A"), ["A"]);
    assert_eq!(find_all(r"\w+\s\d", "ä_1\u{1f}7"), ["ä_1\u{1f}7"]);
}

#[test]
fn what_python_refuses_is_refused() {
    for bad in ["(", "[a", r"\q", r"\", "*a", "a**", "(?P<1>a)", r"(a)\2"] {
        let refused = Pattern::new(bad, Options::default());
        assert!(matches!(refused, Err(PatternError::Broken(_))), "{bad}");
    }
}

#[test]
fn a_pattern_that_never_decides_is_stopped() {
    let pattern = Pattern::new(r"(?=(a+)+$)\1b", Options::default()).unwrap();
    assert_eq!(
        pattern.first(&"a".repeat(40), 0).err(),
        Some(PatternError::TooSlow)
    );
}

#[test]
fn a_result_beyond_the_memory_of_a_job_is_not_made() {
    let pattern = Pattern::new("", Options::default()).unwrap();
    assert_eq!(
        pattern.replaced("aaaa", &"x".repeat(1000), 0, 3000),
        Err(PatternError::TooLong)
    );
}

#[test]
fn groups_that_took_no_part_are_told() {
    let pattern = Pattern::new("a(b)?", Options::default()).unwrap();
    assert_eq!(pattern.joined("ab a", 1), Ok(("b\n".to_owned(), false)));
    assert_eq!(pattern.first("a", 1), Ok(Some(None)));
    assert_eq!(pattern.first("x", 1), Ok(None));
}
