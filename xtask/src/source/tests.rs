//! The lexer on the smallest texts that could fool it.

use super::*;

fn code(text: &str) -> String {
    Source::new("src/a.rs", text).code
}

#[test]
fn comments_and_literals_are_blank_and_keep_their_lines() {
    assert_eq!(code("a // b\nc"), "a     \nc");
    assert_eq!(code("a /* b /* c */\nd */ e"), "a             \n     e");
    assert_eq!(code(r#"a("b\"c") d"#), "a(      ) d");
    assert_eq!(code("a(r#\"b\"c\"#) d"), "a(        ) d");
    assert_eq!(code("br\"a\" b"), "b     b");
}

#[test]
fn a_lifetime_is_code_and_a_character_is_not() {
    assert_eq!(code("&'a str"), "&'a str");
    assert_eq!(code("'\"' a"), "    a");
    assert_eq!(code(r"'\'' a"), "     a");
    assert_eq!(code("'ä' a"), "     a");
    assert_eq!(code("r#type"), "r#type");
}

#[test]
fn comments_are_kept_apart() {
    let source = Source::new("src/a.rs", "let a = \"// no\"; // yes");
    assert_eq!(source.comments.trim(), "// yes");
}

#[test]
fn the_item_behind_cfg_test_is_a_test() {
    let source = Source::new(
        "src/a.rs",
        "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b(x: [u8; 2]) { { } }\n}\nfn c() {}\n",
    );
    assert!(!source.in_tests(0));
    assert!(source.in_tests(source.code.find("fn b").expect("there")));
    assert!(!source.in_tests(source.code.find("fn c").expect("there")));
    assert_eq!(source.lines_without_tests(), 2);
}

#[test]
fn a_test_module_of_its_own_file_ends_at_the_semicolon() {
    let source = Source::new(
        "src/a.rs",
        "#[cfg(test)]\n#[path = \"x\"]\nmod tests;\nfn c() {}\n",
    );
    assert!(!source.in_tests(source.code.find("fn c").expect("there")));
    assert!(source.in_tests(source.code.find("mod tests").expect("there")));
}

#[test]
fn a_file_called_tests_is_all_test() {
    assert!(Source::new("crates/a/src/b/tests.rs", "fn a() {}").in_tests(3));
    assert!(Source::new("tests/v2/jobs.rs", "fn a() {}").in_tests(3));
}

#[test]
fn words_have_edges() {
    assert_eq!(
        words("operand::x rand::y", "rand::").collect::<Vec<_>>(),
        [11]
    );
    assert_eq!(words("todo!() todos", "todo!").collect::<Vec<_>>(), [0]);
    assert_eq!(
        words("Serializer Serialize", "Serialize").collect::<Vec<_>>(),
        [11]
    );
}

#[test]
fn segments_are_found_through_braces() {
    let names = |code| {
        segments_behind(code, "std")
            .into_iter()
            .map(|(_, name)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names("use std::fs;"), ["fs"]);
    assert_eq!(
        names("use std::{\n    fs::{self, File},\n    io,\n};"),
        ["fs", "io"]
    );
    assert_eq!(names("mystd::fs"), Vec::<&str>::new());
}
