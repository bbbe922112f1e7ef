//! The simulated ComfyUI as a process, for deployments that start their workers.
//!
//! `simulated-comfyui --port N` serves until it is ended. `--step MS` is how long a step of a node takes, `--late MS` the time
//! before it listens, `--fails` ends it at once, `--without CLASS` leaves a class out, `--checkpoint NAME` names a model, `--book
//! FILE` is where it writes down what it ran, and `--hold FILE` ends no wait before there is this file. With `--while ADDRESS` it
//! ends when its connection to that address breaks off. It prints its arguments, and the length of each variable `NAME` of
//! `--shows NAME`.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use it::Comfy;
use it::comfy::Version;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let values = |name: &str| -> Vec<&str> {
        let pairs = arguments.windows(2).filter(|pair| pair[0] == name);
        pairs.map(|pair| pair[1].as_str()).collect()
    };
    let number = |name: &str| values(name).first().and_then(|value| value.parse().ok());
    let mut output = io::stdout().lock();
    writeln!(output, "started with {}", arguments.join(" "))?;
    for name in values("--shows") {
        let value = std::env::var(name).unwrap_or_else(|_| "(not set)".to_owned());
        writeln!(output, "{name} has {} characters", value.len())?;
    }
    if arguments.iter().any(|argument| argument == "--fails") {
        return Err(io::Error::other("it was told to fail"));
    }
    let late = number("--late").unwrap_or(0);
    let port = number("--port").and_then(|port: u64| u16::try_from(port).ok());
    let port = port.ok_or_else(|| io::Error::other("--port is missing"))?;
    Runtime::new()?.block_on(async {
        tokio::time::sleep(Duration::from_millis(late)).await;
        let (without, mut checkpoints) = (values("--without"), values("--checkpoint"));
        if checkpoints.is_empty() {
            checkpoints.push("a.safetensors");
        }
        let comfy = Comfy::start_at(port, Version::New, &checkpoints, &without).await?;
        if let Some(book) = values("--book").first() {
            comfy.keep_book(Path::new(book))?;
        }
        if let Some(file) = values("--hold").first() {
            comfy.hold(Path::new(file));
        }
        comfy.pace(Duration::from_millis(number("--step").unwrap_or(1)));
        writeln!(output, "listens at {}", comfy.url())?;
        if let Some(listener) = values("--while").first() {
            // The connection breaks off with the listener, also if its process is killed.
            let _ = TcpStream::connect(listener).await?.read(&mut [0]).await;
            return Ok(());
        }
        std::future::pending().await
    })
}
