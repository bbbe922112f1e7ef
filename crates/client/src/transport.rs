//! Requests and their answers: one server, one credential, bounds of size and time.
//!
//! The credential goes to the configured server alone: never to another host that a link or a redirect names. A request
//! that is safe to repeat is repeated while the server is overloaded, within [`PATIENCE`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper_kit::{
    AddressPolicy, Body, BodyError, Client as HttpClient, ClientConfig as HttpConfig, FetchLimits,
    Host, ReadPace, read_limited,
};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::address::BaseUrl;
use crate::error::ClientError;
use crate::refusal::Refusal;

/// The time for a request that the server answers at once.
pub(crate) const USUAL_TIME: Duration = Duration::from_secs(30);

/// How long requests are repeated while the server is overloaded.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause before a repetition when the server names none.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest JSON answer that is read: a page of jobs with thousands of outputs has a few MiB.
const LONGEST_JSON: usize = 64 << 20;

/// The longest error answer that is read.
const LONGEST_REFUSAL: usize = 1 << 20;

/// The time for a file that a link leads to.
const LONGEST_FETCH: Duration = Duration::from_secs(600);

/// Redirects of a link that are followed.
const MOST_REDIRECTS: u8 = 3;

/// The longest silence within a body.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// The key under which an operation happens once.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LABEL: HeaderName = HeaderName::from_static("x-service-label");

/// Reads of a body that may come slowly, as long as it comes.
pub(crate) const PACE: ReadPace = ReadPace {
    idle: LONGEST_SILENCE,
    grace: LONGEST_SILENCE,
    min_bytes_per_second: 0,
};

/// What a client is made of.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where the server is.
    pub server: BaseUrl,
    /// The API key or token; none for an open server.
    pub credential: Option<SecretString>,
    /// Authorities to trust beside the usual ones: the content of a PEM file.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// How the client calls itself.
    pub user_agent: String,
}

/// A client of one server. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: HttpClient,
    config: ClientConfig,
    authorization: Option<HeaderValue>,
}

/// One request to the server.
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    /// An absolute address on the server.
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The time until the head of the answer.
    pub(crate) time: Duration,
    /// Whether the request may be sent again.
    pub(crate) repeatable: bool,
    /// Observes the pauses between repetitions.
    pub(crate) waiting: Option<&'a mut (dyn FnMut(Duration) + Send)>,
}

/// What a server answers to a question of health.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The status.
    pub status: u16,
    /// The body, if it is JSON.
    pub body: Value,
    /// The server's clock: the header `Date`.
    pub date: Option<String>,
}

impl Client {
    /// Makes a client; it connects with the first request.
    ///
    /// # Errors
    /// [`ClientError::Setting`] if the credential or the extra authorities cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        let authorization = config.credential.as_ref().map(bearer).transpose()?;
        let http = http_client(&config, config.server.host().clone())?;
        Ok(Self {
            inner: Arc::new(Inner {
                http,
                config,
                authorization,
            }),
        })
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &BaseUrl {
        &self.inner.config.server
    }

    /// Whether requests carry a credential.
    #[must_use]
    pub fn has_credential(&self) -> bool {
        self.inner.authorization.is_some()
    }

    /// Asks a path of the server's root, such as `/ready`; any status is an answer.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn probe(&self, path: &str) -> Result<Probe, ClientError> {
        let url = self.server().join(path);
        let request = self.request(&Method::GET, &url, HeaderMap::new(), Body::empty())?;
        let answer = self.exchange(request, USUAL_TIME).await?;
        let (head, body) = answer.into_parts();
        let body = read_limited(body, LONGEST_REFUSAL, PACE).await;
        let body = body.map_err(|error| broken(&error))?;
        let date = head.headers.get(http::header::DATE);
        Ok(Probe {
            status: head.status.as_u16(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            date: date.and_then(|date| date.to_str().ok().map(str::to_owned)),
        })
    }

    /// Fetches a link that an answer holds, without the credential: from the server itself or the public internet.
    ///
    /// # Errors
    /// If the link leads elsewhere, is not answered with 200, or has more than `most_bytes`.
    pub async fn fetch_link(&self, url: &str, most_bytes: usize) -> Result<Bytes, ClientError> {
        let limits = FetchLimits {
            max_bytes: most_bytes,
            total_timeout: LONGEST_FETCH,
            idle_timeout: LONGEST_SILENCE,
            redirects: MOST_REDIRECTS,
        };
        let fetched = self.inner.http.fetch(url, limits).await?;
        Ok(fetched.bytes)
    }

