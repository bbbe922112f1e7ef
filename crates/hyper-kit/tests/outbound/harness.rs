//! Servers that remember what they were asked, and clients that may reach them.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_kit::client::{AddressPolicy, Client, ClientConfig, FetchLimits, Resolve};
use hyper_kit::{Body, Host};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) const LIMITS: FetchLimits = FetchLimits {
    max_bytes: 1024,
    total_timeout: Duration::from_secs(60),
    idle_timeout: Duration::from_secs(60),
    redirects: 3,
};

/// One request as its server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) version: Version,
    /// What the request says it is for: `:authority`, else `Host`.
    pub(crate) authority: String,
    pub(crate) headers: HeaderMap,
    /// The name that TLS was begun with.
    pub(crate) sni: Option<String>,
}

/// A server on a free port of loopback; it ends with the test's runtime.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Site {
    /// Answers every request with `answer`, which is given the request's path.
    pub(crate) async fn plain<F>(answer: F) -> Self
    where
        F: Fn(&str) -> Response<Body> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        Self::on(listener.expect("a free port"), None, answer)
    }

    /// Serves on `listener`, over TLS where there is an acceptor.
    pub(crate) fn on<F>(listener: TcpListener, tls: Option<TlsAcceptor>, answer: F) -> Self
    where
        F: Fn(&str) -> Response<Body> + Send + Sync + 'static,
    {
        let site = Self {
            address: listener.local_addr().expect("it is bound"),
            seen: Arc::default(),
            connections: Arc::default(),
        };
        tokio::spawn(site.clone().accept(listener, tls, Arc::new(answer)));
        site
    }

    /// The address of `path` by the site's number.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    async fn accept<F>(self, listener: TcpListener, tls: Option<TlsAcceptor>, answer: Arc<F>)
    where
        F: Fn(&str) -> Response<Body> + Send + Sync + 'static,
    {
        while let Ok((tcp, _)) = listener.accept().await {
            self.connections.fetch_add(1, Ordering::SeqCst);
            let (site, tls, answer) = (self.clone(), tls.clone(), Arc::clone(&answer));
            tokio::spawn(async move {
                let Some(tls) = tls else {
                    return site.serve(tcp, None, answer).await;
                };
                // A client that does not trust the certificate hangs up; that is for its test to see.
                if let Ok(stream) = tls.accept(tcp).await {
                    let sni = stream.get_ref().1.server_name().map(str::to_owned);
                    site.serve(stream, sni, answer).await;
                }
            });
        }
    }

    async fn serve<S, F>(self, stream: S, sni: Option<String>, answer: Arc<F>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        F: Fn(&str) -> Response<Body> + Send + Sync + 'static,
    {
        let service = service_fn(|request: Request<Incoming>| {
            self.remember(&request, sni.clone());
            let answer = answer(request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        // Answers that break off on purpose end with an error here.
        let _ended = builder
            .serve_connection_with_upgrades(TokioIo::new(stream), service)
            .await;
    }

    fn remember(&self, request: &Request<Incoming>, sni: Option<String>) {
        let host = request.headers().get("host");
        let authority = match request.uri().authority() {
            Some(authority) => authority.to_string(),
            None => host
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(Seen {
            path: request.uri().path().to_owned(),
            version: request.version(),
            authority,
            headers: request.headers().clone(),
            sni,
        });
    }
}

/// Answers with each address in turn, and stays with the last one.
#[derive(Debug)]
pub(crate) struct Turning {
    answers: Vec<IpAddr>,
    asked: Arc<AtomicUsize>,
}

impl Turning {
    /// With a count of how often it was asked.
    pub(crate) fn new(answers: &[IpAddr]) -> (Self, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let answers = answers.to_vec();
        (
            Self {
                answers,
                asked: Arc::clone(&asked),
            },
            asked,
        )
    }
}

#[async_trait]
impl Resolve for Turning {
    async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let turn = turn.min(self.answers.len() - 1);
        Ok(vec![SocketAddr::new(self.answers[turn], port)])
    }
}

/// A client for which these hosts are exempt; every name is at loopback.
pub(crate) fn config(https_only: bool, exempt: &[String]) -> ClientConfig {
    let (loopback, _) = Turning::new(&[Ipv4Addr::LOCALHOST.into()]);
    let host = |text: &String| Host::parse(text).expect("a host");
    ClientConfig {
        policy: AddressPolicy {
            https_only,
            allow_private: exempt.iter().map(host).collect(),
        },
        resolver: Arc::new(loopback),
        ..ClientConfig::default()
    }
}

/// A client that may reach these sites by number, over plain HTTP.
pub(crate) fn client_for(sites: &[&Site]) -> Client {
    let exempt: Vec<String> = sites.iter().map(|site| site.address.to_string()).collect();
    Client::new(config(false, &exempt)).expect("no extra authority")
}

pub(crate) fn text(text: &'static str) -> Response<Body> {
    Response::new(Body::full(text))
}

pub(crate) fn status(code: u16) -> Response<Body> {
    let mut answer = text("an explanation");
    *answer.status_mut() = StatusCode::from_u16(code).expect("a status");
    answer
}

pub(crate) fn redirect(code: u16, location: &str) -> Response<Body> {
    let mut answer = status(code);
    let location = location.parse().expect("a header");
    answer.headers_mut().insert("location", location);
    answer
}
