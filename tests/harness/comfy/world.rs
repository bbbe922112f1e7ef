//! The state of a simulated ComfyUI.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc, watch};

use super::catalog;

/// Which ComfyUI it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// As recorded: every version of the last year.
    Recorded,
    /// Of half a year ago: other words for unknown classes.
    New,
    /// Of today: cancels a prompt by its id whatever it does, and takes no id that is not spelled as a UUID is.
    Latest,
    /// Older: interrupts whatever runs.
    Old,
    /// Too old: names prompts itself, and has no `progress_state`.
    TooOld,
}

/// A way to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault from now on.
    None,
    /// The socket says nothing of prompts from now on.
    SilentSocket,
    /// What the socket says comes so much later.
    LateSocket(Duration),
    /// Texts and bytes without sense, and of prompts that are not ours, between all messages.
    GarbageFrames,
    /// The next uploads are cut in the middle.
    CutUploads(u32),
    /// The next uploads are taken byte by byte, one every half second.
    SlowUploads(u32),
    /// The next files are announced longer than they are.
    WrongLength(u32),
    /// The next interrupts do nothing.
    IgnoredInterrupts(u32),
    /// `/system_stats` is not there.
    MissingRoutes,
    /// The next requests, health aside, are answered with 500.
    Errors(u32),
    /// Accepts connections and says nothing on them, old ones included.
    Frozen(bool),
    /// The next submissions are taken and not answered; they appear in the queue so much later.
    CutSubmissions(u32, Duration),
    /// Nothing can be written to its disk.
    DiskFull(bool),
    /// The next files are films, whatever was announced.
    OtherContent(u32),
    /// Outputs are said to be there and are not.
    MissingOutputs(bool),
    /// The next answers are no JSON.
    Garbage(u32),
    /// It has so many classes more.
    MoreClasses(u32),
}

/// A prompt that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its id.
    pub prompt: String,
    /// Its end: `success`, `error`, `interrupted`, or nothing yet.
    pub end: Option<&'static str>,
    /// The checkpoint that it used.
    pub checkpoint: Option<String>,
    /// The name that it saves under, if it saves anything.
    pub saves: Option<String>,
    /// When it began.
    pub began: SystemTime,
    /// When it ended, if it did.
    pub ended: Option<SystemTime>,
}

impl Ran {
    /// As one line of a book, which [`Ran::read`] reads.
    fn line(&self) -> Value {
        let micros = |at: SystemTime| {
            let since = at.duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |since| {
                u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
            })
        };
        json!({
            "prompt": self.prompt, "end": self.end, "checkpoint": self.checkpoint, "saves": self.saves,
            "began": micros(self.began), "ended": self.ended.map(micros)
        })
    }

    /// Reads a book that a worker kept with `--book`: the prompts that it began, in order, and how each ended as far as it came.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(book: &str) -> serde_json::Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for line in book.lines() {
            let line: Value = serde_json::from_str(line)?;
            let text = |name: &str| line[name].as_str().map(str::to_owned);
            let time = |name: &str| {
                let micros = line[name].as_u64()?;
                Some(SystemTime::UNIX_EPOCH + Duration::from_micros(micros))
            };
            let known = ["success", "error", "interrupted"];
            let ran = Self {
                prompt: text("prompt").unwrap_or_default(),
                end: known.into_iter().find(|known| line["end"] == **known),
                checkpoint: text("checkpoint"),
                saves: text("saves"),
                began: time("began").unwrap_or(SystemTime::UNIX_EPOCH),
                ended: time("ended"),
            };
            // Prompts run one after the other: an end is that of the last one.
            match all.last_mut() {
                Some(last)
                    if last.prompt == ran.prompt && last.end.is_none() && ran.end.is_some() =>
                {
                    *last = ran
                }
                Some(_) | None => all.push(ran),
            }
        }
        Ok(all)
    }
}

/// A prompt in the queue.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub(super) number: f64,
    pub(super) id: String,
    pub(super) graph: Map<String, Value>,
    pub(super) extra: Value,
    pub(super) client: Option<String>,
    pub(super) outputs: Vec<String>,
}

impl Prompt {
    pub(super) fn item(&self) -> Value {
        json!([self.number, self.id, self.graph, self.extra, self.outputs])
    }
}

/// What is sent on a socket.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    Text(String),
    Binary(Vec<u8>),
}

