//! A partner as a process of its own: answers every request with 1 KB, at once or when it is told to.
//!
//! It does as little as it can, so that what is measured is what stands before it. `POST /hold` waits for a line on
//! standard input; `GET /held` tells how many wait. `POST /stream` is answered with a stream of events.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::LocalSet;

use it::http::find;

/// Bytes of an answer's body.
const ANSWER_BYTES: usize = 1024;

/// The events of a stream.
const EVENTS: usize = 8;

/// What connections share.
struct Desk {
    answer: Vec<u8>,
    /// The head of a stream with its first event, and the rest.
    stream: (Vec<u8>, Vec<u8>),
    held: AtomicU64,
    /// How often everybody was let go.
    released: watch::Receiver<u64>,
}

/// Runs the process; its first line tells where it listens.
///
/// # Errors
/// When it cannot listen.
pub fn main(out: &mut dyn Write) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = listen()?;
        writeln!(out, "{}", listener.local_addr()?)?;
        out.flush()?;
        let (release, released) = watch::channel(0);
        let desk = Rc::new(Desk {
            answer: answer(ANSWER_BYTES),
            stream: streamed(ANSWER_BYTES),
            held: AtomicU64::new(0),
            released,
        });
        tokio::task::spawn_local(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let desk = desk.clone();
                // A caller may leave at any time.
                tokio::task::spawn_local(async move { drop(serve(&desk, stream).await) });
            }
        });
        lines_of_input(move || release.send_modify(|times| *times += 1)).await?;
        Ok(true)
    })
}

/// Does something for every line of standard input, until the parent process closes it or is gone.
pub(super) async fn lines_of_input(each: impl Fn() + Send + 'static) -> io::Result<()> {
    let lines = move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|_| each());
    };
    // Reading it blocks.
    let reader = tokio::task::spawn_blocking(lines);
    reader.await.map_err(io::Error::other)
}

/// Listens with room for thousands of callers at once.
pub(super) fn listen() -> io::Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    socket.listen(4096)
}

async fn serve(desk: &Desk, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let length = loop {
            if let Some(length) = request_length(&buffer)? {
                break length;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        if buffer.starts_with(b"GET /held") {
            let held = desk.held.load(Ordering::Relaxed).to_string();
            stream.write_all(&spelled(held.as_bytes())).await?;
        } else if buffer.starts_with(b"POST /stream") {
            let (first, rest) = &desk.stream;
            stream.write_all(first).await?;
            // Others have their turn, as while a partner thinks.
            tokio::task::yield_now().await;
            stream.write_all(rest).await?;
        } else {
            if buffer.starts_with(b"POST /hold") {
                let mut released = desk.released.clone();
                released.mark_unchanged();
                desk.held.fetch_add(1, Ordering::Relaxed);
                let changed = released.changed().await;
                desk.held.fetch_sub(1, Ordering::Relaxed);
                changed.map_err(io::Error::other)?;
            }
            stream.write_all(&desk.answer).await?;
        }
        buffer.drain(..length);
    }
}

/// How long the request at the start of `bytes` is, body included; `None` while it is not all there.
fn request_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(io::Error::other)?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let body = length.map_or(Ok(0), |(_, value)| value.trim().parse::<usize>());
    let whole = end + 4 + body.map_err(io::Error::other)?;
    Ok((bytes.len() >= whole).then_some(whole))
}

fn answer(bytes: usize) -> Vec<u8> {
    const AROUND: usize = "{\"result\":\"\"}".len();
    let filler = "r".repeat(bytes - AROUND);
    spelled(format!("{{\"result\":\"{filler}\"}}").as_bytes())
}

/// A stream of so many bytes, in events of the same size.
fn streamed(bytes: usize) -> (Vec<u8>, Vec<u8>) {
    const AROUND: usize = "data: {\"text\":\"\"}\n\n".len();
    let filler = "t".repeat(bytes / EVENTS - AROUND);
    let event = format!("data: {{\"text\":\"{filler}\"}}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let rest = format!("{}0\r\n\r\n", chunk.repeat(EVENTS - 1));
    ([head, &chunk].concat().into_bytes(), rest.into_bytes())
}

fn spelled(body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let of = |text: &str| request_length(text.as_bytes()).expect("a request");
        let text = "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        assert_eq!(of(text), Some(text.len()));
        assert_eq!(of(&text[..text.len() - 1]), None);
        assert_eq!(of(&format!("{text}POST")), Some(text.len()));
        assert_eq!(
            of("GET /held HTTP/1.1\r\n\r\n"),
            Some("GET /held HTTP/1.1\r\n\r\n".len())
        );
        assert_eq!(of("GET /"), None);
    }

    #[test]
    fn an_answer_has_its_size() {
        let bytes = answer(ANSWER_BYTES);
        let body = find(&bytes, b"\r\n\r\n").expect("a head") + 4;
        assert_eq!(bytes.len() - body, ANSWER_BYTES);
    }

    #[test]
    fn a_stream_has_its_size_and_begins_with_an_event() {
        let (first, rest) = streamed(ANSWER_BYTES);
        let events = |bytes: &[u8]| String::from_utf8_lossy(bytes).matches("data: ").count();
        assert_eq!((events(&first), events(&rest)), (1, EVENTS - 1));
        assert!(first.ends_with(b"\n\n\r\n") && rest.ends_with(b"0\r\n\r\n"));
        let size = format!("\r\n\r\n{:x}\r\n", ANSWER_BYTES / EVENTS);
        assert!(find(&first, size.as_bytes()).is_some());
    }
}
