//! A process of clients: what it is told to do, and the doing.
//!
//! Clients live in processes of their own, so that their memory, descriptors and processor time are not the server's. The
//! plan comes as one line of JSON on standard input. The process prepares itself (opens every connection and stream), says
//! `ready`, waits for `go`, works, and prints what it measured as one line of JSON.

use std::cell::Cell;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::task::LocalSet;

use super::samples::micros;
use it::http::{Connection, find, post_json, request};
use it::load::form::Upload;
use it::load::graphs::Graph;

/// What a process of clients does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Where the server listens.
    pub server: SocketAddr,
    /// How many connections work at the same time.
    pub connections: usize,
    /// What each does again and again.
    pub work: Work,
    /// For how long, in seconds.
    pub seconds: f64,
    /// The most that is done in all.
    pub most: u64,
    /// Number of the first submission.
    pub first: u64,
}

/// What a connection does again and again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Work {
    /// Submits a job and waits for its 201.
    Submit(Graph),
    /// Submits a job and follows its events to their end.
    Finish(Graph),
    /// The same, each time with the next of these lines of headers.
    FinishAs(Graph, Vec<String>),
    /// Looks at these jobs in turn.
    Look(Vec<String>),
    /// Sends these requests in turn and waits for this status.
    InTurn {
        /// The requests.
        requests: Vec<String>,
        /// What each is answered.
        status: u16,
    },
    /// Uploads a file.
    Upload(PathBuf),
    /// Sends this request and waits for its 200.
    Post(String),
    /// The same, each time with an idempotency key of its own.
    Keyed(String),
    /// The same without keys, so many times in a second, over all connections together. A time begins when the request is sent.
    Paced {
        /// The request.
        request: String,
        /// How often.
        per_second: f64,
    },
    /// Sends this request so many times in a second, over all connections together, and reads the stream that answers it; its
    /// samples are the times from a request to the first bytes of its stream.
    Streamed {
        /// The request.
        request: String,
        /// How often.
        per_second: f64,
    },
    /// Sends this request before anything else, and waits for its 200 once.
    Held(String),
    /// Opens the events of a job and waits for their end; its samples are the moments of the last event, in microseconds
    /// since 1970.
    Follow(String),
    /// Opens a WebSocket of the older API and waits for a message with this text; its samples are the moments of that one,
    /// in microseconds since 1970.
    Listen(String),
}

/// What a process of clients measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// How long it worked.
    pub seconds: f64,
    /// The time that each piece of work took, in microseconds, unless the work says otherwise.
    pub samples: Vec<u64>,
    /// Work that failed.
    pub faults: u64,
    /// Why the first of it did.
    pub first_fault: Option<String>,
}

/// Which number a connection takes next, and until when it goes on.
struct Turn {
    began: Instant,
    next: Cell<u64>,
    end: u64,
    deadline: Cell<Instant>,
}

/// Runs the process.
///
/// # Errors
/// When the plan is none, the server cannot be reached, or `out` cannot be written.
pub fn main(out: &mut dyn Write) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stdin = io::stdin();
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    let plan: Plan = serde_json::from_str(&line)?;
    let tasks = LocalSet::new();
    let outcome = tasks.block_on(&runtime, async {
        let work = Rc::new(Prepared::new(&plan)?);
        let mut connections = Vec::with_capacity(plan.connections);
        for _ in 0..plan.connections {
            let mut connection = Connection::open(plan.server).await?;
            work.open(&mut connection).await?;
            connections.push(connection);
        }
        writeln!(out, "ready")?;
        out.flush()?;
        // Nothing else happens in this process until the word comes, except that streams fill their sockets.
        stdin.lock().read_line(&mut String::new())?;
        all(&plan, work, connections).await
    })?;
    writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
    Ok(true)
}

async fn all(plan: &Plan, work: Rc<Prepared>, connections: Vec<Connection>) -> io::Result<Outcome> {
    let began = Instant::now();
    let turn = Rc::new(Turn {
        began,
        next: Cell::new(plan.first),
        end: plan.first.saturating_add(plan.most),
        deadline: Cell::new(began + Duration::from_secs_f64(plan.seconds)),
    });
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::task::spawn_local(one(work.clone(), turn.clone(), connection)))
        .collect();
    let mut outcome = Outcome::default();
    for task in tasks {
        let (samples, fault) = task.await.map_err(io::Error::other)?;
        outcome.samples.extend(samples);
        if let Some(fault) = fault {
            outcome.faults += 1;
            outcome.first_fault.get_or_insert(fault);
        }
    }
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Works on one connection until its turns are over or something fails.
async fn one(
    work: Rc<Prepared>,
    turn: Rc<Turn>,
    mut connection: Connection,
) -> (Vec<u64>, Option<String>) {
    let mut samples = Vec::new();
    while let Some(number) = turn.take() {
        work.await_turn(&turn, number).await;
        let began = Instant::now();
        match work.once(&mut connection, number).await {
            Ok(Step::Done) => samples.push(micros(began.elapsed())),
            Ok(Step::Took(time)) => samples.push(time),
            Ok(Step::Over) => break,
            Ok(Step::OverAt(moment)) => {
                samples.push(moment);
                break;
            }
            Err(error) => return (samples, Some(error.to_string())),
        }
    }
    (samples, None)
}