pub(super) struct World {
    pub(super) version: Version,
    pub(super) definitions: Value,
    pub(super) pending: VecDeque<Prompt>,
    pub(super) running: Option<Prompt>,
    pub(super) history: BTreeMap<String, Value>,
    pub(super) number: f64,
    pub(super) inputs: HashMap<String, Vec<u8>>,
    pub(super) files: HashMap<(String, String, String), Vec<u8>>,
    pub(super) counters: HashMap<String, u32>,
    pub(super) sockets: HashMap<String, mpsc::UnboundedSender<Frame>>,
    pub(super) interrupt: bool,
    pub(super) wrong_interrupts: usize,
    /// How often `/interrupt` was asked for.
    pub(super) interrupts: usize,
    pub(super) uploads: usize,
    pub(super) submissions: Vec<Value>,
    pub(super) ran: Vec<Ran>,
    pub(super) step: Duration,
    /// No wait ends before there is this file.
    pub(super) held_until: Option<PathBuf>,
    pub(super) silent: bool,
    pub(super) late: Duration,
    pub(super) garbage_frames: bool,
    pub(super) cut_uploads: u32,
    pub(super) slow_uploads: u32,
    /// Whether an upload is taken slowly, or was.
    pub(super) was_slow: bool,
    pub(super) wrong_length: u32,
    pub(super) other_content: u32,
    pub(super) ignored_interrupts: u32,
    pub(super) missing_routes: bool,
    pub(super) errors: u32,
    pub(super) cut_submissions: (u32, Duration),
    pub(super) disk_full: bool,
    pub(super) missing_outputs: bool,
    pub(super) garbage: u32,
    pub(super) required: Option<(String, String)>,
    /// The traces that submissions named.
    pub(super) traces: Vec<String>,
    /// Where it writes down what it ran, for who wants to know after it was killed.
    pub(super) book: Option<File>,
}

pub(super) struct Shared {
    world: Mutex<World>,
    pub(super) changed: Notify,
    /// Rung when a prompt was queued.
    pub(super) queued: Notify,
    /// Counts restarts: what belongs to an earlier life ends.
    pub(super) life: watch::Sender<u64>,
    pub(super) frozen: watch::Sender<bool>,
}

impl World {
    pub(super) fn new(version: Version, checkpoints: &[&str], without: &[&str]) -> Self {
        Self {
            version,
            definitions: catalog::definitions(checkpoints, without),
            pending: VecDeque::new(),
            running: None,
            history: BTreeMap::new(),
            number: 0.0,
            inputs: HashMap::new(),
            files: HashMap::new(),
            counters: HashMap::new(),
            sockets: HashMap::new(),
            interrupt: false,
            wrong_interrupts: 0,
            interrupts: 0,
            uploads: 0,
            submissions: Vec::new(),
            ran: Vec::new(),
            step: Duration::from_millis(1),
            held_until: None,
            silent: false,
            late: Duration::ZERO,
            garbage_frames: false,
            cut_uploads: 0,
            slow_uploads: 0,
            was_slow: false,
            wrong_length: 0,
            other_content: 0,
            ignored_interrupts: 0,
            missing_routes: false,
            errors: 0,
            cut_submissions: (0, Duration::ZERO),
            disk_full: false,
            missing_outputs: false,
            garbage: 0,
            required: None,
            traces: Vec::new(),
            book: None,
        }
    }

    /// A prompt begins; answers its place among those that began.
    pub(super) fn begin(&mut self, prompt: &Prompt) -> usize {
        let nodes = prompt.graph.values();
        let mut names = nodes.filter_map(|node| node["inputs"]["filename_prefix"].as_str());
        let ran = Ran {
            prompt: prompt.id.clone(),
            end: None,
            checkpoint: None,
            saves: names.next().map(str::to_owned),
            began: SystemTime::now(),
            ended: None,
        };
        self.write_down(&ran);
        self.ran.push(ran);
        self.ran.len() - 1
    }

    /// A prompt ended; nobody hears of it before it is written down.
    pub(super) fn end(&mut self, place: usize, end: &'static str) {
        let Some(ran) = self.ran.get_mut(place) else {
            return;
        };
        ran.end = Some(end);
        ran.ended = Some(SystemTime::now());
        let ran = ran.clone();
        self.write_down(&ran);
    }

    fn write_down(&mut self, ran: &Ran) {
        if let Some(book) = &mut self.book {
            // One write each: a process that is killed leaves whole lines.
            let line = format!("{}\n", ran.line());
            let _ = book.write_all(line.as_bytes());
        }
    }

