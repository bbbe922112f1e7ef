//! What a browser gets: the right bytes in the right coding, and headers that let nothing else in.

use super::*;

fn console() -> Console {
    let families = Families {
        workflows: true,
        open: false,
        models: false,
    };
    Console::new("/a/b", families)
}

fn get(path: &str, headers: &[(HeaderName, &str)]) -> Option<Response<Body>> {
    ask(&Method::GET, path, headers)
}

fn ask(method: &Method, path: &str, headers: &[(HeaderName, &str)]) -> Option<Response<Body>> {
    let uri: Uri = path.parse().expect("a path");
    let pairs = headers.iter().map(|(name, value)| {
        (
            name.clone(),
            HeaderValue::from_str(value).expect("a header"),
        )
    });
    console().answer(method, &uri, &pairs.collect())
}

fn header(response: &Response<Body>, name: HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

#[test]
fn only_paths_of_the_console_are_answered() {
    for path in [
        "/",
        "/console/",
        "/a/b/consoles",
        "/a/b/console2/app.js",
        "/a/b",
    ] {
        assert!(get(path, &[]).is_none(), "{path}");
    }
    let moved = get("/a/b/console", &[]).expect("an answer");
    assert_eq!(moved.status(), StatusCode::PERMANENT_REDIRECT);
    assert_eq!(header(&moved, LOCATION), Some("/a/b/console/"));
    for path in [
        "/a/b/console/other.js",
        "/a/b/console/../Cargo.toml",
        "/a/b/console/vendor/LICENSE-htm",
    ] {
        let missing = get(path, &[]).map(|response| response.status());
        assert_eq!(missing, Some(StatusCode::NOT_FOUND), "{path}");
    }
    let posted = ask(&Method::POST, "/a/b/console/", &[]).expect("an answer");
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(header(&posted, ALLOW), Some("GET, HEAD"));
}

#[test]
fn the_page_says_which_families_there_are() {
    let console = console();
    let page = std::str::from_utf8(&console.page.bytes).expect("a text");
    assert!(
        page.contains("data-families=\"workflows\" data-open=\"\""),
        "{page}"
    );
    let both = Families {
        workflows: true,
        open: false,
        models: true,
    };
    assert_ne!(Console::new("", both).page.tag, console.page.tag);
}

#[test]
fn a_file_comes_in_the_coding_that_the_client_takes() {
    let path = "/a/b/console/app.js";
    for (accepted, coding) in [
        ("gzip, deflate, br", Some("gzip")),
        ("br;q=1.0, GZIP;q=0.5", Some("gzip")),
        ("*", Some("gzip")),
        ("gzip;q=0, *", None),
        ("identity", None),
    ] {
        let response = get(path, &[(ACCEPT_ENCODING, accepted)]).expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header(&response, CONTENT_ENCODING), coding, "{accepted}");
        assert_eq!(header(&response, VARY), Some("accept-encoding"));
        let tag = header(&response, ETAG).expect("a tag").to_owned();
        let known = [
            (ACCEPT_ENCODING, accepted),
            (http::header::IF_NONE_MATCH, tag.as_str()),
        ];
        let again = get(path, &known).expect("an answer");
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{accepted}");
        assert_eq!(header(&again, ETAG), Some(tag.as_str()));
    }
    let head = ask(&Method::HEAD, path, &[]).expect("an answer");
    let length = File::find("app.js").map(|file| file.plain.len().to_string());
    assert_eq!(header(&head, CONTENT_LENGTH), length.as_deref());
}

#[test]
fn files_of_this_build_are_kept_without_asking() {
    let console = console();
    let page = std::str::from_utf8(&console.page.bytes).expect("a text");
    assert!(
        page.contains(&format!("src=\"{VERSION}/app.js\"")),
        "{page}"
    );
    assert!(!page.contains(FOLDER), "{page}");
    let app = format!("/a/b/console/{VERSION}/app.js");
    let other = format!("/a/b/console/{}/vendor/htm.js", "0".repeat(VERSION.len()));
    for (path, expected) in [
        (app.as_str(), "public, max-age=31536000, immutable"),
        (&other, "no-cache"),
        ("/a/b/console/app.js", "no-cache"),
        ("/a/b/console/", "no-cache"),
    ] {
        let answer = get(path, &[]).expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        assert_eq!(header(&answer, CACHE_CONTROL), Some(expected), "{path}");
    }
    for path in ["/a/b/console/versions/app.js", "/a/b/console/vendor/app.js"] {
        let missing = get(path, &[]).map(|response| response.status());
        assert_eq!(missing, Some(StatusCode::NOT_FOUND), "{path}");
    }
    let one_more = format!("/a/b/console/{VERSION}/{VERSION}/app.js");
    let missing = get(&one_more, &[]).map(|response| response.status());
    assert_eq!(missing, Some(StatusCode::NOT_FOUND));
}

#[test]
fn nothing_but_this_server_is_let_in() {
    let page = get("/a/b/console/", &[]).expect("an answer");
    let policy = header(&page, CONTENT_SECURITY_POLICY).expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
    assert!(policy.ends_with("frame-ancestors 'none'") && !policy.contains("unsafe"));
    assert_eq!(
        header(&page, CONTENT_TYPE),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(header(&page, X_CONTENT_TYPE_OPTIONS), Some("nosniff"));
    assert_eq!(header(&page, REFERRER_POLICY), Some("no-referrer"));
    assert_eq!(header(&page, X_FRAME_OPTIONS), Some("DENY"));
}
