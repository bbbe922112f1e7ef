//! A client of a pool: it asks the server wherever it is, asks again what was not answered, and keeps what it was told.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use it::http::{Answer, Connection, Request};
use it::multipart::Form;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::judge::{Content, Job, Last, Output};

/// How long a client waits for an answer, and for the next bytes of a stream, which says something every ten seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before something is asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// What was not answered for so long is not answered any more, and a job without an end has none.
const GIVEN_UP: Duration = Duration::from_secs(240);

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// Where the server is, while there is one.
    pub(super) server: watch::Receiver<Option<SocketAddr>>,
}

impl Client {
    /// Asks until there is an answer that says something of the request.
    pub(super) async fn ask(&self, request: Request) -> io::Result<Answer> {
        let began = Instant::now();
        let mut last = "nobody was there".to_owned();
        while began.elapsed() < GIVEN_UP {
            let server = *self.server.borrow();
            if let Some(server) = server {
                match timeout(PATIENCE, request.send(server)).await {
                    Ok(Ok(answer)) if answer.status != 429 && answer.status < 500 => {
                        return Ok(answer);
                    }
                    Ok(Ok(answer)) => last = format!("{} {}", answer.status, answer.text()),
                    Ok(Err(error)) => last = error.to_string(),
                    Err(_) => "no answer came".clone_into(&mut last),
                }
            }
            sleep(AGAIN).await;
        }
        let what = format!("not answered for {} s: {last}", GIVEN_UP.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    }

    /// Submits a graph that saves under this name, once however often it asks.
    pub(super) async fn submit(&self, name: &str, graph: &Value) -> io::Result<Job> {
        let request = Request::post_json("/api/v2/jobs", &json!({ "workflow": graph }))
            .header("Idempotency-Key", name);
        let sent = SystemTime::now();
        let answer = self.ask(request).await?.expect_status(201)?;
        Ok(Job {
            id: text(&answer.try_json()?["id"]),
            name: name.to_owned(),
            sent,
            is_unwanted: false,
            announced: BTreeSet::new(),
            ends: BTreeSet::new(),
            last: None,
        })
    }

    /// Uploads a file; the name by which `LoadImage` finds it.
    pub(super) async fn upload(&self, name: &str, bytes: &[u8]) -> io::Result<String> {
        let request = Request::new("POST", "/api/upload/image")
            .header("Content-Type", &Form::content_type())
            .body(Form::new().file("image", name, bytes).body());
        let answer = self.ask(request).await?.expect_status(200)?;
        Ok(text(&answer.try_json()?["name"]))
    }

    /// Asks to cancel a job.
    pub(super) async fn cancel(&self, job: &mut Job) -> io::Result<()> {
        job.is_unwanted = true;
        let target = format!("/api/v2/jobs/{}/cancel", job.id);
        self.ask(Request::new("POST", &target))
            .await?
            .expect_status(200)?;
        Ok(())
    }

    /// Hears the events of a job until it has ended, anew whenever the stream breaks off.
    pub(super) async fn follow(&self, job: &mut Job) -> io::Result<()> {
        let began = Instant::now();
        while job.ends.is_empty() {
            if began.elapsed() > GIVEN_UP {
                return Ok(());
            }
            let server = *self.server.borrow();
            if let Some(server) = server
                && let Ok(()) = listen(server, job).await
                && !job.ends.is_empty()
            {
                return Ok(());
            }
            sleep(AGAIN).await;
        }
        Ok(())
    }

    /// Looks at a job and reads all that it shows and announced.
    pub(super) async fn look(&self, job: &mut Job) -> io::Result<()> {
        let target = format!("/api/v2/jobs/{}", job.id);
        let answer = self.ask(Request::get(&target)).await?;
        if answer.status == 404 {
            job.last = None;
            return Ok(());
        }
        let shown = answer.expect_status(200)?.try_json()?;
        let mut last = Last {
            status: text(&shown["status"]),
            code: text(&shown["error"]["code"]),
            outputs: outputs(&shown["outputs"]),
            contents: HashMap::new(),
        };
        for (id, _) in job.announced.union(&last.outputs) {
            let target = format!("/api/v2/assets/{id}/content");
            let answer = self.ask(Request::get(&target)).await?;
            if answer.status == 200 {
                let content = Content {
                    hash: format!("blake3:{}", blake3::hash(&answer.body)),
                    text: answer.text(),
                };
                last.contents.insert(id.clone(), content);
            }
        }
        job.last = Some(last);
        Ok(())
    }
}

/// Hears a stream to its end, and takes down what it says.
async fn listen(server: SocketAddr, job: &mut Job) -> io::Result<()> {
    let request = Request::get(&format!("/api/v2/jobs/{}/events", job.id));
    let mut connection = Connection::open(server).await?;
    connection.write(&request.bytes(server)).await?;
    let (status, _) = timeout(PATIENCE, connection.head()).await??;
    if status != 200 {
        return Err(io::Error::other(format!("a stream was answered {status}")));
    }
    let mut heard = Vec::new();
    while let Some(chunk) = timeout(PATIENCE, connection.chunk()).await?? {
        heard.extend_from_slice(&chunk);
        while let Some(end) = it::http::find(&heard, b"\n\n") {
            let event: Vec<u8> = heard.drain(..end + 2).collect();
            hear(&String::from_utf8_lossy(&event), job);
        }
    }
    Ok(())
}

/// Takes down what one event says.
fn hear(event: &str, job: &mut Job) {
    let of = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    let data = of("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok());
    let (Some(kind), Some(data)) = (of("event: "), data) else {
        return;
    };
    match kind {
        "output" => job.announced.extend(output(&data)),
        "status" => {
            job.announced.extend(outputs(&data["outputs"]));
            let status = text(&data["status"]);
            if ["succeeded", "failed", "canceled", "expired"].contains(&status.as_str()) {
                job.ends.insert(status);
            }
        }
        _ => {}
    }
}

fn outputs(all: &Value) -> BTreeSet<Output> {
    let all = all.as_array().into_iter().flatten();
    all.filter_map(output).collect()
}

fn output(one: &Value) -> Option<Output> {
    Some((one["id"].as_str()?.to_owned(), text(&one["hash"])))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_and_ends_are_taken_down_and_nothing_else() {
        let mut job = Job {
            id: "1".to_owned(),
            name: "job-1".to_owned(),
            sent: SystemTime::UNIX_EPOCH,
            is_unwanted: false,
            announced: BTreeSet::new(),
            ends: BTreeSet::new(),
            last: None,
        };
        hear(": still here\n\n", &mut job);
        hear(
            "event: status\ndata: {\"status\":\"running\"}\n\n",
            &mut job,
        );
        hear("event: progress\ndata: {\"value\":0.5}\n\n", &mut job);
        assert_eq!((job.announced.len(), job.ends.len()), (0, 0));
        hear(
            "event: output\ndata: {\"id\":\"a\",\"hash\":\"h\"}\n\n",
            &mut job,
        );
        let end = "event: status\ndata: {\"status\":\"succeeded\",\"outputs\":[{\"id\":\"b\",\"hash\":\"i\"}]}\n\n";
        hear(end, &mut job);
        let announced: Vec<&str> = job.announced.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(announced, ["a", "b"]);
        assert_eq!(job.ends.into_iter().collect::<Vec<_>>(), ["succeeded"]);
    }
}
