//! What Python's `re` answers, side by side; the expectations were read off Python 3.11.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value as Json;

use super::*;

/// Never stops.
const GO_ON: fn() -> bool = || false;

fn sub(pattern: &str, replacement: &str, text: &str) -> String {
    Pattern::new(pattern, Options::default())
        .unwrap()
        .replaced(text, replacement, None, usize::MAX, &GO_ON)
        .unwrap()
}

fn find_all(pattern: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let pattern = Pattern::new(pattern, Options::default()).unwrap();
    let taken = pattern.each(text, None, &GO_ON, |search| {
        let (start, end) = search.group(0).unwrap();
        found.push(text[start..end].to_owned());
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
                pattern.replaced("a", bad, None, usize::MAX, &GO_ON),
                Err(PatternError::Template(_))
            ),
            "{bad}"
        );
    }
    assert_eq!(
        pattern
            .replaced("aaa", "b", Some(2), usize::MAX, &GO_ON)
            .unwrap(),
        "bba"
    );
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
    assert_eq!(
        pattern.joined("a\nb\n", 0, &GO_ON),
        Ok(("b".to_owned(), true))
    );
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
    for bad in [
        "(",
        "[a",
        r"\q",
        r"\",
        "*a",
        "a**",
        "(?P<1>a)",
        r"(a)\2",
        r"[\w--\d]",
        "[a--b]",
        r"[a-\d]",
        r"[\d-a]",
        "(?<n>a)",
        "(?'n'a)",
        "(?P<n>a)(?P<n>b)",
        "(?P>n)",
        "a(?i)",
        "^(?i)a",
        "|(?i)a",
        "(?i-i:a)",
        "(?i-:a)",
        "(?i-m)a",
        "(?i-a:a)",
        "(?au)a",
        "(?L)a",
        "(?z)a",
        "(?)a",
        r"[\400]",
        r"\400",
        r"(a)(b)(c)(d)\400",
        r"\777",
        "(?i",
    ] {
        let refused = Pattern::new(bad, Options::default());
        assert!(matches!(refused, Err(PatternError::Broken(_))), "{bad}");
    }
}

#[test]
fn flags_lookarounds_and_dashes_are_python_s() {
    for (pattern, text, found) in [
        (r"(?a)\w+", "éab", "ab"),
        (r"(?a:\w+)\w", "éabé", "abé"),
        (r"(?i)(?a)\w+", "\u{17f}B", "B"),
        (r"(?a)[\W]+", "aé", "é"),
        (r"(?a)\d", "\u{661}1", "1"),
        (r"(?a)\s", "\u{a0} ", " "),
        (r"(?a)\bb\b", "xb éb", "b"),
        (r"(?u)\w+", "éab", "éab"),
        (r"(?a-i:a)\w", "aé", "aé"),
        ("(?i)(?m)A", "a", "a"),
        ("(?#c)(?i)A", "a", "a"),
        ("(?x) a # ( [ \n b", "ab", "ab"),
        (r"(?x)a\ b", "a b", "a b"),
        ("(?x)a \\\n b", "a\nb", "a\nb"),
        ("(?x)a \\\t b \\\u{b}", "a\tb\u{b}", "a\tb\u{b}"),
        (r"(?x)[\ ]b[ ]", " b ", " b "),
        (r"a\ b", "a b", "a b"),
        ("(?i:A)a", "aa", "aa"),
        ("(?=a)+a", "a", "a"),
        ("(?<!b)?a", "ba", "a"),
        ("(?=b){0,1}a", "a", "a"),
        ("[a-z-9]+", "-b9", "-b9"),
        ("[+--]+", "+,-", "+,-"),
        ("[-a]+[a-]+", "-a-", "-a-"),
        ("[a^]+", "a^", "a^"),
        (r"[\x41-\x43]+", "ABCD", "ABC"),
    ] {
        assert_eq!(
            find_all(pattern, text).first().map(String::as_str),
            Some(found),
            "{pattern}"
        );
    }
    assert_eq!(find_all("(?=a)*", "ba"), ["", "", ""]);
    assert_eq!(find_all("(?!a)*b", "b"), ["b"]);
    let named = Pattern::new(r"\N{DIGIT ONE}", Options::default());
    assert_eq!(named.err(), Some(PatternError::NamedCharacter));
    let pattern = Pattern::new("a", Options::default()).unwrap();
    let octal = |replacement| pattern.replaced("a", replacement, None, usize::MAX, &GO_ON);
    assert_eq!(octal(r"\377").unwrap(), "\u{ff}");
    assert!(matches!(octal(r"\400"), Err(PatternError::Template(_))));
}

#[test]
fn an_i_has_its_dot_or_none_in_either_case() {
    let any_case = Options {
        case_insensitive: true,
        ..Options::default()
    };
    let is_found = |pattern: &str, text: &str| {
        let pattern = Pattern::new(pattern, any_case).unwrap();
        pattern.first(text, 0, &GO_ON).unwrap().is_some()
    };
    for letter in ["i", "I", "\u{130}", "\u{131}"] {
        for pattern in [
            "i",
            "I",
            "\u{130}",
            "\u{131}",
            "[a-z]",
            "[a-z-9]",
            "[\u{131}]",
        ] {
            assert!(is_found(pattern, letter), "{pattern} {letter}");
        }
        for pattern in ["[^i]", "[^a-z]", "[^\u{130}]", "[a-h]"] {
            assert!(!is_found(pattern, letter), "{pattern} {letter}");
        }
    }
    assert!(is_found("[a-z]", "\u{212a}") && is_found("s", "\u{17f}"));
}

