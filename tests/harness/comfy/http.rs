//! The HTTP of a simulated ComfyUI: requests with bodies of both framings, answers that may go wrong.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::routes;
use super::socket;
use super::world::{Shared, World};

/// How long a byte of a slow upload takes.
const SLOW_BYTE: Duration = Duration::from_millis(500);

/// A request, whole.
pub(super) struct Incoming {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) websocket_key: Option<String>,
    pub(super) body: Vec<u8>,
    /// The trace that it names.
    pub(super) traceparent: Option<String>,
    /// It lacks the header that every request must have.
    pub(super) is_refused: bool,
}

/// What is answered.
pub(super) enum Reply {
    Json(u16, String),
    Bytes(Vec<u8>),
    /// Says a longer length than it has.
    Short(Vec<u8>),
    Empty(u16),
    /// The connection is closed without an answer.
    Cut,
}

/// Serves until it is dropped, and its connections with it.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let mut life = shared.life.subscribe();
            tokio::select! {
                _ = serve(stream, &shared) => {}
                // The process of this connection was killed.
                _ = life.changed() => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream, shared).await? {
        thaw(shared).await;
        if request.is_refused {
            write(stream.get_mut(), Reply::Json(401, "{}".to_owned())).await?;
            continue;
        }
        if let Some(key) = &request.websocket_key {
            return socket::serve(stream, shared, &request.query, key).await;
        }
        let reply = routes::answer(shared, &request);
        thaw(shared).await;
        if !write(stream.get_mut(), reply).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits while the process is frozen.
pub(super) async fn thaw(shared: &Shared) {
    let mut frozen = shared.frozen.subscribe();
    // An error means that the test is over.
    let _ = frozen.wait_for(|frozen| !frozen).await;
}

async fn read(stream: &mut BufReader<TcpStream>, shared: &Shared) -> io::Result<Option<Incoming>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Incoming {
        method,
        path: path.strip_prefix("/api").unwrap_or(path).to_owned(),
        query: query.to_owned(),
        websocket_key: None,
        traceparent: None,
        body: Vec::new(),
        is_refused: false,
    };
    let (mut length, mut chunked) = (0, false);
    let required = shared.world().required.clone();
    request.is_refused = required.is_some();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim();
        let is_required =
            |(wanted, of): &(String, String)| name.eq_ignore_ascii_case(wanted) && value == of;
        if required.as_ref().is_some_and(is_required) {
            request.is_refused = false;
        }
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "traceparent" => request.traceparent = Some(value.to_owned()),
            "sec-websocket-key" => request.websocket_key = Some(value.to_owned()),
            _ => {}
        }
    }
    let is_upload = request.path == "/upload/image";
    if is_upload && World::take(&mut shared.world().cut_uploads) {
        return Ok(None);
    }
    if is_upload && World::take(&mut shared.world().slow_uploads) {
        shared.world().was_slow = true;
        shared.changed.notify_waiters();
        // What is taken so slowly is never whole: its client gives up, or the test ends.
        loop {
            stream.read_u8().await?;
            sleep(SLOW_BYTE).await;
        }
    }
    if chunked {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await?;
            if size == 0 {
                break;
            }
            request.body.extend_from_slice(&chunk[..size]);
        }
    } else {
        request.body.resize(length, 0);
        stream.read_exact(&mut request.body).await?;
    }
    Ok(Some(request))
}

/// Writes an answer; false when the connection ends with it.
async fn write(stream: &mut TcpStream, reply: Reply) -> io::Result<bool> {
    let (status, kind, body, announced) = match reply {
        Reply::Cut => return Ok(false),
        Reply::Empty(status) => (status, "text/plain", Vec::new(), 0),
        Reply::Json(status, text) => {
            let length = text.len();
            (
                status,
                "application/json; charset=utf-8",
                text.into_bytes(),
                length,
            )
        }
        Reply::Bytes(bytes) => {
            let length = bytes.len();
            (200, "application/octet-stream", bytes, length)
        }
        Reply::Short(bytes) => {
            let length = bytes.len() + 7;
            (200, "application/octet-stream", bytes, length)
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Simulated\r\nContent-Type: {kind}\r\nContent-Length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    Ok(announced == body.len())
}
