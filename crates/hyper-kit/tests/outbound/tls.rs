//! TLS against servers with certificates of their own, reached by an exemption and an extra authority.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_kit::client::{Client, ClientConfig, FetchError, Reason};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::harness::{LIMITS, Site, config, redirect, text};

const NAME: &str = "pictures.example";

/// What accepts TLS with a certificate for `name`, and that certificate as PEM.
fn acceptor(name: &str, protocols: &[&str]) -> (TlsAcceptor, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let key = signing_key.serialize_der().try_into().expect("a key");
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks both")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("they belong together");
    tls.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().into())
        .collect();
    (TlsAcceptor::from(Arc::new(tls)), pem(cert.der()))
}

/// A site whose certificate is for `name`, and that certificate as PEM.
async fn secure_site(name: &str, protocols: &[&str], to: Option<&'static str>) -> (Site, String) {
    let (acceptor, pem) = acceptor(name, protocols);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let site = Site::on(listener, Some(acceptor), move |_| match to {
        Some(to) => redirect(302, to),
        None => text("pixels"),
    });
    (site, pem)
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

fn url(host: &str, site: &Site) -> String {
    url_at(host, site.address)
}

fn url_at(host: &str, address: SocketAddr) -> String {
    format!("https://{host}:{}/file", address.port())
}

/// A client that trusts `pem` and may reach the site by `host`.
fn trusting(pem: Option<&str>, host: &str, site: &Site) -> Client {
    trusting_at(pem, host, site.address)
}

fn trusting_at(pem: Option<&str>, host: &str, address: SocketAddr) -> Client {
    let exempt = format!("{host}:{}", address.port());
    Client::new(ClientConfig {
        extra_ca_pem: pem.map(|pem| pem.as_bytes().to_vec()),
        ..config(true, &[exempt])
    })
    .expect("a certificate")
}

#[tokio::test]
async fn the_name_is_kept_and_the_protocol_agreed_upon() {
    for (offered, spoken) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (site, pem) = secure_site(NAME, offered, None).await;
        let client = trusting(Some(&pem), NAME, &site);
        let fetched = client.fetch(&url(NAME, &site), LIMITS).await;
        let bytes = fetched.map(|file| file.bytes);
        assert_eq!(bytes.as_deref(), Ok(&b"pixels"[..]), "{offered:?}");

        let seen = &site.seen()[0];
        assert_eq!(seen.version, spoken);
        assert_eq!(seen.sni.as_deref(), Some(NAME));
        assert_eq!(seen.authority, format!("{NAME}:{}", site.address.port()));
    }
}

#[tokio::test]
async fn a_certificate_may_be_for_an_address() {
    let (site, pem) = secure_site("127.0.0.1", &["h2"], None).await;
    let client = trusting(Some(&pem), "127.0.0.1", &site);
    let fetched = client.fetch(&url("127.0.0.1", &site), LIMITS).await;
    assert!(fetched.is_ok(), "{fetched:?}");
    assert_eq!(site.seen()[0].sni, None);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (site, pem) = secure_site(NAME, &["h2"], None).await;
    let client = trusting(Some(&pem), NAME, &site);
    for _ in 0..3 {
        let fetched = client.fetch(&url(NAME, &site), LIMITS).await;
        assert!(fetched.is_ok(), "{fetched:?}");
    }
    assert_eq!((site.seen().len(), site.connections()), (3, 1));
}

/// A burst of requests to a host that was never asked before.
#[tokio::test]
async fn requests_at_once_share_what_can_be_shared() {
    const REQUESTS: usize = 8;
    for (protocol, most_connections) in [("h2", 1), ("http/1.1", REQUESTS)] {
        let (site, pem) = secure_site(NAME, &[protocol], None).await;
        let client = trusting(Some(&pem), NAME, &site);
        let url = url(NAME, &site);
        let fetches = (0..REQUESTS).map(|_| client.fetch(&url, LIMITS));
        for fetched in join_all(fetches).await {
            assert_eq!(
                fetched.map(|file| file.bytes).as_deref(),
                Ok(&b"pixels"[..])
            );
        }
        assert_eq!(site.seen().len(), REQUESTS);
        assert!(
            (1..=most_connections).contains(&site.connections()),
            "{protocol}"
        );
    }
}