    /// `GET` of JSON.
    pub(crate) async fn get_json<T: DeserializeOwned>(
        &self,
        url: String,
    ) -> Result<T, ClientError> {
        json(self.ask(Asked::get(url)).await?).await
    }

    /// Sends a request until it is answered, and turns a refusal into an error.
    pub(crate) async fn ask(&self, mut asked: Asked<'_>) -> Result<Response<Body>, ClientError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let failed = match self.ask_once(&asked).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let refusal = failed.refusal();
            let is_wanted_again = refusal.is_some_and(|refusal| {
                refusal.status == 503 || (refusal.status == 429 && refusal.retry_after.is_some())
            });
            let is_repeated = is_wanted_again || matches!(failed, ClientError::Interrupted(_));
            let pause = refusal
                .and_then(|refusal| refusal.retry_after)
                .unwrap_or(PAUSE);
            if !asked.repeatable || !is_repeated || Instant::now() + pause > until {
                return Err(failed);
            }
            if let Some(waiting) = &mut asked.waiting {
                waiting(pause);
            }
            sleep(pause).await;
        }
    }

    async fn ask_once(&self, asked: &Asked<'_>) -> Result<Response<Body>, ClientError> {
        let body = Body::full(asked.body.clone());
        let request = self.request(&asked.method, &asked.url, asked.headers.clone(), body)?;
        accepted(self.exchange(request, asked.time).await?).await
    }

    /// Sends a request with a body that cannot be sent twice.
    pub(crate) async fn send_stream(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Body,
        time: Duration,
    ) -> Result<Response<Body>, ClientError> {
        let request = self.request(&Method::POST, url, headers, body)?;
        accepted(self.exchange(request, time).await?).await
    }

    /// Follows an address that a redirect of the server names: without the credential, and never from `https` to `http`.
    pub(crate) async fn redirected(
        &self,
        from: &str,
        location: &str,
        headers: HeaderMap,
    ) -> Result<Response<Body>, ClientError> {
        let unusable = || {
            ClientError::Unexpected("the server redirects to an address that cannot be used".into())
        };
        let from = Url::parse(from).map_err(|_| unusable())?;
        let to = from.join(location).map_err(|_| unusable())?;
        if from.scheme() == "https" && to.scheme() != "https" {
            return Err(ClientError::Unexpected(
                "the server redirects from https to http; inform its operator".to_owned(),
            ));
        }
        let host = match (to.host_str(), to.port()) {
            (Some(name), Some(port)) => Host::parse(&format!("{name}:{port}")),
            (Some(name), None) => Host::parse(name),
            (None, _) => None,
        };
        // The user trusts the server to name its object store, also one in a private network.
        let http = http_client(&self.inner.config, host.ok_or_else(unusable)?)?;
        let mut request = Request::get(to.as_str())
            .body(Body::empty())
            .map_err(|_| unusable())?;
        *request.headers_mut() = headers;
        let answer = timeout(USUAL_TIME, http.send(request)).await;
        accepted(answer.map_err(|_| late(self.server()))??).await
    }

    /// A link of the server when it leads to the server itself; otherwise the path of the contract. A server behind a proxy
    /// may not know its own address, and the credential goes nowhere else.
    pub(crate) fn own(&self, link: Option<&str>, path: &str) -> String {
        let is_own = |link: &&str| {
            Url::parse(link).is_ok_and(|address| self.server().is_origin_of(&address))
        };
        match link.filter(is_own) {
            Some(link) => link.to_owned(),
            None => self.server().join(path),
        }
    }

    fn request(
        &self,
        method: &Method,
        url: &str,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Request<Body>, ClientError> {
        let request = Request::builder()
            .method(method.clone())
            .uri(url)
            .body(body);
        let mut request = request.map_err(|_| {
            ClientError::Setting(format!("{url:?} is no address; correct the id in it"))
        })?;
        *request.headers_mut() = headers;
        if let Some(authorization) = &self.inner.authorization {
            request
                .headers_mut()
                .insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    async fn exchange(
        &self,
        request: Request<Body>,
        time: Duration,
    ) -> Result<Response<Body>, ClientError> {
        let answer = timeout(time, self.inner.http.send(request)).await;
        Ok(answer.map_err(|_| late(self.server()))??)
    }
}

impl Asked<'_> {
    pub(crate) fn get(url: String) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Self {
            method: Method::GET,
            url,
            headers,
            body: Bytes::new(),
            time: USUAL_TIME,
            repeatable: true,
            waiting: None,
        }
    }

    /// A request whose repetition does nothing twice.
    pub(crate) fn of(method: Method, url: String) -> Self {
        Self {
            method,
            ..Self::get(url)
        }
    }

    pub(crate) fn post_json(url: String, body: Bytes) -> Self {
        let mut asked = Self::of(Method::POST, url);
        let json = HeaderValue::from_static("application/json");
        asked.headers.insert(CONTENT_TYPE, json);
        asked.body = body;
        asked
    }

    /// Makes the request happen once under a key.
    pub(crate) fn once(mut self, key: &str) -> Result<Self, ClientError> {
        let value = HeaderValue::from_str(key)
            .ok()
            .filter(|_| (1..=255).contains(&key.len()));
        let value = value.ok_or_else(|| {
            let message =
                "an idempotency key has 1 to 255 printable ASCII characters; choose another";
            ClientError::Setting(message.to_owned())
        })?;
        self.headers.insert(IDEMPOTENCY_KEY, value);
        Ok(self)
    }

    /// Hangs labels on a call.
    pub(crate) fn labelled(mut self, labels: &[(String, String)]) -> Result<Self, ClientError> {
        for (key, value) in labels {
            let value = HeaderValue::from_str(&format!("{key}={value}"));
            let value = value.map_err(|_| {
                ClientError::Setting(format!(
                    "the label {key:?} has control characters; leave them out"
                ))
            })?;
            self.headers.append(LABEL, value);
        }
        Ok(self)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", self.server())
            .field("has_credential", &self.has_credential())
            .finish()
    }
}

