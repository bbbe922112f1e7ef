//! Whole forms, forms cut anywhere, and forms that are none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::HeaderValue;
use proptest::prelude::*;

use super::*;
use crate::body::Body;

const LIMITS: MultipartLimits = MultipartLimits {
    total_bytes: 100_000,
    part_bytes: 50_000,
    text_bytes: 100,
    parts: 4,
    pace: ReadPace::DEFAULT,
};

fn form_headers(content_type: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers
}

fn part(head: &str, body: &str) -> String {
    format!("--b\r\n{head}\r\n\r\n{body}\r\n")
}

fn field(name: &str, body: &str) -> String {
    part(
        &format!("Content-Disposition: form-data; name=\"{name}\""),
        body,
    )
}

fn form(body: impl Into<Bytes>, limits: MultipartLimits) -> Multipart {
    let headers = form_headers("multipart/form-data; boundary=b");
    Multipart::new(&headers, Body::full(body), limits).expect("a form")
}

/// The form as `name=text` lines, until its end or its error.
async fn read(mut form: Multipart) -> Result<Vec<String>, MultipartError> {
    let mut lines = Vec::new();
    while let Some(mut part) = form.next_part().await? {
        let mut bytes = Vec::new();
        while let Some(chunk) = part.chunk().await? {
            bytes.extend_from_slice(&chunk);
        }
        lines.push(format!(
            "{}={}",
            part.name(),
            String::from_utf8_lossy(&bytes)
        ));
    }
    Ok(lines)
}

