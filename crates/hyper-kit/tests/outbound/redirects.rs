//! Redirects: few, each judged anew, none with what the caller sent.

use http::{HeaderMap, HeaderValue};
use hyper_kit::client::{FetchError, FetchLimits, Reason};

use crate::harness::{LIMITS, Site, client_for, redirect, status, text};

/// Redirects `/n` to `/n-1`, down to the file at `/0`.
async fn countdown() -> Site {
    Site::plain(|path| match path[1..].parse::<u32>() {
        Ok(0) | Err(_) => text("arrived"),
        Ok(n) => redirect(302, &format!("{}", n - 1)),
    })
    .await
}

fn paths(site: &Site) -> Vec<String> {
    site.seen().into_iter().map(|seen| seen.path).collect()
}

fn reason<T>(outcome: &Result<T, FetchError>) -> Option<Reason> {
    match outcome {
        Err(FetchError::NotAllowed { reason, .. }) => Some(*reason),
        _ => None,
    }
}

#[tokio::test]
async fn three_redirects_are_followed() {
    let site = countdown().await;
    let fetched = client_for(&[&site]).fetch(&site.url("/3"), LIMITS).await;
    assert_eq!(fetched.map(|file| file.final_url), Ok(site.url("/0")));
    assert_eq!(paths(&site), ["/3", "/2", "/1", "/0"]);
}

#[tokio::test]
async fn a_fourth_redirect_is_not_followed_whatever_the_caller_asks_for() {
    let site = countdown().await;
    let limits = FetchLimits {
        redirects: u8::MAX,
        ..LIMITS
    };
    let outcome = client_for(&[&site]).fetch(&site.url("/4"), limits).await;
    assert_eq!(reason(&outcome), Some(Reason::TooManyRedirects));
    assert_eq!(paths(&site), ["/4", "/3", "/2", "/1"]);
}

#[tokio::test]
async fn none_is_followed_where_none_is_asked_for() {
    let site = countdown().await;
    let limits = FetchLimits {
        redirects: 0,
        ..LIMITS
    };
    let outcome = client_for(&[&site]).fetch(&site.url("/1"), limits).await;
    assert_eq!(reason(&outcome), Some(Reason::TooManyRedirects));
    assert_eq!(paths(&site), ["/1"]);
}

#[tokio::test]
async fn a_loop_ends() {
    let site = Site::plain(|_| redirect(307, "/again")).await;
    let outcome = client_for(&[&site])
        .fetch(&site.url("/again"), LIMITS)
        .await;
    assert_eq!(reason(&outcome), Some(Reason::TooManyRedirects));
    assert_eq!(paths(&site).len(), 4);
}

#[tokio::test]
async fn every_redirecting_status_is_followed_and_no_other() {
    for (code, followed) in [
        (301, true),
        (302, true),
        (303, true),
        (307, true),
        (308, true),
        (300, false),
        (304, false),
        (305, false),
        (201, false),
    ] {
        let site = Site::plain(move |path| match path {
            "/" => redirect(code, "/file"),
            _ => text("arrived"),
        })
        .await;
        let outcome = client_for(&[&site]).fetch(&site.url("/"), LIMITS).await;
        if followed {
            assert!(outcome.is_ok(), "{code}: {outcome:?}");
        } else {
            assert_eq!(outcome, Err(FetchError::Status(code)));
        }
    }
    let site = Site::plain(|_| status(302)).await;
    let outcome = client_for(&[&site]).fetch(&site.url("/"), LIMITS).await;
    assert_eq!(outcome, Err(FetchError::Status(302)), "without a location");
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let hidden = Site::plain(|_| text("a secret")).await;
    let port = hidden.address.port();
    for location in [
        hidden.url("/"),
        format!("//127.0.0.1:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://0x7f000001:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://some.name.example:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://[fd00:ec2::254]/".to_owned(),
    ] {
        let to = location.clone();
        let site = Site::plain(move |_| redirect(302, &to)).await;
        let outcome = client_for(&[&site]).fetch(&site.url("/"), LIMITS).await;
        assert_eq!(reason(&outcome), Some(Reason::NotPublic), "{location}");
    }
    assert_eq!(hidden.connections(), 0);
}

#[tokio::test]
async fn a_redirect_to_no_web_address_is_refused() {
    for location in [
        "file:///etc/passwd",
        "ftp://example.com/",
        "data:text/plain,a",
        "http://user:secret@example.com/",
        "http://[::1/",
    ] {
        let site = Site::plain(move |_| redirect(302, location)).await;
        let error = client_for(&[&site])
            .fetch(&site.url("/"), LIMITS)
            .await
            .expect_err(location);
        assert!(matches!(error, FetchError::BadUrl(_)), "{error:?}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn what_the_caller_sends_goes_to_the_first_address_alone() {
    let other = Site::plain(|_| text("arrived")).await;
    let elsewhere = other.url("/file");
    let site = Site::plain(move |path| match path {
        "/first" => redirect(307, "/second"),
        _ => redirect(307, &elsewhere),
    })
    .await;
    let mut headers = HeaderMap::new();
    for name in ["authorization", "cookie", "x-key"] {
        headers.insert(name, HeaderValue::from_static("secret"));
    }
    let fetched = client_for(&[&site, &other])
        .fetch_with(&site.url("/first"), headers, LIMITS)
        .await;
    assert_eq!(fetched.map(|file| file.final_url), Ok(other.url("/file")));

    let sent: Vec<_> = [site.seen(), other.seen()].concat();
    for name in ["authorization", "cookie", "x-key"] {
        let carried = sent.iter().map(|seen| seen.headers.contains_key(name));
        assert!(carried.eq([true, false, false]), "{name}");
    }
}