/// Reads a JSON answer.
pub(crate) async fn json<T: DeserializeOwned>(answer: Response<Body>) -> Result<T, ClientError> {
    let bytes = whole(answer, LONGEST_JSON).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        ClientError::Unexpected(format!(
            "the server answers something else than the contract says ({error}); check the address of the server"
        ))
    })
}

/// Reads a body whole.
pub(crate) async fn whole(answer: Response<Body>, limit: usize) -> Result<Bytes, ClientError> {
    let body = read_limited(answer.into_body(), limit, PACE).await;
    body.map_err(|error| broken(&error))
}

/// An answer that is none of the refusals; redirects pass.
async fn accepted(answer: Response<Body>) -> Result<Response<Body>, ClientError> {
    let status = answer.status();
    if status.is_success() || status.is_redirection() || status == StatusCode::NOT_MODIFIED {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let body = read_limited(body, LONGEST_REFUSAL, PACE).await;
    let body = body.unwrap_or_default();
    let refusal = Refusal::read(status, &head.headers, &body);
    Err(ClientError::Refused(Box::new(refusal)))
}

pub(crate) fn broken(error: &BodyError) -> ClientError {
    match error {
        BodyError::TooLarge { limit } => ClientError::Unexpected(format!(
            "the answer is larger than {limit} bytes; ask for less"
        )),
        BodyError::Idle => {
            ClientError::Interrupted("the answer stopped arriving; try again".to_owned())
        }
        BodyError::Broken(cause) => ClientError::Interrupted(format!(
            "the connection broke before the end of the answer ({cause}); try again"
        )),
    }
}

fn late(server: &BaseUrl) -> ClientError {
    ClientError::Interrupted(format!("{server} did not answer in time; try again later"))
}

fn bearer(credential: &SecretString) -> Result<HeaderValue, ClientError> {
    let value = HeaderValue::try_from(format!("Bearer {}", credential.expose_secret()));
    let mut value = value.map_err(|_| {
        let message = "the API key has characters that no key has; sign in again";
        ClientError::Setting(message.to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// A client that may reach `host` wherever it is: the user named it, or the server that the user named did.
fn http_client(config: &ClientConfig, host: Host) -> Result<HttpClient, ClientError> {
    let setting = |text: &str| ClientError::Setting(text.to_owned());
    let user_agent = HeaderValue::try_from(&config.user_agent)
        .map_err(|_| setting("the name of the client is no header value"))?;
    let client = HttpClient::new(HttpConfig {
        policy: AddressPolicy {
            https_only: false,
            allow_private: vec![host],
        },
        extra_ca_pem: config.extra_ca_pem.clone(),
        user_agent: Some(user_agent),
        ..HttpConfig::default()
    });
    client.map_err(|error| setting(&error.to_string()))
}
