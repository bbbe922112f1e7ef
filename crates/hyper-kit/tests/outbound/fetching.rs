//! Files whole, and the bounds of size and time.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response};
use hyper_kit::Body;
use hyper_kit::client::{Client, FetchError, FetchLimits, Fetched};
use tokio::net::{TcpListener, TcpSocket};

use crate::harness::{LIMITS, Site, client_for, config, status, text};

type Chunk = Result<Bytes, io::Error>;

/// Fetches the one file of a site, whole and chunk by chunk, which comes to the same.
async fn fetched<F>(limits: FetchLimits, answer: F) -> Result<Fetched, FetchError>
where
    F: Fn() -> Response<Body> + Send + Sync + 'static,
{
    let site = Site::plain(move |_| answer()).await;
    let client = client_for(&[&site]);
    let whole = client.fetch(&site.url("/file"), limits).await;
    let chunked = downloaded(&client, &site.url("/file"), limits).await;
    let expected = whole.clone().map(|file| (file.bytes, file.content_type));
    assert_eq!(chunked, expected);
    whole
}

async fn downloaded(
    client: &Client,
    url: &str,
    limits: FetchLimits,
) -> Result<(Bytes, Option<String>), FetchError> {
    let mut download = client.download(url, limits).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = download.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    let content_type = download.content_type().map(str::to_owned);
    Ok((bytes.into(), content_type))
}

fn zeros(length: usize) -> Body {
    Body::full(vec![0; length])
}

fn chunks(count: usize) -> Body {
    let chunk = || Ok(Bytes::from_static(&[0; 256])) as Chunk;
    Body::stream(stream::iter((0..count).map(move |_| chunk())))
}

#[tokio::test]
async fn a_file_comes_with_its_type_and_address() {
    let site = Site::plain(|_| {
        let mut answer = text("pixels");
        let png = HeaderValue::from_static("image/png");
        answer.headers_mut().insert(CONTENT_TYPE, png);
        answer
    })
    .await;
    let client = client_for(&[&site]);
    let url = site.url("/a%20b/c.png?d=e");
    let fetched = client.fetch(&format!("{url}#f"), LIMITS).await;
    let expected = Fetched {
        bytes: Bytes::from_static(b"pixels"),
        content_type: Some("image/png".to_owned()),
        final_url: url,
    };
    assert_eq!(fetched, Ok(expected));

    let seen = site.seen();
    assert_eq!(seen[0].path, "/a%20b/c.png");
    assert_eq!(seen[0].authority, site.address.to_string());
    assert_eq!(seen[0].headers["accept-encoding"], "identity");
}

#[tokio::test]
async fn only_status_200_is_a_file() {
    for code in [201, 204, 206, 300, 304, 400, 401, 404, 410, 429, 500, 503] {
        let outcome = fetched(LIMITS, move || status(code)).await;
        assert_eq!(outcome, Err(FetchError::Status(code)));
    }
}

#[tokio::test]
async fn a_file_of_exactly_the_limit_passes() {
    let whole = fetched(LIMITS, || Response::new(zeros(1024))).await;
    assert_eq!(whole.map(|file| file.bytes.len()), Ok(1024));
    let streamed = fetched(LIMITS, || Response::new(chunks(4))).await;
    assert_eq!(streamed.map(|file| file.bytes.len()), Ok(1024));
}

/// The body never comes, so the refusal rests on the announcement alone.
#[tokio::test]
async fn an_announced_length_over_the_limit_is_refused_unread() {
    let outcome = fetched(LIMITS, || {
        let mut answer = Response::new(Body::stream(stream::pending::<Chunk>()));
        let length = HeaderValue::from_static("1025");
        answer.headers_mut().insert(CONTENT_LENGTH, length);
        answer
    })
    .await;
    assert_eq!(outcome, Err(FetchError::TooLarge { limit: 1024 }));
}

/// The body never ends, so the refusal rests on the count alone.
#[tokio::test]
async fn an_unannounced_length_is_counted() {
    let outcome = fetched(LIMITS, || Response::new(chunks(usize::MAX))).await;
    assert_eq!(outcome, Err(FetchError::TooLarge { limit: 1024 }));
}

#[tokio::test]
async fn a_trickle_ends_with_the_time_for_everything() {
    let limits = FetchLimits {
        total_timeout: Duration::from_millis(150),
        ..LIMITS
    };
    let outcome = fetched(limits, || {
        let ticks = tokio::time::interval(Duration::from_millis(5));
        let drops = stream::unfold(ticks, |mut ticks| async {
            ticks.tick().await;
            Some((Ok(Bytes::from_static(b".")) as Chunk, ticks))
        });
        Response::new(Body::stream(drops))
    })
    .await;
    assert_eq!(outcome, Err(FetchError::TimedOut));
}

#[tokio::test]
async fn a_silence_within_the_body_ends_it() {
    let limits = FetchLimits {
        idle_timeout: Duration::from_millis(50),
        ..LIMITS
    };
    let start = Instant::now();
    let outcome = fetched(limits, || {
        let first = stream::iter([Ok(Bytes::from_static(b"first")) as Chunk]);
        Response::new(Body::stream(first.chain(stream::pending())))
    })
    .await;
    assert_eq!(outcome, Err(FetchError::TimedOut));
    assert!(start.elapsed() < limits.total_timeout);
}

/// The socket is connected by the kernel and nobody ever reads from it.
#[tokio::test]
async fn a_host_that_never_answers_ends_with_the_time_for_everything() {
    let deaf = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = deaf.local_addr().expect("it is bound").to_string();
    let client = Client::new(config(false, std::slice::from_ref(&address))).expect("a client");
    let limits = FetchLimits {
        total_timeout: Duration::from_millis(50),
        ..LIMITS
    };
    let outcome = client.fetch(&format!("http://{address}/"), limits).await;
    assert_eq!(outcome, Err(FetchError::TimedOut));
}

#[tokio::test]
async fn half_a_file_is_no_file() {
    let outcome = fetched(LIMITS, || {
        let first: Chunk = Ok(Bytes::from_static(b"first"));
        let cut = Err(io::Error::other("cut"));
        Response::new(Body::stream(stream::iter([first, cut])))
    })
    .await;
    assert!(
        matches!(outcome, Err(FetchError::Broken { .. })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    // Bound, so that no other test gets the port, and never listening.
    let closed = TcpSocket::new_v4().expect("a socket");
    closed
        .bind(([127, 0, 0, 1], 0).into())
        .expect("a free port");
    let address = closed.local_addr().expect("it is bound").to_string();
    let client = Client::new(config(false, std::slice::from_ref(&address))).expect("a client");
    let error = client
        .fetch(&format!("http://{address}/secret"), LIMITS)
        .await
        .expect_err("nobody listens");
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error:?}");
    assert!(error.is_unsent() && !error.to_string().contains("secret"));
}
