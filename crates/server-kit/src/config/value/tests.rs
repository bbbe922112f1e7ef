//! What may be written, and that what is shown reads back as the same value.

use super::*;

/// Each text with what it is shown as; `None` is refused. What is shown is read again.
fn check<T: Value>(cases: &[(&str, Option<&str>)]) {
    for (text, shown) in cases {
        let value = T::read(text);
        assert_eq!(
            value.as_ref().map(Value::show).as_deref(),
            *shown,
            "{text:?}"
        );
        if let Some(value) = value {
            let shown: toml::Table = format!("key = {}", value.show()).parse().expect("TOML");
            let again = match (shown["key"].as_str(), shown["key"].as_array()) {
                (Some(text), _) => text.to_owned(),
                (None, Some(items)) => items
                    .iter()
                    .filter_map(toml::Value::as_str)
                    .collect::<Vec<_>>()
                    .join(","),
                (None, None) => shown["key"].to_string(),
            };
            assert_eq!(
                T::read(&again).map(|value| value.show()),
                Some(value.show()),
                "{again:?}"
            );
        }
    }
}

#[test]
fn sizes_have_units() {
    check::<Size>(&[
        ("1GiB", Some("\"1GiB\"")),
        ("1024 mib", Some("\"1GiB\"")),
        ("1536KiB", Some("\"1536KiB\"")),
        ("16MB", Some("\"15625KiB\"")),
        ("1000B", Some("\"1000B\"")),
        ("0B", None),
        ("1024", None),
        ("-1KiB", None),
        ("1.5GiB", None),
        ("GiB", None),
        ("", None),
        ("99999999999TiB", None),
    ]);
}

#[test]
fn durations_have_units() {
    check::<Duration<1>>(&[
        ("24h", Some("\"24h\"")),
        ("7d", Some("\"168h\"")),
        ("90s", Some("\"90s\"")),
        ("120 s", Some("\"2m\"")),
        ("1500ms", Some("\"1500ms\"")),
        ("3650d", Some("\"87600h\"")),
        ("3651d", None),
        ("0s", None),
        ("30", None),
        ("1h30m", None),
        ("", None),
    ]);
    check::<Duration<0>>(&[("0s", Some("\"0s\""))]);
}

#[test]
fn counts_start_at_one() {
    check::<Count>(&[
        ("1", Some("1")),
        ("4294967295", Some("4294967295")),
        ("0", None),
        ("+1", None),
        ("4294967296", None),
        ("auto", None),
    ]);
    check::<Auto<1>>(&[
        ("1024", Some("1024")),
        ("1025", None),
        ("0", None),
        ("Auto", None),
    ]);
    let cores = Auto::<1>::read("auto").expect("a number").0;
    assert!(cores >= 1);
    let twice = Auto::<2>::read("auto").expect("a number").0;
    assert_eq!(twice, (2 * cores).min(1024));
}

#[test]
fn an_address_has_a_port() {
    check::<SocketAddr>(&[
        ("127.0.0.1:8189", Some("\"127.0.0.1:8189\"")),
        ("localhost:0", Some("\"127.0.0.1:0\"")),
        ("[::1]:1", Some("\"[::1]:1\"")),
        ("127.0.0.1", None),
        ("example.com:80", None),
        ("localhost:+1", None),
        (":8189", None),
    ]);
}

#[test]
fn switches_are_words() {
    check::<bool>(&[
        ("true", Some("true")),
        ("0", Some("false")),
        ("yes", None),
        ("", None),
    ]);
}

#[test]
fn a_secret_is_long_and_never_shown() {
    check::<SecretString>(&[
        ("0123456789abcde", None),
        ("0123456789 abcdef", None),
        ("", None),
    ]);
    let secret = SecretString::read("0123456789abcdef").expect("long enough");
    assert_eq!(secret.show(), "\"********\"");
}

#[test]
fn some_sizes_may_be_left_open() {
    check::<AutoSize>(&[
        ("auto", Some("\"auto\"")),
        ("0B", Some("\"0B\"")),
        ("64MiB", Some("\"64MiB\"")),
        ("0", None),
        ("", None),
    ]);
}

#[test]
fn lists_are_separated_by_commas() {
    check::<Vec<Origin>>(&[
        ("", Some("[]")),
        (
            "https://a.example, http://localhost:5173",
            Some("[\"https://a.example\", \"http://localhost:5173\"]"),
        ),
        ("*", None),
        ("https://a.example/path", None),
    ]);
    check::<Vec<Host>>(&[
        ("", Some("[]")),
        (
            "Pictures.Internal, 10.0.0.5:8443",
            Some("[\"pictures.internal\", \"10.0.0.5:8443\"]"),
        ),
        ("https://pictures.internal", None),
    ]);
    check::<Peers>(&[
        ("", Some("[]")),
        (
            "127.0.0.1,10.0.0.0/8",
            Some("[\"127.0.0.1\", \"10.0.0.0/8\"]"),
        ),
        ("localhost", None),
    ]);
}

#[test]
fn a_path_becomes_absolute() {
    let path = PathBuf::read("data").expect("a path");
    assert!(path.is_absolute() && path.ends_with("data"));
    assert_eq!(PathBuf::read(""), None);
}