impl Turn {
    fn take(&self) -> Option<u64> {
        let number = self.next.get();
        if number >= self.end || Instant::now() >= self.deadline.get() {
            return None;
        }
        self.next.set(number + 1);
        Some(number)
    }
}

/// Work with everything at hand that it needs.
enum Prepared {
    Submit(Graph),
    /// A graph and the headers of its accounts in turn.
    Finish(Graph, Vec<String>),
    /// Requests in turn, and the status of their answers.
    InTurn(Vec<Vec<u8>>, u16),
    Upload(Vec<u8>),
    Post(Vec<u8>),
    /// The first line of a request with the name of the header, the beginning of its values, and the rest.
    Keyed(Vec<u8>, String, Vec<u8>),
    Paced(Vec<u8>, f64),
    Streamed(Vec<u8>, f64),
    Held(Vec<u8>),
    Follow(String),
    Listen(Vec<u8>),
}

/// How a piece of work ended.
enum Step {
    Done,
    /// It is done, and what counts of it took so many microseconds.
    Took(u64),
    /// There is nothing left to do on this connection.
    Over,
    /// The same, and when that came about.
    OverAt(u64),
}

impl Prepared {
    fn new(plan: &Plan) -> io::Result<Self> {
        Ok(match &plan.work {
            Work::Submit(graph) => Self::Submit(graph.clone()),
            Work::Finish(graph) => Self::Finish(graph.clone(), vec![String::new()]),
            Work::FinishAs(graph, headers) => Self::Finish(graph.clone(), headers.clone()),
            Work::Look(ids) => {
                let looks = ids.iter().map(|id| format!("/api/v2/jobs/{id}"));
                Self::InTurn(looks.map(|path| request("GET", &path)).collect(), 200)
            }
            Work::InTurn { requests, status } => {
                let requests = requests.iter().map(|text| text.clone().into_bytes());
                Self::InTurn(requests.collect(), *status)
            }
            Work::Upload(path) => {
                let file = std::fs::read(path)?;
                let name = format!("file-{}.bin", plan.first);
                Self::Upload(Upload::new(&name, file.len(), &[], "").around(&file))
            }
            Work::Post(request) => Self::Post(request.clone().into_bytes()),
            Work::Keyed(request) => {
                let (line, rest) = request.split_once("\r\n").unwrap_or_default();
                let line = format!("{line}\r\nIdempotency-Key: ");
                // No other process of clients begins in the same microsecond.
                let key = format!("{}-{}-", std::process::id(), now_us());
                Self::Keyed(line.into_bytes(), key, format!("\r\n{rest}").into_bytes())
            }
            Work::Paced {
                request,
                per_second,
            } => Self::Paced(request.clone().into_bytes(), *per_second),
            Work::Streamed {
                request,
                per_second,
            } => Self::Streamed(request.clone().into_bytes(), *per_second),
            Work::Held(request) => Self::Held(request.clone().into_bytes()),
            Work::Follow(id) => Self::Follow(id.clone()),
            Work::Listen(text) => Self::Listen(text.clone().into_bytes()),
        })
    }

    /// Waits for the moment of a piece of work that has one.
    async fn await_turn(&self, turn: &Turn, number: u64) {
        if let Self::Paced(_, per_second) | Self::Streamed(_, per_second) = self {
            let moment = turn.began + Duration::from_secs_f64(number as f64 / per_second);
            tokio::time::sleep_until(moment.into()).await;
        }
    }

    /// Brings a connection to where its work begins: a stream has had its first event, a held request is sent.
    async fn open(&self, connection: &mut Connection) -> io::Result<()> {
        if let Self::Held(request) = self {
            return connection.write(request).await;
        }
        if let Self::Listen(_) = self {
            connection.upgrade("/ws").await?;
            // A client that was greeted is one of those that get the line.
            connection.frame().await?;
            return Ok(());
        }
        let Self::Follow(id) = self else {
            return Ok(());
        };
        let target = format!("/api/v2/jobs/{id}/events");
        connection.write(&request("GET", &target)).await?;
        let (status, _) = connection.head().await?;
        if status != 200 {
            return Err(io::Error::other(format!("a stream was answered {status}")));
        }
        connection.chunk().await?;
        Ok(())
    }

