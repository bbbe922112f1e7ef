//! A partner that outlives the server, and its book: what it was asked for, what it answered, what that costs.
//!
//! The body of a call says how the partner treats it, so everything follows from the seed. Each result has a number of its
//! own: two dispatches of one call never have the same bytes.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use it::partners::{Incoming, Reply, read};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// A running partner. Dropping it cuts its connections.
#[derive(Debug)]
pub(super) struct Partner {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// What it remembers.
    pub(super) book: Book,
    accepting: JoinHandle<()>,
}

/// Every dispatch that a partner has read, oldest first. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Book(Arc<Mutex<Vec<Dispatch>>>);

/// What a call asks the partner for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    /// The name of the call.
    pub(super) call: String,
    pub(super) behavior: Behavior,
    /// What its result costs.
    pub(super) cents: u64,
    /// How long the answer to the submission takes.
    pub(super) delay_ms: u64,
    /// How many looks at a task find it running.
    pub(super) looks: u32,
    /// How much the result is padded.
    pub(super) padding: usize,
}

/// How the partner treats a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Behavior {
    /// With a result.
    Answer,
    /// It rejects the content: 422, for nothing.
    Refuse,
    /// The first time it is too busy, and provably does nothing (429); then it gives a result.
    Busy,
    /// It fails after it may have worked: 500, or a task that fails.
    Break,
    /// It works and closes the connection without an answer.
    Cut,
}

/// A submission that the partner has read.
#[derive(Debug, Clone)]
pub(super) struct Dispatch {
    pub(super) call: String,
    /// The router's generation.
    pub(super) generation: String,
    /// How it was treated; one that was `Busy` before is treated as `Answer`.
    pub(super) behavior: Behavior,
    /// What its result costs.
    pub(super) cents: u64,
    /// The bytes of its result.
    pub(super) result: Vec<u8>,
    /// Whether it became a task.
    pub(super) is_task: bool,
    /// How often the task was asked after.
    pub(super) looked: u32,
    looks: u32,
    /// When it was read, and when the partner was done with it, as far as anybody asked.
    pub(super) began: Instant,
    pub(super) ended: Option<Instant>,
}

/// What the partner does now.
struct Reaction {
    after: Duration,
    /// The submission that it is then done with.
    ends: Option<usize>,
    /// Nothing: the connection is closed.
    reply: Option<Reply>,
}

/// The folder of the partner in the catalog, and the header that names a generation.
const NAME: &str = "crash";
const GENERATION: &str = "x-generation";

impl Partner {
    /// Listens on a free port of loopback.
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let book = Book::default();
        let accepting = tokio::spawn(accept(listener, book.clone()));
        Ok(Self {
            address,
            book,
            accepting,
        })
    }

    /// Writes the catalog that leads to it: the model `crash/now` answers at once, `crash/later` is polled.
    pub(super) fn write_catalog(&self, root: &Path) -> io::Result<()> {
        let folder = root.join(NAME);
        fs::create_dir_all(&folder)?;
        let partner = format!(
            "name = \"Crash\"\nbase_url = \"http://{}\"\nheaders = {{ \"{GENERATION}\" = \"{{generation}}\" }}\n\n\
             [auth]\nkind = \"none\"\n\n\
             [call.now]\nstyle = \"sync\"\n\n[call.now.submit]\npath = \"/now\"\n\n\
             [call.later]\nstyle = \"poll\"\n\n[call.later.submit]\npath = \"/later\"\n\n\
             [call.later.task]\nid = \"/id\"\n\n\
             [call.later.poll]\npath = \"/task/{{task}}\"\ninterval_ms = 10\nmax_interval_ms = 20\n\n\
             [call.later.state]\npointer = \"/status\"\nok = [\"done\"]\nfailed = [\"failed\"]\npending = [\"pending\"]\n",
            self.address
        );
        fs::write(folder.join("partner.toml"), partner)?;
        for model in ["now", "later"] {
            let text = format!(
                "call = \"{model}\"\ncharges_on_policy_rejection = \"no\"\n\n\
                 [price]\nkind = \"per_unit\"\ncents = 1\nunits = {{ pointer = \"/cents\" }}\nunknown_hold_cents = 12\n\
                 settle = {{ pointer = \"/cost\", cents_per_unit = 1 }}\n"
            );
            fs::write(folder.join(format!("{model}.toml")), text)?;
        }
        Ok(())
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // The connections end with the task that owns them.
        self.accepting.abort();
    }
}

impl Book {
    /// The dispatches; every change of them is one push or one number.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Dispatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a submission down; its number.
    pub(super) fn submitted(&self, order: &Order, generation: &str, is_task: bool) -> usize {
        let mut dispatches = self.lock();
        let number = dispatches.len();
        let came_before = dispatches.iter().any(|known| known.call == order.call);
        let behavior = if order.behavior == Behavior::Busy && came_before {
            Behavior::Answer
        } else {
            order.behavior
        };
        let result = json!({
            "id": number.to_string(),
            "status": "done",
            "call": order.call,
            "cost": order.cents,
            "padding": "x".repeat(order.padding),
        });
        dispatches.push(Dispatch {
            call: order.call.clone(),
            generation: generation.to_owned(),
            behavior,
            cents: order.cents,
            result: result.to_string().into_bytes(),
            is_task,
            looked: 0,
            looks: order.looks,
            began: Instant::now(),
            ended: None,
        });
        number
    }