/// A server that says after every answer that it takes no more over this connection.
#[tokio::test]
async fn a_connection_that_takes_no_more_requests_is_replaced() {
    let (acceptor, pem) = acceptor(NAME, &["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let stream = acceptor.accept(tcp).await.expect("a client that trusts it");
            tokio::spawn(async move {
                let answered = Notify::new();
                let service = service_fn(|_: Request<Incoming>| {
                    answered.notify_one();
                    async { Ok::<_, Infallible>(text("pixels")) }
                });
                let builder = http2::Builder::new(TokioExecutor::new());
                let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
                tokio::select! {
                    _ended = connection.as_mut() => return,
                    () = answered.notified() => connection.as_mut().graceful_shutdown(),
                }
                let _ended = connection.await;
            });
        }
    });
    let client = trusting_at(Some(&pem), NAME, address);
    for _ in 0..4 {
        let fetched = client.fetch(&url_at(NAME, address), LIMITS).await;
        assert_eq!(
            fetched.map(|file| file.bytes).as_deref(),
            Ok(&b"pixels"[..])
        );
    }
    assert!((2..=4).contains(&connections.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let (site, _) = secure_site(NAME, &["h2"], None).await;
    let client = trusting(None, NAME, &site);
    let outcome = client.fetch(&url(NAME, &site), LIMITS).await;
    let Err(FetchError::Tls { host, cause }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(host, format!("{NAME}:{}", site.address.port()));
    assert!(cause.contains("UnknownIssuer"), "{cause}");
    assert!(site.seen().is_empty());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted() {
    let (site, pem) = secure_site("other.example", &["h2"], None).await;
    let client = trusting(Some(&pem), NAME, &site);
    let outcome = client.fetch(&url(NAME, &site), LIMITS).await;
    assert!(
        matches!(outcome, Err(FetchError::Tls { .. })),
        "{outcome:?}"
    );
    assert!(site.seen().is_empty());
}

#[tokio::test]
async fn a_server_without_tls_is_no_secure_server() {
    let site = Site::plain(|_| text("pixels")).await;
    let client = trusting(None, NAME, &site);
    let outcome = client.fetch(&url(NAME, &site), LIMITS).await;
    assert!(
        matches!(outcome, Err(FetchError::Tls { .. })),
        "{outcome:?}"
    );
}

/// The socket is connected by the kernel, and nobody ever answers the handshake.
#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    let deaf = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = deaf.local_addr().expect("it is bound").to_string();
    let client = Client::new(ClientConfig {
        connect_timeout: Duration::from_millis(50),
        ..config(true, std::slice::from_ref(&address))
    })
    .expect("no extra authority");
    let outcome = client.fetch(&format!("https://{address}/"), LIMITS).await;
    let unreachable = matches!(outcome, Err(FetchError::Unreachable { .. }));
    assert!(unreachable, "{outcome:?}");
}

#[tokio::test]
async fn plain_http_is_refused_when_only_https_is_allowed() {
    let site = Site::plain(|_| text("pixels")).await;
    let address = site.address.to_string();
    let client = Client::new(config(true, &[address])).expect("no extra authority");
    let outcome = client.fetch(&site.url("/"), LIMITS).await;
    let Err(FetchError::NotAllowed { reason, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, Reason::NotHttps);
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn a_redirect_never_leads_out_of_tls() {
    let (site, pem) = secure_site(NAME, &["h2"], Some("http://8.8.8.8/")).await;
    for https_only in [true, false] {
        let mut config = ClientConfig {
            extra_ca_pem: Some(pem.clone().into_bytes()),
            ..config(https_only, &[])
        };
        let exempt = format!("{NAME}:{}", site.address.port());
        config.policy.allow_private = vec![hyper_kit::Host::parse(&exempt).expect("a host")];
        let client = Client::new(config).expect("a certificate");
        let outcome = client.fetch(&url(NAME, &site), LIMITS).await;
        let Err(FetchError::NotAllowed { host, reason }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!((host.as_str(), reason), ("8.8.8.8", Reason::NotHttps));
    }
}
