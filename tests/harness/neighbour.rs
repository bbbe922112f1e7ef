//! The other account: what an ordinary client does with a server while another account attacks it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{Answer, Form, Request};

/// Far longer than any step takes on a machine that is busy: reached only when the server does not serve. Where the server had
/// a fourteenth of a processor (a load of 25 on two), a step beside all attacks took up to 46 s.
const PATIENCE: Duration = Duration::from_secs(180);

/// The model that it calls: its partner answers at once.
const MODEL: &str = "openai/gpt-image-1";

/// A client of one account. Each of its jobs, uploads and calls differs from those before.
#[derive(Debug)]
pub struct Neighbour {
    server: SocketAddr,
    key: String,
    count: AtomicU32,
}

/// How long each step took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// From the submission of a job of two nodes until the client knew that it succeeded.
    pub job: Duration,
    /// An upload of 64 KiB.
    pub upload: Duration,
    /// The same bytes, read again.
    pub download: Duration,
    /// A look at the job.
    pub poll: Duration,
    /// A call of a model under an idempotency key.
    pub call: Duration,
    /// `GET /health`.
    pub health: Duration,
}

impl Times {
    /// Everything together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.job + self.upload + self.download + self.poll + self.call + self.health
    }
}

impl Neighbour {
    /// The client of an account with this API key.
    #[must_use]
    pub fn new(server: SocketAddr, key: &str) -> Self {
        Self {
            server,
            key: key.to_owned(),
            count: AtomicU32::new(0),
        }
    }

    /// Does everything once, in order.
    ///
    /// # Errors
    /// With the step that failed, or was not done within three minutes.
    pub async fn work(&self) -> io::Result<Times> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (health, _) = step("health", self.health()).await?;
        let (upload, asset) = step("upload", self.upload(number)).await?;
        let (download, _) = step("download", self.download(number, &asset)).await?;
        let (call, _) = step("call", self.call(number)).await?;
        let (job, id) = step("job", self.job(number)).await?;
        let (poll, _) = step("poll", self.poll(&id)).await?;
        Ok(Times {
            job,
            upload,
            download,
            poll,
            call,
            health,
        })
    }

    async fn health(&self) -> io::Result<()> {
        // As a load balancer asks: without a credential.
        let answer = Request::get("/health").send(self.server).await?;
        expect(&answer, &[200])
    }

    async fn upload(&self, number: u32) -> io::Result<String> {
        let name = format!("neighbour-{number}.bin");
        let form = Form::new()
            .field("content_type", "application/octet-stream")
            .field("file_path", &name)
            .file("file", &name, &content(number));
        let request = Request::new("POST", "/api/v2/assets")
            .header("Content-Type", &Form::content_type())
            .body(form.body());
        let answer = self.send(request).await?;
        expect(&answer, &[201])?;
        id_in(&answer)
    }

    async fn download(&self, number: u32, asset: &str) -> io::Result<()> {
        let request = Request::get(&format!("/api/v2/assets/{asset}/content"));
        let answer = self.send(request).await?;
        expect(&answer, &[200])?;
        match answer.body == content(number) {
            true => Ok(()),
            false => Err(io::Error::other("the bytes are not those that were sent")),
        }
    }

    async fn call(&self, number: u32) -> io::Result<()> {
        let body =
            json!({"model": "gpt-image-1", "prompt": format!("a neighbour's picture {number}")});
        let request = Request::post_json(&format!("/v1/models/{MODEL}"), &body)
            .header("Idempotency-Key", &format!("neighbour-{number}"));
        expect(&self.send(request).await?, &[200])
    }

    /// Submits a job and follows its events to the end, as the official clients do; answers its id.
    async fn job(&self, number: u32) -> io::Result<String> {
        let graph = json!({
            "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": number}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "neighbour"}},
        });
        let body = json!({ "workflow": graph });
        let submitted = self.send(Request::post_json("/api/v2/jobs", &body)).await?;
        expect(&submitted, &[201])?;
        let id = id_in(&submitted)?;
        let events = Request::get(&format!("/api/v2/jobs/{id}/events"));
        let events = self.send(events).await?;
        expect(&events, &[200])?;
        match events.text().contains("succeeded") {
            true => Ok(id),
            false => Err(io::Error::other(events.text())),
        }
    }

    async fn poll(&self, id: &str) -> io::Result<()> {
        let request = Request::get(&format!("/api/v2/jobs/{id}"));
        let answer = self.send(request).await?;
        expect(&answer, &[200])?;
        let job: Value = serde_json::from_slice(&answer.body)?;
        match job["status"] == "succeeded" {
            true => Ok(()),
            false => Err(io::Error::other(job.to_string())),
        }
    }

    async fn send(&self, request: Request) -> io::Result<Answer> {
        let request = request.header("Authorization", &format!("Bearer {}", self.key));
        request.send(self.server).await
    }
}

/// 64 KiB that no other upload has.
fn content(number: u32) -> Vec<u8> {
    let line = format!("what neighbour number {number} keeps\n");
    line.bytes().cycle().take(64 * 1024).collect()
}

async fn step<T>(
    name: &str,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<(Duration, T)> {
    let began = Instant::now();
    match timeout(PATIENCE, work).await {
        Ok(Ok(done)) => Ok((began.elapsed(), done)),
        Ok(Err(error)) => Err(io::Error::other(format!("{name}: {error}"))),
        Err(_) => Err(io::Error::other(format!(
            "{name}: nothing within three minutes"
        ))),
    }
}

fn expect(answer: &Answer, statuses: &[u16]) -> io::Result<()> {
    match statuses.contains(&answer.status) {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{} {}",
            answer.status,
            answer.text()
        ))),
    }
}

fn id_in(answer: &Answer) -> io::Result<String> {
    let body: Value = serde_json::from_slice(&answer.body)?;
    let id = body["id"].as_str();
    id.map(str::to_owned)
        .ok_or_else(|| io::Error::other(format!("no id in {body}")))
}
