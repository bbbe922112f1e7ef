//! A whole server inside of another program: workflows and the router on one port, over a folder.

use std::error::Error;

use all_in_one::{Config, assemble};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    // Every key of `all-in-one config show`, spelled as in a file. What is not named is as by default.
    let config = Config::of(&[
        ("listen", "127.0.0.1:0"),
        ("data_dir", data.to_str().ok_or("the path is no text")?),
        ("job_slots", "2"),
        ("drain_delay", "0s"),
        // It saves next to nothing. Otherwise the server is not ready while less than a twentieth of the disk is free.
        ("min_free", "16MB"),
    ])?;
    let app = assemble(&config).await?;
    let address = app.address().tcp().ok_or("it listens on a port")?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(app.run(async {
        // The other side is dropped at the latest when this program ends.
        let _ = stopped.await;
    }));

    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    println!("http://{address} is ready");

    drop(stop);
    serving.await?;
    Ok(())
}
