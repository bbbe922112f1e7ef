//! What a stranger may write for an address, and what a name may turn out to be; and connections that end in between.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use async_trait::async_trait;
use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use super::fetch::usable;
use super::*;
use crate::host::Host;

/// Answers each question with the next of its answers, and knows nothing when they are used up.
#[derive(Debug, Default)]
struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Resolve for Script {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.lock().expect("no panic").push(name.to_owned());
        let answer = self.answers.lock().expect("no panic").pop_front();
        let answer = answer.ok_or_else(|| io::Error::other("no such name"))?;
        let with_port = answer.into_iter().map(|ip| SocketAddr::new(ip, port));
        Ok(with_port.collect())
    }
}

/// A resolver that is waited for in vain.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Resolve for Silent {
    async fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        std::future::pending().await
    }
}

fn script(answers: &[&[&str]]) -> Script {
    let parse = |text: &&str| text.parse().expect("an address");
    let answers = answers
        .iter()
        .map(|answer| answer.iter().map(parse).collect());
    Script {
        answers: Mutex::new(answers.collect()),
        asked: Mutex::default(),
    }
}

fn policy(https_only: bool, allow_private: &[&str]) -> AddressPolicy {
    let host = |text: &&str| Host::parse(text).expect("a host");
    AddressPolicy {
        https_only,
        allow_private: allow_private.iter().map(host).collect(),
    }
}

/// Where a request for `uri` would connect to.
async fn sent_to(
    policy: &AddressPolicy,
    uri: &Uri,
    resolver: &Script,
) -> Result<Vec<SocketAddr>, FetchError> {
    policy.addresses(&policy.target(uri)?, resolver).await
}

/// Where a fetch of `url` would connect to; no name is known.
async fn fetched_from(policy: &AddressPolicy, url: &str) -> Result<Vec<SocketAddr>, FetchError> {
    let url = usable(Url::parse(url))?;
    let uri = url
        .as_str()
        .parse()
        .map_err(|_| FetchError::BadUrl("malformed"))?;
    sent_to(policy, &uri, &script(&[])).await
}

fn reason(outcome: &Result<Vec<SocketAddr>, FetchError>) -> Option<Reason> {
    match outcome {
        Err(FetchError::NotAllowed { reason, .. }) => Some(*reason),
        _ => None,
    }
}

#[tokio::test]
async fn no_spelling_of_a_private_address_passes() {
    let policy = policy(false, &[]);
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.000.000.001",
        "0177.0.0.1",
        "0177.0.0.01",
        "00000177.0.0.1",
        "0177.1",
        "017700000001",
        "0x7f.0.0.1",
        "0x7F.0x0.0x0.0x1",
        "0x7f.1",
        "0x7f.0.1",
        "0x7f000001",
        "0X7F000001",
        "0x000000007f000001",
        "2130706433",
        "2130706433.",
        "127.0x1",
        "127.0.0x0.01",
        "%31%32%37.0.0.1",
        "127%2e0%2e0%2e1",
        "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "0",
        "0.0",
        "0x0",
        "00",
        "0.0.0.0",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "169.16689662",
        "10.1",
        "012.0.0.1",
        "0xa.1",
        "167772161",
        "192.168.257",
        "0xc0a80001",
        "3232235521",
        "172.1048577",
        "100.64.1",
        "4294967295",
        "0xffffffff",
        "224.1",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[::127.0.0.1]",
        "[::7f00:1]",
        "[::ffff:127.0.0.1]",
        "[::FFFF:7F00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fc00::1]",
        "[ff02::1]",
        "[2001:db8::1]",
    ] {
        for url in [
            format!("http://{host}/"),
            format!("https://{host}:8443/a?b#c"),
        ] {
            let outcome = fetched_from(&policy, &url).await;
            assert_eq!(reason(&outcome), Some(Reason::NotPublic), "{url}");
        }
    }
}

/// A caller of `send` brings a parsed address, which no browser's rules have been over.
#[tokio::test]
async fn a_raw_request_to_a_private_address_does_not_pass_either() {
    let policy = policy(false, &[]);
    for host in [
        "127.0.0.1",
        "127.1",
        "0177.0.0.1",
        "017700000001",
        "0x7f.1",
        "0x7f000001",
        "0x7f.0x0.0x0.0x1",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "user@127.0.0.1",
        "example.com@127.0.0.1",
    ] {
        let Ok(uri) = format!("http://{host}/").parse() else {
            panic!("{host} is no address");
        };
        let resolver = script(&[]);
        let outcome = sent_to(&policy, &uri, &resolver).await;
        let refused = matches!(
            outcome,
            Err(FetchError::NotAllowed { .. } | FetchError::BadUrl(_))
        );
        assert!(refused, "{host}: {outcome:?}");
        assert!(
            resolver.asked.lock().expect("no panic").is_empty(),
            "{host}"
        );
    }
}

