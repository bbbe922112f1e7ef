//! One small table, asked by method and raw path.

use super::*;

fn routes(prefix: &str) -> Routes<&'static str> {
    Routes::new(
        prefix,
        [
            (Method::GET, "/things", "list"),
            (Method::POST, "/things", "create"),
            (Method::GET, "/things/{id}", "read"),
            (Method::DELETE, "/things/{id}", "delete"),
            (Method::HEAD, "/things/by-name/{name}", "exists"),
            (Method::GET, "/pairs/{left}/{right}", "pair"),
            (Method::GET, "/files/{*path}", "file"),
        ],
    )
    .expect("the table is sound")
}

/// One line per answer: `handler name=value`, `405 allow`, `404`, or `malformed handler`.
fn show(prefix: &str, method: &Method, path: &str) -> String {
    match routes(prefix).find(method, path) {
        Lookup::Found { handler, params } => params
            .0
            .iter()
            .fold((*handler).to_owned(), |line, (name, value)| {
                format!("{line} {name}={value}")
            }),
        Lookup::Malformed { handler } => format!("malformed {handler}"),
        Lookup::MethodNotAllowed { allow } => format!("405 {}", allow.to_str().expect("ascii")),
        Lookup::NotFound => "404".to_owned(),
    }
}

#[test]
fn method_and_path_choose_the_handler() {
    assert_eq!(show("", &Method::GET, "/things"), "list");
    assert_eq!(show("", &Method::POST, "/things"), "create");
    assert_eq!(show("", &Method::DELETE, "/things/7"), "delete id=7");
    assert_eq!(show("", &Method::GET, "/pairs/a/b"), "pair left=a right=b");
    assert_eq!(show("", &Method::GET, "/files/a/b"), "file path=a/b");
}

#[test]
fn head_falls_to_get_unless_registered() {
    assert_eq!(show("", &Method::HEAD, "/things/7"), "read id=7");
    assert_eq!(
        show("", &Method::HEAD, "/things/by-name/x"),
        "exists name=x"
    );
    let only_head = show("", &Method::GET, "/things/by-name/x");
    assert_eq!(only_head, "405 HEAD");
}

#[test]
fn an_unknown_method_is_told_the_known_ones() {
    assert_eq!(show("", &Method::PUT, "/things"), "405 GET, HEAD, POST");
    assert_eq!(
        show("", &Method::PATCH, "/things/7"),
        "405 DELETE, GET, HEAD"
    );
}

#[test]
fn paths_are_exact() {
    for path in [
        "",
        "/",
        "/thing",
        "/things/",
        "/things/7/",
        "//things",
        "/Things",
        "*",
    ] {
        assert_eq!(show("", &Method::GET, path), "404", "{path}");
    }
}

#[test]
fn parameters_are_decoded_once() {
    assert_eq!(show("", &Method::GET, "/things/a%20b"), "read id=a b");
    assert_eq!(show("", &Method::GET, "/things/%252F"), "read id=%2F");
    assert_eq!(show("", &Method::GET, "/things/%E2%82%AC"), "read id=€");
    assert_eq!(
        show("", &Method::GET, "/things/blake3%3Aab"),
        "read id=blake3:ab"
    );
    assert_eq!(show("", &Method::GET, "/things/a+b"), "read id=a+b");
    assert_eq!(show("", &Method::GET, "/things/100%"), "read id=100%");
}

#[test]
fn a_parameter_that_names_nothing_is_malformed() {
    for raw in [
        "a%2Fb",
        "a%2fb",
        "%00",
        "a%00b",
        "%ff",
        "%C3%28",
        "%ED%A0%80",
    ] {
        assert_eq!(
            show("", &Method::GET, &format!("/things/{raw}")),
            "malformed read",
            "{raw}"
        );
        assert_eq!(
            show("", &Method::GET, &format!("/files/x/{raw}")),
            "malformed file",
            "{raw}"
        );
    }
}

#[test]
fn a_prefix_is_asked_for_and_taken_away() {
    let at = "/deployment/x";
    assert_eq!(
        show(at, &Method::GET, "/deployment/x/things/7"),
        "read id=7"
    );
    assert_eq!(show(at, &Method::GET, "/things/7"), "404");
    assert_eq!(show(at, &Method::GET, "/deployment/xthings/7"), "404");
    assert_eq!(show(at, &Method::GET, "/deployment/x"), "404");
}

#[test]
fn a_faulty_table_is_refused() {
    let bad_prefix = |prefix| Routes::<()>::new(prefix, []).expect_err("a bad prefix");
    for prefix in ["/", "x", "/x/"] {
        assert!(
            matches!(bad_prefix(prefix), RouteError::Prefix(_)),
            "{prefix}"
        );
    }
    let twice = Routes::new("", [(Method::GET, "/a", 1), (Method::GET, "/a", 2)]);
    assert!(matches!(twice, Err(RouteError::Twice { .. })));
    let clash = Routes::new("", [(Method::GET, "/{a}", 1), (Method::POST, "/{b}", 2)]);
    assert!(matches!(clash, Err(RouteError::Pattern { .. })));
}

#[test]
fn parameters_are_read_by_name() {
    let routes = routes("");
    let Lookup::Found { params, .. } = routes.find(&Method::GET, "/pairs/a/b") else {
        panic!("the route is in the table");
    };
    assert_eq!(&params["right"], "b");
    assert_eq!(params.get("middle"), None);
}
