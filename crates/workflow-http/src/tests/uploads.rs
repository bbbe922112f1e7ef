//! Uploads that take their time: how slow they may be, and that they keep nobody else waiting. The clock is paused.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, Response};
use hyper_kit::{Body, BoxError};
use tokio::time::{Instant, sleep};

use super::harness::{Rig, Server, connection, form, principal};

fn server() -> Server {
    let rig = Rig::new();
    let older = rig.older();
    rig.server(principal("local"), |service| service.v1 = Some(older))
}

/// A form whose file comes in chunks of so many bytes, one each second.
fn dripping(field: &str, chunk: usize, chunks: usize) -> impl Stream<Item = Bytes> + use<> {
    let (_, fields) = form(
        &[("content_type", "text/plain"), ("file_path", "a.txt")],
        None,
    );
    let fields = fields.slice(..fields.len() - "--b--\r\n".len());
    let head = format!(
        "--b\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"a.txt\"\r\n\r\n"
    );
    let start = [fields, head.into()];
    let chunk = Bytes::from(vec![b'x'; chunk]);
    let file = stream::repeat(chunk).take(chunks).then(|chunk| async move {
        sleep(Duration::from_secs(1)).await;
        chunk
    });
    let end = Bytes::from_static(b"\r\n--b--\r\n");
    stream::iter(start).chain(file).chain(stream::iter([end]))
}

async fn send(
    server: &Server,
    path: &str,
    body: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let body = Body::stream(Box::pin(body.map(Ok::<_, BoxError>)));
    let request = Request::post(path)
        .header("host", "127.0.0.1:8189")
        .header("content-type", "multipart/form-data; boundary=b");
    let request = request.body(body).expect("a request");
    server.api.handle(request, connection()).await
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_trickles_ends_after_a_minute_and_a_slow_one_does_not() {
    let server = server();
    for (path, field) in [("/api/v2/assets", "file"), ("/api/upload/image", "image")] {
        let begun = Instant::now();
        let trickle = dripping(field, 1024, usize::MAX);
        assert_eq!(send(&server, path, trickle).await.status(), 408, "{path}");
        let lasted = begun.elapsed();
        assert!(lasted <= Duration::from_secs(63), "{path}: {lasted:?}");

        let begun = Instant::now();
        let slow = dripping(field, 40 * 1024, 600);
        let answer = send(&server, path, slow).await;
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        assert!(begun.elapsed() >= Duration::from_secs(600));
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_whose_uploads_trickle_is_refused_more() {
    let server = server();
    let mut held = Vec::new();
    // A chunk that never comes: each of them has its place.
    for _ in 0..32 {
        let (sender, started) = tokio::sync::oneshot::channel::<()>();
        let fields = dripping("file", 1, 1).take(2);
        let body = fields.chain(stream::once(async move {
            drop(sender);
            std::future::pending().await
        }));
        let server = server.api.clone();
        held.push(tokio::spawn(async move {
            let request = Request::post("/api/v2/assets")
                .header("host", "127.0.0.1:8189")
                .header("content-type", "multipart/form-data; boundary=b");
            let body = Body::stream(Box::pin(body.map(Ok::<_, BoxError>)));
            let request = request.body(body).expect("a request");
            server.handle(request, connection()).await
        }));
        let _ = started.await;
    }
    // Together, for the pace ends those that hold the places after 15 s.
    let (refused, older) = tokio::join!(
        send(&server, "/api/v2/assets", dripping("file", 1, 1)),
        send(&server, "/api/upload/image", dripping("image", 1, 1)),
    );
    for (refused, code) in [(refused, "too_many_uploads"), (older, "TOO_MANY_UPLOADS")] {
        assert_eq!(refused.status(), 429, "{code}");
        assert_eq!(refused.headers()["retry-after"], "5");
        let body = http_body_util::BodyExt::collect(refused.into_body()).await;
        let body = body.expect("the body is whole").to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(code), "{body:?}");
    }
    for upload in held {
        upload.abort();
        assert!(upload.await.is_err(), "it is canceled");
    }
    let answer = send(&server, "/api/v2/assets", dripping("file", 1, 1)).await;
    assert_eq!(answer.status(), 201);
}