#[tokio::test]
async fn parts_come_in_the_order_sent() {
    let file = "Content-Disposition: form-data; name=\"file\"; filename=\"猫.png\"\r\nContent-Type: image/png";
    let body =
        part(file, "\r\n--ytes--\r\n") + &field("tag", "x") + &field("tag", "") + "--b--\r\n";
    let mut form = form(body, LIMITS);

    let mut first = form.next_part().await.expect("sound").expect("a part");
    assert_eq!(first.name(), "file");
    assert_eq!(first.file_name(), Some("猫.png"));
    assert_eq!(first.content_type(), Some("image/png"));
    let mut bytes = Vec::new();
    while let Some(chunk) = first.chunk().await.expect("sound") {
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(bytes, b"\r\n--ytes--\r\n");

    for expected in ["x", ""] {
        let tag = form.next_part().await.expect("sound").expect("a part");
        assert_eq!(
            (tag.name(), tag.file_name(), tag.content_type()),
            ("tag", None, None)
        );
        assert_eq!(tag.text().await.expect("a text"), expected);
    }
    assert!(form.next_part().await.expect("sound").is_none());
    assert!(form.next_part().await.expect("sound").is_none());
}

#[tokio::test]
async fn an_unread_part_is_skipped() {
    let body = field("a", &"x".repeat(40_000)) + &field("b", "y") + "--b--";
    let mut form = form(body, LIMITS);
    assert_eq!(
        form.next_part()
            .await
            .expect("sound")
            .expect("a part")
            .name(),
        "a"
    );
    assert_eq!(
        form.next_part()
            .await
            .expect("sound")
            .expect("a part")
            .name(),
        "b"
    );
    assert!(form.next_part().await.expect("sound").is_none());
}

#[test]
fn only_forms_with_a_boundary_are_taken() {
    let judge = |content_type| {
        let headers = form_headers(content_type);
        Multipart::new(&headers, Body::empty(), LIMITS).map(|_| ())
    };
    assert!(judge("Multipart/Form-Data; charset=utf-8; boundary=\"b b\"").is_ok());
    assert!(matches!(
        judge("application/json"),
        Err(MultipartError::NotMultipart)
    ));
    assert!(matches!(
        judge("multipart/mixed; boundary=b"),
        Err(MultipartError::NotMultipart)
    ));
    assert!(matches!(
        judge("nonsense"),
        Err(MultipartError::NotMultipart)
    ));
    assert!(matches!(
        judge("multipart/form-data"),
        Err(MultipartError::NoBoundary)
    ));
    let long = "multipart/form-data; boundary=00000000000000000000000000000000000000000000000000000000000000000000000";
    assert!(matches!(judge(long), Err(MultipartError::NoBoundary)));
    let none = Multipart::new(&HeaderMap::new(), Body::empty(), LIMITS).map(|_| ());
    assert!(matches!(none, Err(MultipartError::NotMultipart)));
}

#[tokio::test]
async fn what_is_no_form_is_malformed() {
    for body in [
        String::new(),
        "no boundary at all".to_owned(),
        "--b\r\n".to_owned(),
        field("a", "x"),
        "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nnever ends".to_owned(),
        part("Content-Disposition: form-data", "x") + "--b--",
        part("X-Other: 1", "x") + "--b--",
        "--bnot a line end".to_owned(),
    ] {
        let read = read(form(body.clone(), LIMITS)).await;
        assert!(
            matches!(read, Err(MultipartError::Malformed(_))),
            "{body:?} gave {read:?}"
        );
    }
}

#[tokio::test]
async fn a_text_must_be_utf8() {
    let mut body = b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n".to_vec();
    body.extend(b"\xff\r\n--b--");
    let mut form = form(body, LIMITS);
    let text = form.next_part().await.expect("sound").expect("a part");
    assert!(matches!(
        text.text().await,
        Err(MultipartError::Malformed(_))
    ));
}

#[tokio::test]
async fn every_size_is_bounded() {
    let exact = field("a", &"x".repeat(50_000)) + "--b--";
    assert!(read(form(exact, LIMITS)).await.is_ok());
    let over = field("a", &"x".repeat(50_001)) + "--b--";
    let error = read(form(over, LIMITS)).await;
    assert!(matches!(
        error,
        Err(MultipartError::TooLarge { limit: 50_000 })
    ));

    let mut texts = form(field("a", &"x".repeat(101)) + "--b--", LIMITS);
    let text = texts.next_part().await.expect("sound").expect("a part");
    let error = text.text().await;
    assert!(matches!(
        error,
        Err(MultipartError::TooLarge { limit: 100 })
    ));

    let many = field("a", "x").repeat(5) + "--b--";
    let error = read(form(many, LIMITS)).await;
    assert!(matches!(
        error,
        Err(MultipartError::TooManyParts { limit: 4 })
    ));
}

#[tokio::test]
async fn the_whole_is_bounded_announced_or_not() {
    let headers = form_headers("multipart/form-data; boundary=b");
    let announced = Multipart::new(&headers, Body::full(vec![0; 100_001]), LIMITS);
    assert!(matches!(
        announced,
        Err(MultipartError::TooLarge { limit: 100_000 })
    ));

    let start = stream::iter([Bytes::from(field("a", "x").repeat(3) + &field("a", ""))]);
    let endless = start.chain(stream::repeat(Bytes::from_static(&[b'x'; 1000])));
    let body = Body::stream(endless.map(Ok::<_, BoxError>));
    let mut form = Multipart::new(&headers, body, LIMITS).expect("a form");
    let mut skipped = Ok(());
    while skipped.is_ok() {
        skipped = form.next_part().await.map(|part| assert!(part.is_some()));
    }
    assert!(matches!(
        skipped,
        Err(MultipartError::TooLarge { limit: 100_000 })
    ));
}

/// How much of an endless body is asked for until reading a form of it fails.
async fn taken_until_refused(start: &'static str, filler: &'static [u8]) -> usize {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let chunks = stream::iter([Bytes::from_static(start.as_bytes())])
        .chain(stream::repeat(Bytes::from_static(filler)))
        .map(move |chunk| {
            counted.fetch_add(chunk.len(), Ordering::Relaxed);
            Ok::<_, BoxError>(chunk)
        });
    let headers = form_headers("multipart/form-data; boundary=b");
    let limits = MultipartLimits {
        total_bytes: u64::MAX,
        ..LIMITS
    };
    let form = Multipart::new(&headers, Body::stream(chunks), limits).expect("a form");
    let refused = read(form).await.expect_err("an endless head");
    assert!(
        matches!(refused, MultipartError::Malformed(_)),
        "{refused:?}"
    );
    taken.load(Ordering::Relaxed)
}

#[tokio::test]
async fn a_head_or_a_search_for_one_holds_little_memory() {
    let filler = &[b'x'; 1000];
    assert!(taken_until_refused("", filler).await < 20_000);
    assert!(taken_until_refused("--b\r\nContent-Disposition: ", filler).await < 20_000);
    assert!(taken_until_refused("--b", &[b' '; 1000]).await < 20_000);
}

#[tokio::test]
async fn a_chunk_is_handed_on_before_the_next_is_taken() {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let head = Bytes::from("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n");
    let chunks = stream::iter([head])
        .chain(stream::repeat(Bytes::from_static(&[b'x'; 1000])))
        .map(move |chunk| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, BoxError>(chunk)
        });
    let headers = form_headers("multipart/form-data; boundary=b");
    let mut form = Multipart::new(&headers, Body::stream(chunks), LIMITS).expect("a form");
    let mut part = form.next_part().await.expect("sound").expect("a part");
    for handed in 1..20 {
        part.chunk().await.expect("sound").expect("a chunk");
        assert!(taken.load(Ordering::Relaxed) <= handed + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_sender_and_a_broken_one_are_told_apart() {
    let headers = form_headers("multipart/form-data; boundary=b");
    let open = |body| Multipart::new(&headers, body, LIMITS).expect("a form");

    let silent = Body::stream::<_, BoxError>(stream::pending());
    assert!(matches!(
        read(open(silent)).await,
        Err(MultipartError::Idle)
    ));

    let broken = Body::stream(stream::iter([Err(std::io::Error::other("gone"))]));
    let Err(MultipartError::Broken(cause)) = read(open(broken)).await else {
        panic!("a broken body was read");
    };
    assert_eq!(cause.to_string(), "gone");

    // The pause comes in the middle of a part, after the sender was fast.
    let start = stream::iter([Ok::<_, BoxError>(Bytes::from(
        "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx",
    ))]);
    let stalled = Body::stream(start.chain(stream::pending()));
    let begun = tokio::time::Instant::now();
    assert!(matches!(
        read(open(stalled)).await,
        Err(MultipartError::Idle)
    ));
    assert!(begun.elapsed() <= Duration::from_secs(15));
}

proptest! {
    /// However a form is cut into chunks, the same parts come out.
    #[test]
    fn chunks_do_not_matter(bodies in prop::collection::vec("[\r\n\\-bx]{0,30}", 0..4), cut in 1_usize..40) {
        let whole: String = bodies.iter().map(|body| field("a", body)).collect::<String>() + "--b--";
        // A body that holds the boundary ends there, which is the sender's fault.
        prop_assume!(bodies.iter().all(|body| !format!("\r\n{body}\r\n").contains("\r\n--b")));
        let chunks: Vec<_> = whole.as_bytes().chunks(cut).map(|chunk| Ok::<_, BoxError>(Bytes::copy_from_slice(chunk))).collect();
        let headers = form_headers("multipart/form-data; boundary=b");
        let form = Multipart::new(&headers, Body::stream(stream::iter(chunks)), LIMITS).expect("a form");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let expected: Vec<_> = bodies.iter().map(|body| format!("a={body}")).collect();
        prop_assert_eq!(runtime.block_on(read(form)).expect("sound"), expected);
    }

    /// No bytes make the reader panic or hang.
    #[test]
    fn any_bytes_end(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _ = runtime.block_on(read(form(tokens.concat(), LIMITS)));
    }
}

/// What forms are made of, and what they are not.
const TOKENS: &[&[u8]] = &[
    b"--b",
    b"--",
    b"\r\n",
    b"\r",
    b"\n",
    b"\r\n\r\n",
    b"Content-Disposition: form-data; ",
    b"name=",
    b"filename=",
    b"filename*=UTF-8''%",
    b"\"",
    b"\\",
    b";",
    b"%22",
    b"x",
    b":",
    b" ",
    b"\xff",
    b"\0",
    b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n",
];