    async fn once(&self, connection: &mut Connection, number: u64) -> io::Result<Step> {
        match self {
            Self::Submit(graph) => {
                let Some(body) = graph.submission(number) else {
                    return Ok(Step::Over);
                };
                let submission = post_json("/api/v2/jobs", "", &body);
                connection.send(&submission).await?.expect_status(201)?;
            }
            Self::Finish(graph, headers) => {
                let headers = in_turn(headers, number)?;
                let Some(body) = graph.submission(number) else {
                    return Ok(Step::Over);
                };
                let submission = post_json("/api/v2/jobs", headers, &body);
                let answer = connection.send(&submission).await?.expect_status(201)?;
                let id = job_id(&answer.body)?;
                let events = format!(
                    "GET /api/v2/jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
                );
                let events = connection
                    .send(events.as_bytes())
                    .await?
                    .expect_status(200)?;
                if find(&events.body, b"\"succeeded\"").is_none() {
                    return Err(io::Error::other(format!(
                        "a job did not succeed: {}",
                        events.text()
                    )));
                }
            }
            Self::InTurn(requests, status) => {
                let request = in_turn(requests, number)?;
                connection.send(request).await?.expect_status(*status)?;
            }
            Self::Upload(request) => {
                connection.send(request).await?.expect_status(201)?;
            }
            Self::Post(request) | Self::Paced(request, _) => {
                connection.send(request).await?.expect_status(200)?;
            }
            Self::Keyed(line, key, rest) => {
                let key = format!("{key}{number}");
                let request = [line, key.as_bytes(), rest].concat();
                connection.send(&request).await?.expect_status(200)?;
            }
            Self::Streamed(request, _) => {
                let began = Instant::now();
                connection.write(request).await?;
                let (status, _) = connection.head().await?;
                if status != 200 {
                    return Err(io::Error::other(format!("a stream was answered {status}")));
                }
                if connection.chunk().await?.is_none() {
                    return Err(io::Error::other("a stream ended before its first byte"));
                }
                let first = micros(began.elapsed());
                while connection.chunk().await?.is_some() {}
                return Ok(Step::Took(first));
            }
            Self::Held(_) => {
                connection.answer(false).await?.expect_status(200)?;
                return Ok(Step::Over);
            }
            Self::Follow(_) => {
                let mut last = 0;
                while let Some(chunk) = connection.chunk().await? {
                    if find(&chunk, b"event:").is_some() {
                        last = now_us();
                    }
                }
                return Ok(Step::OverAt(last));
            }
            Self::Listen(text) => {
                while find(&connection.frame().await?, text).is_none() {}
                return Ok(Step::OverAt(now_us()));
            }
        }
        Ok(Step::Done)
    }
}

/// The one whose turn it is.
fn in_turn<T>(these: &[T], number: u64) -> io::Result<&T> {
    let index = number.checked_rem(these.len() as u64);
    let index = index.and_then(|index| usize::try_from(index).ok());
    let this = index.and_then(|index| these.get(index));
    this.ok_or_else(|| io::Error::other("a plan has nothing to do in turn"))
}

/// The id of a job in the answer to its submission, without reading the rest.
///
/// # Errors
/// When there is none.
pub fn job_id(body: &[u8]) -> io::Result<&str> {
    const FIELD: &[u8] = b"\"id\":\"";
    let id = find(body, FIELD).and_then(|at| {
        let rest = &body[at + FIELD.len()..];
        let end = rest.iter().position(|byte| *byte == b'"')?;
        std::str::from_utf8(&rest[..end]).ok()
    });
    id.ok_or_else(|| io::Error::other("the answer to a submission has no id"))
}

/// The wall clock in microseconds since 1970: the one clock that processes of a machine share.
#[must_use]
pub fn now_us() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_and_its_absence_told() {
        assert_eq!(
            job_id(b"{\"id\":\"a-1\",\"status\":\"queued\"}").ok(),
            Some("a-1")
        );
        assert!(job_id(b"{\"error\":{}}").is_err());
        assert!(job_id(b"{\"id\":\"a-1").is_err());
    }

    #[test]
    fn turns_go_round_and_none_is_an_error() {
        let turn = |number| in_turn(&["a", "b"], number).ok().copied();
        assert_eq!(
            (turn(0), turn(1), turn(2)),
            (Some("a"), Some("b"), Some("a"))
        );
        assert!(in_turn::<u8>(&[], 0).is_err());
    }

    #[test]
    fn a_plan_survives_its_way() {
        let plan = Plan {
            server: ([127, 0, 0, 1], 1).into(),
            connections: 2,
            work: Work::Finish(Graph::Invert(vec!["a".to_owned()])),
            seconds: 1.5,
            most: 7,
            first: 3,
        };
        let line = serde_json::to_string(&plan).expect("json");
        assert!(!line.contains('\n'));
        let back: Plan = serde_json::from_str(&line).expect("the plan");
        assert_eq!((back.connections, back.most, back.first), (2, 7, 3));
    }

    #[test]
    fn turns_end_with_their_count_or_their_time() {
        let turn = |seconds| Turn {
            began: Instant::now(),
            next: Cell::new(5),
            end: 7,
            deadline: Cell::new(Instant::now() + Duration::from_secs(seconds)),
        };
        let counted = turn(3600);
        assert_eq!(
            [counted.take(), counted.take(), counted.take()],
            [Some(5), Some(6), None]
        );
        assert_eq!(turn(0).take(), None);
    }
}
