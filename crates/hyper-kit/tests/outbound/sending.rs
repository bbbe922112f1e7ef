//! Requests other than fetches, and where their connections go.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use http_body_util::BodyExt;
use hyper_kit::Body;
use hyper_kit::client::{Client, ClientConfig, FetchError, Reason};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{LIMITS, Site, Turning, client_for, config, redirect, status, text};

#[tokio::test]
async fn an_answer_comes_as_it_is() {
    let site = Site::plain(|path| match path {
        "/moved" => redirect(302, "/elsewhere"),
        _ => status(503),
    })
    .await;
    let client = client_for(&[&site]);
    for (path, code) in [("/moved", 302), ("/down", 503)] {
        let request = Request::post(site.url(path)).body(Body::full("a body"));
        let answer = client.send(request.expect("a request")).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), code);
        let body = answer.into_body().collect().await.expect("a body");
        assert_eq!(body.to_bytes(), "an explanation");
    }
    let paths: Vec<_> = site.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/moved", "/down"]);
}

#[tokio::test]
async fn a_user_agent_is_added_where_there_is_none() {
    let site = Site::plain(|_| text("a page")).await;
    let client = Client::new(ClientConfig {
        user_agent: Some(HeaderValue::from_static("easel")),
        ..config(false, &[site.address.to_string()])
    })
    .expect("no extra authority");
    let fetched = client.fetch(&site.url("/"), LIMITS).await;
    assert!(fetched.is_ok(), "{fetched:?}");
    let request = Request::get(site.url("/")).header("user-agent", "other");
    let request = request.body(Body::empty()).expect("a request");
    let answer = client.send(request).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let agents = site.seen().into_iter().map(|seen| {
        let agent = &seen.headers["user-agent"];
        agent.to_str().expect("ASCII").to_owned()
    });
    assert!(agents.eq(["easel", "other"]));
}

#[tokio::test]
async fn a_request_without_a_usable_address_is_not_sent() {
    let site = Site::plain(|_| text("a page")).await;
    let client = client_for(&[&site]);
    for (uri, method) in [
        ("/path", Method::GET),
        ("ws://example.com/", Method::GET),
        ("http://user:secret@example.com/", Method::GET),
        ("example.com:443", Method::CONNECT),
    ] {
        let request = Request::builder().method(method).uri(uri);
        let request = request.body(Body::empty()).expect("a request");
        let error = client.send(request).await.expect_err(uri);
        assert!(matches!(error, FetchError::BadUrl(_)), "{error:?}");
    }
    assert_eq!(site.connections(), 0);
}

/// The same port on two addresses of loopback: the name is at the first while it is vetted, and at the second after.
#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_vetted() {
    let (first, second): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
    let listener = TcpListener::bind((first, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let vetted = Site::on(listener, None, |_| text("vetted"));
    let listener = TcpListener::bind((second, port)).await.expect("free too");
    let rebound = Site::on(listener, None, |_| text("rebound"));

    let (resolver, asked) = Turning::new(&[first, second]);
    let name = format!("rebinding.example:{port}");
    let client = Client::new(ClientConfig {
        resolver: Arc::new(resolver),
        ..config(false, std::slice::from_ref(&name))
    })
    .expect("no extra authority");
    let fetched = client.fetch(&format!("http://{name}/"), LIMITS).await;
    let bytes = fetched.map(|file| file.bytes);
    assert_eq!(bytes.as_deref(), Ok(&b"vetted"[..]));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(vetted.seen()[0].authority, name);
    assert_eq!(rebound.connections(), 0);
}

#[tokio::test]
async fn a_name_at_loopback_is_refused_before_a_socket_is_opened() {
    let site = Site::plain(|_| text("a secret")).await;
    let client = Client::new(config(false, &[])).expect("no extra authority");
    let url = format!("http://pictures.example:{}/", site.address.port());
    for url in [url, site.url("/")] {
        let outcome = client.fetch(&url, LIMITS).await;
        let Err(FetchError::NotAllowed { reason, .. }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(reason, Reason::NotPublic);
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn a_dead_address_gives_way_to_the_next() {
    #[derive(Debug)]
    struct Both;
    #[async_trait::async_trait]
    impl hyper_kit::client::Resolve for Both {
        async fn resolve(&self, _: &str, port: u16) -> std::io::Result<Vec<std::net::SocketAddr>> {
            // Nobody listens on the first at this port.
            let addresses = [Ipv4Addr::new(127, 0, 0, 3), Ipv4Addr::LOCALHOST];
            Ok(addresses.map(|ip| (ip, port).into()).to_vec())
        }
    }
    let site = Site::plain(|_| text("a page")).await;
    let name = format!("two.example:{}", site.address.port());
    let client = Client::new(ClientConfig {
        resolver: Arc::new(Both),
        ..config(false, std::slice::from_ref(&name))
    })
    .expect("no extra authority");
    let fetched = client.fetch(&format!("http://{name}/"), LIMITS).await;
    assert!(fetched.is_ok(), "{fetched:?}");
}

/// What a WebSocket begins with.
#[tokio::test]
async fn a_connection_can_be_upgraded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let server = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tcp.read_u8().await.expect("a byte"));
        }
        let switch =
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
        tcp.write_all(switch).await.expect("it is open");
        let mut word = [0; 4];
        tcp.read_exact(&mut word).await.expect("four bytes");
        tcp.write_all(&word).await.expect("it is open");
    });

    let client = Client::new(config(false, std::slice::from_ref(&address))).expect("a client");
    let request = Request::get(format!("http://{address}/ws"))
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "echo")
        .body(Body::empty())
        .expect("a request");
    let answer = client.send(request).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(answer.version(), Version::HTTP_11);
    let upgraded = hyper::upgrade::on(answer).await.expect("an upgrade");
    let mut stream = TokioIo::new(upgraded);
    stream.write_all(b"ping").await.expect("it is open");
    let mut echo = [0; 4];
    stream.read_exact(&mut echo).await.expect("an echo");
    assert_eq!(&echo, b"ping");
    server.await.expect("it served");
}
