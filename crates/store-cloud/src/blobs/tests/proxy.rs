//! An object store in trouble: a proxy in front of a real one that breaks requests in the order it was told to.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_kit::{AddressPolicy, Body, BoxError, Client, ClientConfig, Host};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::BucketOptions;

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Nothing.
    Pass,
    /// It gets this status and goes no further.
    Status(StatusCode),
    /// It is carried out, and the connection closes in place of the answer.
    LostAnswer,
    /// Its answer ends after so many bytes of the body.
    Cut(usize),
    /// It is never answered.
    Silence,
}

/// Faults of each method that are still to come.
type Plan = Arc<Mutex<Vec<(Method, VecDeque<Fault>)>>>;

/// The proxy; it ends with the runtime of its test.
pub(super) struct Proxy {
    plan: Plan,
    /// The bucket through the proxy.
    pub(super) options: BucketOptions,
}

impl Proxy {
    /// A proxy in front of this bucket.
    pub(super) async fn start(bucket: &BucketOptions) -> Self {
        let upstream = bucket.endpoint.clone().expect("a server of this process");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let options = BucketOptions {
            endpoint: Some(format!("http://{address}")),
            ..bucket.clone()
        };
        let plan = Plan::default();
        let there = upstream
            .parse::<Uri>()
            .ok()
            .and_then(|uri| Host::parse(uri.authority()?.as_str()));
        let client = Client::new(ClientConfig {
            policy: AddressPolicy {
                https_only: false,
                allow_private: there.into_iter().collect(),
            },
            ..ClientConfig::default()
        });
        let (client, faults) = (client.expect("no authorities"), Arc::clone(&plan));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, upstream) = (client.clone(), upstream.clone());
                let faults = Arc::clone(&faults);
                let service = service_fn(move |request| {
                    answer(
                        request,
                        client.clone(),
                        upstream.clone(),
                        Arc::clone(&faults),
                    )
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // Connections break on purpose.
                tokio::spawn(async move { drop(served.await) });
            }
        });
        Self { plan, options }
    }

    /// Has the next requests of a method break so.
    pub(super) fn plan(&self, method: &Method, faults: impl IntoIterator<Item = Fault>) {
        let faults = faults.into_iter().collect();
        self.plan
            .lock()
            .expect("no panic")
            .push((method.clone(), faults));
    }

    /// Has no further request break.
    pub(super) fn forget(&self) {
        self.plan.lock().expect("no panic").clear();
    }

    /// How many faults were not met.
    pub(super) fn left(&self) -> usize {
        let plan = self.plan.lock().expect("no panic");
        plan.iter().map(|(_, faults)| faults.len()).sum()
    }
}

async fn answer(
    request: Request<Incoming>,
    client: Client,
    upstream: String,
    plan: Plan,
) -> Result<Response<Body>, BoxError> {
    let fault = {
        let mut plan = plan.lock().expect("no panic");
        let mut of_method = plan
            .iter_mut()
            .filter(|(method, _)| method == request.method());
        of_method.find_map(|(_, faults)| faults.pop_front())
    };
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    match fault {
        Some(Fault::Status(status)) => {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = status;
            return Ok(answer);
        }
        Some(Fault::Silence) => return Ok(std::future::pending().await),
        Some(Fault::Pass | Fault::LostAnswer | Fault::Cut(_)) | None => {}
    }
    parts.uri = format!("{upstream}{}", parts.uri).parse()?;
    let answer = client
        .send(Request::from_parts(parts, Body::full(body)))
        .await?;
    match fault {
        Some(Fault::Cut(after)) => {
            let (parts, body) = answer.into_parts();
            let mut bytes = body.collect().await?.to_bytes();
            bytes.truncate(after);
            let cut: [Result<Bytes, BoxError>; 2] = [Ok(bytes), Err("cut".into())];
            Ok(Response::from_parts(parts, Body::stream(stream::iter(cut))))
        }
        Some(Fault::LostAnswer) => {
            answer.into_body().collect().await?;
            Err("lost".into())
        }
        Some(Fault::Pass | Fault::Status(_) | Fault::Silence) | None => Ok(answer),
    }
}
