//! Connections: read, record, answer, or go wrong as planned.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Shared;
use super::fault::Fault;
use super::partner::Partner;
use super::wire::{self, Incoming, Recorded, Reply, Request, Step};

/// What a huge answer is made of.
const FILLING: &[u8] = &[b'x'; 64 * 1024];

/// Serves until it is dropped, and its connections with it.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A client that goes away in the middle is none of a partner's business.
            let _ = serve(stream, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(incoming) = wire::read(&mut stream).await? {
        let mut released = shared.released.subscribe();
        let (reply, fault) = shared.handle(incoming);
        // An error means that the test is over.
        if matches!(fault, Some(Fault::Stall)) && released.changed().await.is_err() {
            return Ok(());
        }
        if let Some(Fault::Pieces(pieces, is_cut)) = fault {
            if !in_pieces(stream.get_mut(), &pieces, is_cut, &mut released).await? {
                return Ok(());
            }
            continue;
        }
        if !write(stream.get_mut(), reply, fault).await? {
            return Ok(());
        }
    }
    Ok(())
}

impl Shared {
    /// Records a request and works out its answer, and how the answer goes wrong on its way.
    fn handle(&self, incoming: Incoming) -> (Reply, Option<Fault>) {
        let (partner, target) = addressee(&incoming.target);
        let mut world = self.world();
        let mut step = Step::Unknown;
        let mut reply = Reply::not_found();
        let mut fault = None;
        if let Some(partner) = partner {
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            let request = Request {
                method: incoming.method.clone(),
                path: path.to_owned(),
                query: query.to_owned(),
                headers: incoming.headers.clone(),
                body: incoming.body.clone(),
                base_url: self.base_url(partner),
            };
            // What a fault keeps from being acted on was acted on in a draft alone.
            let mut draft = world.desks.entry(partner).or_default().clone();
            (step, reply) = partner.answer(&mut draft, &request);
            fault = world.faults.next(partner, step);
            if fault.as_ref().is_none_or(Fault::acts) {
                world.desks.insert(partner, draft);
            }
        }
        world.requests.push(Recorded {
            partner,
            step,
            method: incoming.method,
            target,
            headers: incoming.headers,
            body: incoming.body,
            raw: incoming.raw,
        });
        let count = world.requests.len();
        drop(world);
        self.recorded.send_replace(count);
        (reply, fault)
    }
}

/// Splits the partner's prefix off.
fn addressee(target: &str) -> (Option<Partner>, String) {
    let rest = target.strip_prefix('/').unwrap_or(target);
    let (prefix, rest) = rest.split_once('/').unwrap_or((rest, ""));
    match Partner::by_prefix(prefix) {
        Some(partner) => (Some(partner), format!("/{rest}")),
        None => (None, target.to_owned()),
    }
}

/// Writes an answer; false when the connection must end with it.
async fn write(stream: &mut TcpStream, reply: Reply, fault: Option<Fault>) -> io::Result<bool> {
    match fault {
        None | Some(Fault::Stall) => whole(stream, &reply).await,
        Some(Fault::Status(status)) => whole(stream, &Reply::json(status, "{}")).await,
        Some(Fault::Answer(status, headers, body)) => {
            let reply = Reply {
                status,
                headers,
                body,
            };
            whole(stream, &reply).await
        }
        Some(Fault::Malformed) => whole(stream, &Reply::json(reply.status, r#"{"status": "#)).await,
        Some(Fault::Redirect(to)) => {
            let mut reply = Reply::json(307, "{}");
            reply.headers.push(("location".to_owned(), to));
            whole(stream, &reply).await
        }
        Some(Fault::Huge(bytes)) => {
            let mut head = Reply::json(reply.status, "").start();
            head.push_str(&format!("content-length: {bytes}\r\n\r\n"));
            stream.write_all(head.as_bytes()).await?;
            let mut left = bytes;
            while left > 0 {
                let part = left.min(FILLING.len() as u64);
                stream.write_all(&FILLING[..part as usize]).await?;
                left -= part;
            }
            Ok(true)
        }
        Some(Fault::HugeChunked(bytes)) => {
            let mut head = Reply::json(reply.status, "").start();
            head.push_str("transfer-encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let mut left = bytes;
            while left > 0 {
                let part = left.min(FILLING.len() as u64);
                stream.write_all(format!("{part:x}\r\n").as_bytes()).await?;
                stream.write_all(&FILLING[..part as usize]).await?;
                stream.write_all(b"\r\n").await?;
                left -= part;
            }
            stream.write_all(b"0\r\n\r\n").await?;
            Ok(true)
        }
        Some(Fault::CutMidAnswer) => {
            stream.write_all(reply.head().as_bytes()).await?;
            stream
                .write_all(&reply.body[..reply.body.len() / 2])
                .await?;
            Ok(false)
        }
        Some(Fault::CutAfterRequest | Fault::CutUnread | Fault::Pieces(..)) => Ok(false),
    }
}

/// Writes a stream of events, as a test lets it go on; false when the connection must end with it.
async fn in_pieces(
    stream: &mut TcpStream,
    pieces: &[Vec<u8>],
    is_cut: bool,
    released: &mut watch::Receiver<u64>,
) -> io::Result<bool> {
    let mut head = Reply::of(200, "text/event-stream", "").start();
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    for piece in pieces {
        let size = format!("{:x}\r\n", piece.len());
        let chunk = [size.as_bytes(), piece, b"\r\n"].concat();
        stream.write_all(&chunk).await?;
        if released.changed().await.is_err() {
            return Ok(false);
        }
    }
    if !is_cut {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    Ok(!is_cut)
}

async fn whole(stream: &mut TcpStream, reply: &Reply) -> io::Result<bool> {
    let mut bytes = reply.head().into_bytes();
    bytes.extend_from_slice(&reply.body);
    stream.write_all(&bytes).await?;
    Ok(true)
}
