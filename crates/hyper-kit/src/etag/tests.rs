//! Lists, lines, weakness, and what cannot be read.

use super::*;

fn hit(lines: &[&'static str], current: &str) -> bool {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(IF_NONE_MATCH, HeaderValue::from_static(line));
    }
    not_modified(&headers, &ETag::strong(current).expect("a tag"))
}

#[test]
fn one_tag_a_list_and_a_star_match() {
    assert!(hit(&[r#""abc""#], "abc"));
    assert!(hit(&[r#""x", "abc""#], "abc"));
    assert!(hit(&[r#""x","abc" , "y""#], "abc"));
    assert!(hit(&[r#", ,"abc","#], "abc"));
    assert!(hit(&["*"], "abc"));
    assert!(hit(&[" * "], "abc"));
}

#[test]
fn the_weak_comparison_overlooks_weakness() {
    assert!(hit(&[r#"W/"abc""#], "abc"));
    assert!(hit(&[r#"W/"x", W/"abc""#], "abc"));
}

#[test]
fn every_header_line_counts() {
    assert!(hit(&[r#""x""#, r#""abc""#], "abc"));
    assert!(hit(&["nonsense", r#""abc""#], "abc"));
}

#[test]
fn another_tag_and_no_tag_do_not_match() {
    assert!(!hit(&[], "abc"));
    assert!(!hit(&[""], "abc"));
    assert!(!hit(&[r#""ab""#], "abc"));
    assert!(!hit(&[r#""ABC""#], "abc"));
    assert!(!hit(&["abc"], "abc"));
    assert!(!hit(&[r#"w/"abc""#], "abc"));
    assert!(!hit(&[r#""abc"#], "abc"));
    assert!(!hit(&[r#""x" "abc""#], "abc"));
    assert!(!hit(&[r#""*""#], "abc"));
}

#[test]
fn a_comma_inside_quotes_belongs_to_the_tag() {
    assert!(hit(&[r#""a,b""#], "a,b"));
    assert!(!hit(&[r#""a,b""#], "b"));
}

#[test]
fn the_strong_comparison_wants_two_strong_tags() {
    let strong = ETag::strong("a").expect("a tag");
    let weak = ETag::parse(&HeaderValue::from_static(r#"W/"a""#)).expect("a tag");
    assert!(strong.same_as(&strong, Comparison::Strong));
    assert!(!strong.same_as(&weak, Comparison::Strong));
    assert!(!weak.same_as(&weak, Comparison::Strong));
    assert!(weak.same_as(&strong, Comparison::Weak));
}

#[test]
fn a_tag_is_written_as_it_is_read() {
    for text in [r#""abc""#, r#"W/"abc""#, r#""""#] {
        let value = HeaderValue::from_static(text);
        let tag = ETag::parse(&value).expect("a tag");
        assert_eq!(tag.to_value(), value);
    }
    assert_eq!(ETag::strong("a\"b"), None);
    assert_eq!(ETag::strong("a b"), None);
}