#[tokio::test]
async fn what_is_no_web_address_is_said_to_be_none() {
    let policy = policy(false, &[]);
    for url in [
        "",
        " ",
        "/",
        "//example.com/",
        "example.com",
        "example.com:443",
        "https://",
        "https://:443/",
        "https://[::1/",
        "https://[::1%25eth0]/",
        "https://[::g]/",
        "https://example.com:65536/",
        "https://example.com:x/",
        "https://exa mple.com/",
        "https://exa%00mple.com/",
        "https://example.com%2f@evil.test/",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://:secret@example.com/",
        "https://256.1.1.1/",
        "https://1.2.3.4.5/",
        "https://127.0.0.0x100/",
        "https://4294967296/",
        "https://999999999999/",
        "https://*/",
        "https://a..b/",
        "https://.example.com/",
        "https://$HOME/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com:70/_x",
        "data:image/png;base64,AAAA",
        "javascript:alert(1)",
        "ws://example.com/",
        "unix:/run/docker.sock",
        "dict://example.com:11211/stat",
        "jar:https://example.com!/",
    ] {
        let outcome = fetched_from(&policy, url).await;
        assert!(
            matches!(outcome, Err(FetchError::BadUrl(_))),
            "{url}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_user_name_in_an_address_is_named_as_the_trouble() {
    for url in ["https://user@8.8.8.8/", "https://:secret@8.8.8.8/"] {
        let error = fetched_from(&policy(true, &[]), url).await.expect_err(url);
        assert!(error.to_string().contains("a user name or a password"));
    }
}

#[tokio::test]
async fn public_addresses_pass_with_the_port_of_their_scheme() {
    let policy = policy(false, &[]);
    for (url, expected) in [
        ("https://8.8.8.8/", "8.8.8.8:443"),
        ("http://8.8.8.8/", "8.8.8.8:80"),
        ("https://8.8.8.8:8443/", "8.8.8.8:8443"),
        ("https:\\\\8.8.8.8\\a", "8.8.8.8:443"),
        ("https://134744072/", "8.8.8.8:443"),
        ("https://0x8.8.0x808/", "8.8.8.8:443"),
        (" https://8.8.8.8/ ", "8.8.8.8:443"),
        ("https://[2606:4700::1]/", "[2606:4700::1]:443"),
        ("https://[2606:4700::1]:99/", "[2606:4700::1]:99"),
    ] {
        let addresses = fetched_from(&policy, url).await;
        let expected = vec![expected.parse().expect("an address")];
        assert_eq!(addresses, Ok(expected), "{url}");
    }
}

#[tokio::test]
async fn one_private_address_among_many_refuses_the_name() {
    let policy = policy(true, &[]);
    let uri = Uri::from_static("https://pictures.example/");
    for answer in [
        &["127.0.0.1"][..],
        &["8.8.8.8", "127.0.0.1"],
        &["127.0.0.1", "8.8.8.8"],
        &["8.8.8.8", "2606:4700::1", "fd00:ec2::254"],
        &["8.8.8.8", "::ffff:8.8.8.8"],
    ] {
        let outcome = sent_to(&policy, &uri, &script(&[answer])).await;
        assert_eq!(reason(&outcome), Some(Reason::NotPublic), "{answer:?}");
    }
    let outcome = sent_to(&policy, &uri, &script(&[&["8.8.8.8", "2606:4700::1"]])).await;
    assert_eq!(outcome.map(|addresses| addresses.len()), Ok(2));
}

/// The second answer is what rebinding is after: it must never be asked for.
#[tokio::test]
async fn a_name_is_resolved_once() {
    let resolver = script(&[&["8.8.8.8"], &["127.0.0.1"]]);
    let uri = Uri::from_static("https://rebinding.example:444/");
    let outcome = sent_to(&policy(true, &[]), &uri, &resolver).await;
    assert_eq!(outcome, Ok(vec![SocketAddr::from(([8, 8, 8, 8], 444))]));
    let asked = resolver.asked.into_inner().expect("no panic");
    assert_eq!(asked, ["rebinding.example"]);
}

#[tokio::test]
async fn a_name_without_an_address_is_unreachable() {
    let uri = Uri::from_static("https://pictures.example/");
    for resolver in [script(&[]), script(&[&[]])] {
        let outcome = sent_to(&policy(true, &[]), &uri, &resolver).await;
        let unreachable = matches!(outcome, Err(FetchError::Unreachable { .. }));
        assert!(unreachable, "{outcome:?}");
    }
}

#[tokio::test]
async fn an_exemption_is_for_one_spelling_and_one_port() {
    let policy = policy(
        false,
        &["127.0.0.1:8188", "comfy.internal:8188", "[::1]", "nas"],
    );
    for (url, passes) in [
        ("http://127.0.0.1:8188/", true),
        ("https://127.0.0.1:8188/", true),
        ("http://127.1:8188/", true),
        ("http://127.0.0.1:8189/", false),
        ("http://127.0.0.1/", false),
        ("http://127.0.0.2:8188/", false),
        ("http://[::ffff:127.0.0.1]:8188/", false),
        ("http://comfy.internal:8188/", true),
        ("http://COMFY.internal:8188/", true),
        ("http://comfy.internal.:8188/", false),
        ("http://comfy.internal/", false),
        ("http://x.comfy.internal:8188/", false),
        ("http://localhost:8188/", false),
        ("http://[::1]/", true),
        ("http://[::1]:80/", true),
        ("https://[::1]/", true),
        ("https://[::1]:80/", false),
        ("https://nas/", true),
        ("https://nas:444/", false),
    ] {
        let uri = Url::parse(url).expect("a URL").as_str().parse();
        let uri: Uri = uri.expect("an address");
        let outcome = sent_to(&policy, &uri, &script(&[&["127.0.0.1"]])).await;
        if passes {
            assert!(outcome.is_ok(), "{url}: {outcome:?}");
        } else {
            assert_eq!(reason(&outcome), Some(Reason::NotPublic), "{url}");
        }
    }
}

#[tokio::test]
async fn plain_http_is_refused_when_only_https_is_allowed() {
    let policy = policy(true, &["127.0.0.1:8188"]);
    for url in [
        "http://8.8.8.8/",
        "HTTP://8.8.8.8:443/",
        "http://127.0.0.1:8188/",
    ] {
        let outcome = fetched_from(&policy, url).await;
        assert_eq!(reason(&outcome), Some(Reason::NotHttps), "{url}");
    }
    assert!(fetched_from(&policy, "https://8.8.8.8/").await.is_ok());
}

fn client_of(resolver: impl Resolve + 'static) -> Client {
    let config = ClientConfig {
        resolver: Arc::new(resolver),
        connect_timeout: Duration::from_secs(10),
        ..ClientConfig::default()
    };
    Client::new(config).expect("no extra authority")
}

fn limits(total_seconds: u64) -> FetchLimits {
    FetchLimits {
        max_bytes: 1024,
        total_timeout: Duration::from_secs(total_seconds),
        idle_timeout: Duration::from_secs(5),
        redirects: MOST_REDIRECTS,
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_has_a_time_of_its_own() {
    let start = tokio::time::Instant::now();
    let client = client_of(Silent);
    let outcome = client
        .fetch("https://pictures.example/", limits(3600))
        .await;
    assert!(matches!(outcome, Err(FetchError::Unreachable { .. })));
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_time_for_everything_covers_connecting() {
    let start = tokio::time::Instant::now();
    let client = client_of(Silent);
    let outcome = client.fetch("https://pictures.example/", limits(3)).await;
    assert_eq!(outcome, Err(FetchError::TimedOut));
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn no_text_shows_a_path_a_query_or_a_user() {
    let client = client_of(script(&[&["127.0.0.1"]]));
    for url in [
        "https://user:secret@pictures.example/",
        "https://pictures.example/secret?secret=secret#secret",
        "https://unknown.example/secret?secret",
        "https://127.0.0.1:1/secret?secret",
        "http://pictures.example/secret",
        "ftp://pictures.example/secret",
        "https://secret secret/",
    ] {
        let error = client.fetch(url, limits(60)).await.expect_err(url);
        let texts = format!("{error} {error:?}");
        assert!(!texts.contains("secret"), "{texts}");
        assert!(error.is_unsent(), "{texts}");
    }
}

#[test]
fn extra_authorities_must_be_certificates() {
    let of = |pem: &str| {
        let config = ClientConfig {
            extra_ca_pem: Some(pem.as_bytes().to_vec()),
            ..ClientConfig::default()
        };
        Client::new(config).expect_err("no certificate")
    };
    assert!(matches!(of(""), ExtraCaError::Empty));
    assert!(matches!(of("a text"), ExtraCaError::Empty));
    let key = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    assert!(matches!(of(key), ExtraCaError::Empty));
    let open = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    assert!(matches!(of(open), ExtraCaError::NotPem(_)));
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(of(damaged), ExtraCaError::Damaged(_)));
}

#[tokio::test]
async fn what_a_closed_connection_took_no_byte_of_goes_over_another_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        for _ in 0..2 {
            let (mut tcp, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"hello") {
                request.push(tcp.read_u8().await.expect("a request"));
            }
            let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
            tcp.write_all(answer).await.expect("it is open");
            // It hears of the end and does not answer it.
            open.push(tcp);
        }
        open
    });
    let client = Client::new(ClientConfig {
        policy: policy(false, &[&address.to_string()]),
        ..ClientConfig::default()
    });
    let client = client.expect("a client");
    let uri: Uri = format!("http://{address}/").parse().expect("an address");
    let post = || {
        let request = Request::post(uri.clone()).body(Body::full("hello"));
        client.send(request.expect("a request"))
    };
    post().await.expect("an answer");
    let target = client.policy.target(&uri).expect("it is allowed");
    let Ok(Line::Http1(mut lease)) = client.pool.kept(target) else {
        panic!("the connection is kept");
    };
    lease.stream.shutdown().await.expect("it is open");
    lease.keep();
    post().await.expect("an answer over another connection");
    server.await.expect("both were answered");
}