    /// Takes one of a number of faults.
    pub(super) fn take(count: &mut u32) -> bool {
        let is_due = *count > 0;
        *count = count.saturating_sub(1);
        is_due
    }

    pub(super) fn status(&self) -> Value {
        let remaining = self.pending.len() + usize::from(self.running.is_some());
        json!({"status": {"exec_info": {"queue_remaining": remaining}}})
    }

    /// Says a message to the socket of a client.
    pub(super) fn say(&self, client: Option<&str>, kind: &str, data: &Value) {
        self.send(
            client,
            Frame::Text(json!({"type": kind, "data": data}).to_string()),
        );
    }

    pub(super) fn send(&self, client: Option<&str>, frame: Frame) {
        if self.silent {
            return;
        }
        let Some(socket) = client.and_then(|client| self.sockets.get(client)) else {
            return;
        };
        if self.garbage_frames {
            let foreign = json!({"type": "execution_success", "data": {"prompt_id": "nobody's"}});
            let _ = socket.send(Frame::Text(foreign.to_string()));
            let _ = socket.send(Frame::Text("{\"type\":".to_owned()));
            let _ = socket.send(Frame::Binary(vec![0, 0, 0, 4, 255, 255, 255, 255, 1]));
        }
        // A socket that was closed hears nothing.
        let _ = socket.send(frame);
    }

    pub(super) fn say_all(&self, kind: &str, data: &Value) {
        for client in self.sockets.keys() {
            self.say(Some(client), kind, data);
        }
    }

    pub(super) fn enqueue(&mut self, prompt: Prompt) {
        self.pending.push_back(prompt);
        let status = self.status();
        self.say_all("status", &status);
    }
}

impl Shared {
    pub(super) fn new(world: World) -> Self {
        Self {
            world: Mutex::new(world),
            changed: Notify::new(),
            queued: Notify::new(),
            life: watch::channel(0).0,
            frozen: watch::channel(false).0,
        }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, fault: Fault) {
        let mut world = self.world();
        match fault {
            Fault::None => {
                world.silent = false;
                world.late = Duration::ZERO;
                world.garbage_frames = false;
                world.missing_routes = false;
                world.disk_full = false;
                world.missing_outputs = false;
                self.frozen.send_replace(false);
            }
            Fault::SilentSocket => world.silent = true,
            Fault::LateSocket(late) => world.late = late,
            Fault::GarbageFrames => world.garbage_frames = true,
            Fault::CutUploads(count) => world.cut_uploads = count,
            Fault::SlowUploads(count) => world.slow_uploads = count,
            Fault::WrongLength(count) => world.wrong_length = count,
            Fault::OtherContent(count) => world.other_content = count,
            Fault::IgnoredInterrupts(count) => world.ignored_interrupts = count,
            Fault::MissingRoutes => world.missing_routes = true,
            Fault::Errors(count) => world.errors = count,
            Fault::Frozen(frozen) => {
                self.frozen.send_replace(frozen);
            }
            Fault::CutSubmissions(count, later) => world.cut_submissions = (count, later),
            Fault::DiskFull(full) => world.disk_full = full,
            Fault::MissingOutputs(missing) => world.missing_outputs = missing,
            Fault::Garbage(count) => world.garbage = count,
            Fault::MoreClasses(count) => {
                let class = world.definitions["Sampler"].clone();
                for number in 0..count {
                    world.definitions[format!("Sampler{number}")] = class.clone();
                }
            }
        }
    }

    pub(super) fn restart(&self) {
        let mut world = self.world();
        world.pending.clear();
        world.running = None;
        world.history.clear();
        world.sockets.clear();
        world.number = 0.0;
        world.interrupt = false;
        drop(world);
        self.life.send_modify(|life| *life += 1);
        self.changed.notify_waiters();
    }

    pub(super) fn foreign(&self, graph: &Value) -> String {
        let mut world = self.world();
        world.number += 1.0;
        let id = format!("foreign-{}", world.number);
        let graph = graph.as_object().cloned().unwrap_or_default();
        let prompt = Prompt {
            number: world.number,
            id: id.clone(),
            outputs: super::routes::outputs(&world.definitions, &graph),
            graph,
            extra: json!({}),
            client: None,
        };
        world.enqueue(prompt);
        drop(world);
        self.queued.notify_one();
        id
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}