    fn react(&self, incoming: &Incoming) -> Reaction {
        let at_once = |reply| Reaction {
            after: Duration::ZERO,
            ends: None,
            reply: Some(reply),
        };
        if let Some(number) = incoming.target.strip_prefix("/task/") {
            return at_once(self.look(number));
        }
        let Ok(order) = serde_json::from_slice::<Order>(&incoming.body) else {
            return at_once(Reply::json(400, "{}"));
        };
        let is_task = incoming.target == "/later";
        let generation = incoming.header(GENERATION).unwrap_or_default();
        let number = self.submitted(&order, generation, is_task);
        let dispatch = self.lock()[number].clone();
        let reply = match (dispatch.behavior, is_task) {
            (Behavior::Answer | Behavior::Break, true) => Some(Reply::json(
                200,
                json!({"id": number.to_string()}).to_string(),
            )),
            (Behavior::Answer, false) => Some(Reply::json(200, dispatch.result)),
            (Behavior::Refuse, _) => Some(Reply::json(
                422,
                r#"{"detail":[{"loc":["body","call"],"msg":"refused","type":"value_error"}]}"#,
            )),
            (Behavior::Busy, _) => Some(Reply::json(429, "{}")),
            (Behavior::Break, false) => Some(Reply::json(500, "{}")),
            (Behavior::Cut, _) => None,
        };
        let is_task = is_task && [Behavior::Answer, Behavior::Break].contains(&dispatch.behavior);
        Reaction {
            after: Duration::from_millis(order.delay_ms),
            ends: (!is_task).then_some(number),
            reply,
        }
    }

    /// The partner is done with a submission.
    fn end(&self, number: usize) {
        if let Some(dispatch) = self.lock().get_mut(number) {
            dispatch.ended.get_or_insert_with(Instant::now);
        }
    }

    fn look(&self, number: &str) -> Reply {
        let mut dispatches = self.lock();
        let found = number.parse::<usize>().ok();
        let Some(dispatch) = found.and_then(|number| dispatches.get_mut(number)) else {
            return Reply::json(404, "{}");
        };
        dispatch.looked += 1;
        let state = |status: &str| json!({"id": number, "status": status}).to_string();
        if dispatch.looked > dispatch.looks {
            dispatch.ended.get_or_insert_with(Instant::now);
        }
        match dispatch.behavior {
            _ if dispatch.looked <= dispatch.looks => Reply::json(200, state("pending")),
            Behavior::Answer => Reply::json(200, dispatch.result.clone()),
            Behavior::Break | Behavior::Refuse | Behavior::Busy | Behavior::Cut => {
                Reply::json(200, state("failed"))
            }
        }
    }
}

async fn accept(listener: TcpListener, book: Book) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let book = book.clone();
        connections.spawn(async move {
            // The server is killed at any moment, and its connections with it.
            let _ = serve(stream, &book).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, book: &Book) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(incoming) = read(&mut stream).await? {
        let Reaction { after, ends, reply } = book.react(&incoming);
        sleep(after).await;
        // Before the answer: whoever has it may send the next one.
        if let Some(number) = ends {
            book.end(number);
        }
        let Some(reply) = reply else {
            return Ok(());
        };
        let bytes = [reply.head().as_bytes(), &reply.body].concat();
        stream.get_mut().write_all(&bytes).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(behavior: Behavior) -> Order {
        Order {
            call: "a".to_owned(),
            behavior,
            cents: 7,
            delay_ms: 0,
            looks: 1,
            padding: 3,
        }
    }

    fn status(book: &Book, target: &str, body: &[u8]) -> Option<u16> {
        let incoming = Incoming {
            method: "POST".to_owned(),
            target: target.to_owned(),
            headers: vec![(GENERATION.to_owned(), "g".to_owned())],
            body: body.to_vec(),
            raw: Vec::new(),
        };
        book.react(&incoming).reply.map(|reply| reply.status)
    }

    #[test]
    fn every_behavior_has_its_answer_and_every_result_its_own_bytes() {
        let book = Book::default();
        for (behavior, expected) in [
            (Behavior::Answer, Some(200)),
            (Behavior::Refuse, Some(422)),
            (Behavior::Break, Some(500)),
            (Behavior::Cut, None),
        ] {
            let body = serde_json::to_vec(&order(behavior)).expect("json");
            assert_eq!(status(&book, "/now", &body), expected, "{behavior:?}");
        }
        let dispatches = book.lock();
        assert!(dispatches.iter().all(|dispatch| dispatch.generation == "g"));
        assert_ne!(dispatches[0].result, dispatches[1].result);
    }

    #[test]
    fn who_was_too_busy_answers_the_next_time() {
        let book = Book::default();
        let body = serde_json::to_vec(&order(Behavior::Busy)).expect("json");
        let answers = [(); 2].map(|()| status(&book, "/now", &body));
        assert_eq!(answers, [Some(429), Some(200)]);
    }

    #[test]
    fn a_task_is_done_after_its_looks() {
        let book = Book::default();
        book.submitted(&order(Behavior::Answer), "g", true);
        let looks = [(); 2].map(|()| String::from_utf8(book.look("0").body));
        let looks = looks.map(|look| look.expect("text").contains("done"));
        assert_eq!(looks, [false, true]);
        assert_eq!(book.look("1").status, 404);
    }
}
