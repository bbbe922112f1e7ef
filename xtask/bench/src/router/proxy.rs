//! A plain proxy of hyper as a process of its own: what moving the bytes takes without a word about them.
//!
//! It stands on nothing of the programs that are measured. Connections to the partner are kept and used again.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::partner::{lines_of_input, listen};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The way to the partner.
struct Way {
    partner: SocketAddr,
    idle: Mutex<Vec<SendRequest<Incoming>>>,
}

/// Runs the process; its first line tells where it listens.
///
/// # Errors
/// When it cannot listen.
pub fn main(partner: SocketAddr, out: &mut dyn Write) -> io::Result<bool> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = listen()?;
        writeln!(out, "{}", listener.local_addr()?)?;
        out.flush()?;
        let idle = Mutex::default();
        let way = Arc::new(Way { partner, idle });
        tokio::spawn(accept(listener, way));
        lines_of_input(|| ()).await?;
        Ok(true)
    })
}

async fn accept(listener: TcpListener, way: Arc<Way>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let way = way.clone();
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let service = service_fn(move |request| forward(way.clone(), request));
            // A caller may leave at any time.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn forward(
    way: Arc<Way>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Failure> {
    let mut sender = way.sender().await?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    way.idle().push(sender);
    Ok(Response::from_parts(head, Full::new(body)))
}

impl Way {
    async fn sender(&self) -> Result<SendRequest<Incoming>, Failure> {
        loop {
            let idle = self.idle().pop();
            let Some(mut idle) = idle else {
                break;
            };
            if idle.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let stream = TcpStream::connect(self.partner).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<SendRequest<Incoming>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
