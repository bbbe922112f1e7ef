//! The socket of a simulated ComfyUI.

use std::io;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

use super::http::thaw;
use super::world::{Frame, Shared};

/// Speaks on a connection that asked for a socket.
pub(super) async fn serve(
    mut stream: BufReader<TcpStream>,
    shared: &Arc<Shared>,
    query: &str,
    key: &str,
) -> io::Result<()> {
    let accept = derive_accept_key(key.as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let client = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("clientId="));
    let client = client.unwrap_or("nobody").to_owned();
    let (sender, mut frames) = mpsc::unbounded_channel();
    {
        let mut world = shared.world();
        let mut status = world.status();
        status["sid"] = client.clone().into();
        world.sockets.insert(client.clone(), sender);
        let silent = std::mem::replace(&mut world.silent, false);
        world.say(Some(&client), "status", &status);
        world.silent = silent;
    }
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let Some(frame) = frame else {
                    return Ok(());
                };
                let late = shared.world().late;
                tokio::time::sleep(late).await;
                thaw(shared).await;
                let message = match frame {
                    Frame::Text(text) => Message::text(text),
                    Frame::Binary(bytes) => Message::binary(bytes),
                };
                socket.send(message).await.map_err(io::Error::other)?;
            }
            message = socket.next() => {
                thaw(shared).await;
                match message {
                    Some(Ok(Message::Text(text))) => {
                        let said: Value = serde_json::from_str(&text).unwrap_or_default();
                        if said["type"] == "feature_flags" {
                            let flags = json!({"supports_preview_metadata": true, "max_upload_size": 104_857_600});
                            shared.world().say(Some(&client), "feature_flags", &flags);
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Ok(()),
                }
            }
        }
    }
}
