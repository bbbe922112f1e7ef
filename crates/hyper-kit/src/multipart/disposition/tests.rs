//! Names as browsers, curl and older libraries write them.

use super::*;

/// `name|file name`, or `none`.
fn show(value: &str) -> String {
    match Disposition::parse(value.as_bytes()) {
        None => "none".to_owned(),
        Some(Disposition { name, file_name }) => {
            format!("{name}|{}", file_name.as_deref().unwrap_or("-"))
        }
    }
}

#[test]
fn names_are_read_quoted_and_bare_in_any_order() {
    assert_eq!(show(r#"form-data; name="a""#), "a|-");
    assert_eq!(show(r#"form-data; name=a; filename=b.png"#), "a|b.png");
    assert_eq!(
        show(r#"Form-Data;filename="b c.png" ; NAME = "a""#),
        "a|b c.png"
    );
    assert_eq!(show(r#"form-data; name="a;b"; filename="c;d""#), "a;b|c;d");
    assert_eq!(show(r#"form-data; name=""; filename="""#), "|");
}

#[test]
fn utf8_is_taken_as_it_comes() {
    assert_eq!(
        show("form-data; name=\"a\"; filename=\"猫 é.png\""),
        "a|猫 é.png"
    );
    assert_eq!(Disposition::parse(b"form-data; name=\"\xe9\""), None);
}

#[test]
fn quotes_and_backslashes_are_read_as_each_client_writes_them() {
    assert_eq!(
        show(r#"form-data; name="a"; filename="b%22c.png""#),
        r#"a|b"c.png"#
    );
    assert_eq!(
        show(r#"form-data; name="a"; filename="b\"c.png""#),
        r#"a|b"c.png"#
    );
    assert_eq!(
        show(r#"form-data; name="a"; filename="b\\c.png""#),
        r"a|b\c.png"
    );
    assert_eq!(
        show(r#"form-data; name="a"; filename="C:\dir\c.png""#),
        r"a|C:\dir\c.png"
    );
}

#[test]
fn only_the_quote_is_decoded() {
    assert_eq!(
        show(r#"form-data; name="a"; filename="100%25%2e%2e%2f.png""#),
        "a|100%25%2e%2e%2f.png"
    );
}

#[test]
fn the_extended_name_wins_when_it_can_be_read() {
    let with = |extended: &str| show(&format!("form-data; name=a; filename=plain; {extended}"));
    assert_eq!(with("filename*=UTF-8''%E7%8C%AB.png"), "a|猫.png");
    assert_eq!(with("filename*=utf-8'en'%C3%A9"), "a|é");
    assert_eq!(with("filename*=iso-8859-1''%E9"), "a|plain");
    assert_eq!(with("filename*=UTF-8''%FF"), "a|plain");
    assert_eq!(with("filename*=nonsense"), "a|plain");
}

#[test]
fn a_name_inside_a_file_name_is_no_name() {
    assert_eq!(
        show(r#"form-data; filename="x; name=forged"; name="real""#),
        "real|x; name=forged"
    );
    assert_eq!(show(r#"form-data; name="first"; name="second""#), "first|-");
    assert_eq!(show(r#"form-data; xname="a""#), "none");
}

#[test]
fn what_has_no_name_is_none() {
    for value in [
        "",
        "form-data",
        "attachment; name=a",
        "form-data; filename=b",
        r#"form-data; name="a"#,
    ] {
        assert_eq!(show(value), "none", "{value}");
    }
}
