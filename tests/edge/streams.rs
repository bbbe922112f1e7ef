//! One client that asks for a file over and over on HTTP/2 and takes none of its bytes: everybody else is served.

use it::{Connection, Form, Request, Server, process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

/// Few enough to be used up by one file for each stream of one connection alone.
const DESCRIPTORS: u32 = 256;

/// Connections of the attacker, and the streams on each.
const CONNECTIONS: usize = 20;
const STREAMS: usize = 100;

/// More than is read at once, and more than the system keeps for one socket.
const FILE_BYTES: usize = 8 << 20;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A GET as literal fields: the method and the scheme indexed, then path and authority by their indexed names.
fn get(stream: u32, path: &str, host: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86];
    for (name, value) in [(0x04, path), (0x01, host)] {
        block.push(name);
        // A length of 127 and more goes on in further bytes, seven bits each.
        let mut rest = value.len().checked_sub(127);
        block.push(rest.map_or(value.len(), |_| 127).try_into().unwrap());
        while let Some(left) = rest {
            rest = (left >= 128).then_some(left >> 7);
            let more = if rest.is_some() { 0x80 } else { 0 };
            block.push(u8::try_from(left & 0x7f).unwrap() | more);
        }
        block.extend(value.as_bytes());
    }
    frame(HEADERS, 0x5, stream, &block)
}

/// Asks for a path on many streams of one connection, whose window is 0, and reads until all have their head.
async fn ask_and_take_nothing(server: &Server, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for n in 0..STREAMS {
        let id = u32::try_from(2 * n + 1).unwrap();
        sent.extend(get(id, path, "localhost"));
    }
    stream.write_all(&sent).await.unwrap();
    let mut heads = 0;
    while heads < STREAMS {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.unwrap();
        heads += usize::from(head[3] == HEADERS);
    }
    stream
}

fn descriptors(server: &Server) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid()));
    open.unwrap().count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn readers_that_take_nothing_use_no_descriptors() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    let limited = format!("ulimit -n {DESCRIPTORS} && exec \"$@\"");
    command.args(["-c", &limited, "sh"]).arg(process::binary());
    command.env("EASEL_MIN_FREE", "0B");
    let server = Server::start_as(command, data.path(), [] as [&str; 0])
        .await
        .unwrap();
    let content: Vec<u8> = (0..FILE_BYTES).map(|n| (n % 251) as u8).collect();
    let form = Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "a.txt")
        .file("file", "a.txt", &content);
    let upload = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let asset = server.send(&upload).await.unwrap();
    let link = asset.json()["url"].as_str().unwrap().to_owned();
    let path = link.split_once("://").unwrap().1;
    let path = &path[path.find('/').unwrap()..];

    let before = descriptors(&server);
    let mut attack = Vec::new();
    for _ in 0..CONNECTIONS {
        attack.push(ask_and_take_nothing(&server, path).await);
    }
    let held = descriptors(&server);
    // A socket for each connection, and the files that readers may keep open.
    assert!(held <= before + CONNECTIONS + 64, "{before} {held}");

    // Everybody else goes on: health, an upload of the same bytes, the file itself.
    let health = server.send(&Request::get("/health")).await.unwrap();
    assert_eq!(health.status, 200);
    let again = server.send(&upload).await.unwrap();
    assert!([200, 201].contains(&again.status), "{}", again.text());
    let mut reader = Connection::open(server.address).await.unwrap();
    let ask = Request::get(path).bytes(server.address);
    reader.write(&ask).await.unwrap();
    let file = reader.answer(false).await.unwrap();
    assert!(file.status == 200 && file.body == content);
    drop(attack);
}