/// What a search of `text` ends with.
fn first(pattern: &str, text: &str) -> Result<bool, PatternError> {
    let found = Pattern::new(pattern, Options::default())?.first(text, 0, &GO_ON)?;
    Ok(found.is_some())
}

#[test]
fn a_pattern_that_refers_back_and_never_decides_uses_up_its_steps() {
    let text = "a".repeat(40);
    assert_eq!(first(r"(a+)+\1b", &text), Err(PatternError::TooSlow));
}

#[test]
fn what_fails_at_a_place_is_tried_there_once() {
    let text = "a".repeat(100_000);
    for pattern in ["(?:a*)*b", "(?:a|aa)+b", "(?:(?=.*x)a)*b", "(?:a?){20}b"] {
        assert_eq!(first(pattern, &text), Ok(false), "{pattern}");
    }
}

#[test]
fn looks_ahead_that_match_at_every_place_use_up_the_steps() {
    let text = "a".repeat(100_000) + "x";
    assert_eq!(first("(?:(?=.*x)a)*b", &text), Err(PatternError::TooSlow));
}

#[test]
fn counted_repetitions_times_the_text_are_bounded() {
    let nested = "(?:(?:a?){200}){200}b";
    assert_eq!(first(nested, "b"), Ok(true));
    let refused = PatternError::TooManyStates {
        instructions: 80_002,
        bytes: 500_000,
    };
    assert_eq!(first(nested, &"a".repeat(500_000)), Err(refused));
    let endless = [
        "(?:(?:a?){999}){999}",
        "(?:(?:a{0}){999999999}){999999999}",
        "a{999999999}",
    ];
    for pattern in endless {
        assert_eq!(
            first(pattern, ""),
            Err(PatternError::TooManyInstructions),
            "{pattern}"
        );
    }
    let long = "{".repeat(MAX_PATTERN_BYTES + 1);
    assert_eq!(first(&long, ""), Err(PatternError::TooLong(long.len())));
}

#[test]
fn a_search_looks_whether_to_stop_while_it_runs() {
    let asked = std::cell::Cell::new(0);
    let stop_at_the_third = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    let pattern = Pattern::new(r"(a+)+\1b", Options::default()).unwrap();
    let stopped = pattern.first(&"a".repeat(40), 0, &stop_at_the_third);
    assert_eq!((stopped, asked.get()), (Err(PatternError::Stopped), 3));
}

#[test]
fn a_result_beyond_the_bound_is_not_made() {
    let replaced = |most_bytes| {
        let pattern = Pattern::new("", Options::default()).unwrap();
        let replaced = pattern.replaced("aaaa", &"x".repeat(1000), None, most_bytes, &GO_ON);
        replaced.map(|text| text.len())
    };
    assert_eq!(replaced(5003), Err(PatternError::ResultTooLong(5003)));
    assert_eq!(replaced(5004), Ok(5004));
}

#[test]
fn names_decide_between_branches() {
    assert_eq!(find_all("(?P<q>a)?(?(q)b|c)", "ab c b"), ["ab", "c"]);
    assert_eq!(find_all(r"(<)?a(?(1)>|$)", "<a> a"), ["<a>", "a"]);
    assert_eq!(find_all(r"\<a\>", "<a> a"), ["<a>"]);
}

#[test]
fn a_loop_ends_with_an_empty_turn() {
    let group = |pattern: &str| {
        Pattern::new(pattern, Options::default())
            .unwrap()
            .first("aa", 1, &GO_ON)
    };
    assert_eq!(group("(a*)*"), Ok(Some(Some(String::new()))));
    assert_eq!(group("(a+)*"), Ok(Some(Some("aa".to_owned()))));
    assert_eq!(first("(a*)*b", &"a".repeat(100_000)), Ok(false));
}

/// Patterns made at random by `tests/python.py`, and what Python 3.11 finds with them:
/// `[pattern, flags, text, [[[start, end], ...], ...]]`, one
/// list of groups for each match, in bytes; `null` in place of all of it where Python refuses the pattern.
#[test]
fn random_patterns_match_as_in_python() {
    let cases: Vec<(String, String, String, Option<Json>)> =
        serde_json::from_str(include_str!("tests/python.json")).unwrap();
    assert!(cases.len() > 1000, "{} cases", cases.len());
    let mut differing = Vec::new();
    for (pattern, flags, text, expected) in cases {
        let options = Options {
            case_insensitive: flags.contains('i'),
            multiline: flags.contains('m'),
            dotall: flags.contains('s'),
        };
        let compiled = Pattern::new(&pattern, options);
        let mut found: Vec<Vec<Option<(usize, usize)>>> = Vec::new();
        let searched = compiled.as_ref().map(|compiled| {
            compiled.each(&text, None, &GO_ON, |search| {
                found.push(
                    (0..=compiled.groups())
                        .map(|group| search.group(group))
                        .collect(),
                );
                Ok(())
            })
        });
        let found = match searched {
            Err(PatternError::Broken(_)) => None,
            Err(error) => panic!("{pattern:?}: {error}"),
            Ok(result) => result.map(|()| Some(serde_json::json!(found))).unwrap(),
        };
        if found != expected {
            differing.push(format!(
                "{pattern:?} {flags} in {text:?}: {found:?}, not {expected:?}"
            ));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn groups_that_took_no_part_are_told() {
    let pattern = Pattern::new("a(b)?", Options::default()).unwrap();
    assert_eq!(
        pattern.joined("ab a", 1, &GO_ON),
        Ok(("b\n".to_owned(), false))
    );
    assert_eq!(pattern.first("a", 1, &GO_ON), Ok(Some(None)));
    assert_eq!(pattern.first("x", 1, &GO_ON), Ok(None));
}
