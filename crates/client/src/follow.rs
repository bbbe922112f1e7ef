//! Following a job to its end: the live stream while there is one, the job itself whenever there is not.
//!
//! The stream has no resume cursor, so a follower resumes by looking: when a stream breaks, it reads the job, reports what
//! is new, and opens another stream. The job decides when it is over, never the stream alone.

use std::collections::HashSet;
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderValue, Method};
use http_body_util::BodyExt;
use hyper_kit::Body;
use tokio::time::{Instant, sleep, timeout};

use crate::error::ClientError;
use crate::events::{Event, EventReader};
use crate::jobs::job_path;
use crate::transport::{Asked, Client};
use crate::wire::{Job, Output, Preview, Progress, StatusEvent};

/// A stream without a byte for so long is dead: servers send a heartbeat every 10 s.
const LONGEST_SILENCE: Duration = Duration::from_secs(45);

/// The first and the longest pause between two looks at a job whose stream cannot be had.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// How a job is followed.
#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// How long the server may be away without a break.
    pub patience: Duration,
    /// Whether streams are used at all.
    pub streams: bool,
}

/// What is new of a job.
#[derive(Clone, Debug)]
pub enum Update {
    /// Its status.
    Status(StatusEvent),
    /// How far it is.
    Progress(Progress),
    /// A picture of the node at work.
    Preview(Preview),
    /// Another output.
    Output(Output),
    /// The server cannot be reached; the follower tries again.
    Away(String),
    /// The job is over: the authoritative view.
    Over(Box<Job>),
}

/// Follows one job.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    id: String,
    options: FollowOptions,
    stream: Option<Stream>,
    waiting: std::collections::VecDeque<Update>,
    seen: HashSet<String>,
    status: Option<String>,
    last_contact: Instant,
    pause: Duration,
    is_over: bool,
    has_looked: bool,
    /// Whether a stream said that the job is over before the job did.
    was_told_of_end: bool,
}

#[derive(Debug)]
struct Stream {
    body: Body,
    reader: EventReader,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(300),
            streams: true,
        }
    }
}

impl Client {
    /// Follows a job to its end.
    #[must_use]
    pub fn follow(&self, id: &str, options: FollowOptions) -> Follower {
        Follower {
            client: self.clone(),
            id: id.to_owned(),
            options,
            stream: None,
            waiting: std::collections::VecDeque::new(),
            seen: HashSet::new(),
            status: None,
            last_contact: Instant::now(),
            pause: PAUSES.0,
            is_over: false,
            has_looked: false,
            was_told_of_end: false,
        }
    }
}

impl Follower {
    /// What is new; `None` once [`Update::Over`] was returned. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If there is no such job, the credential does not suffice, or the server is away for longer than the patience.
    pub async fn next(&mut self) -> Result<Option<Update>, ClientError> {
        loop {
            if let Some(update) = self.waiting.pop_front() {
                return Ok(Some(update));
            }
            if self.is_over {
                return Ok(None);
            }
            if self.stream.is_some() {
                self.read_stream().await?;
            } else {
                self.look().await?;
            }
        }
    }

    /// Reads the job, and opens a stream if it is not over.
    async fn look(&mut self) -> Result<(), ClientError> {
        if self.has_looked {
            sleep(self.pause).await;
        }
        let job = match self.client.job(&self.id).await {
            Ok(job) => job,
            Err(error) if error.is_passing() && self.is_patient() => {
                self.has_looked = true;
                self.slow_down();
                self.waiting.push_back(Update::Away(error.to_string()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.has_looked = true;
        self.last_contact = Instant::now();
        self.report(&job);
        if job.is_over() {
            self.is_over = true;
            self.waiting.push_back(Update::Over(Box::new(job)));
            return Ok(());
        }
        if self.options.streams {
            self.open(&job).await?;
        } else {
            self.slow_down();
        }
        Ok(())
    }

    async fn open(&mut self, job: &Job) -> Result<(), ClientError> {
        let url = self
            .client
            .own(job.link("events"), &job_path(&self.id, "/events"));
        let mut asked = Asked::of(Method::GET, url);
        let kind = HeaderValue::from_static("text/event-stream");
        asked.headers.insert(ACCEPT, kind);
        asked.repeatable = false;
        match self.client.ask(asked).await {
            Ok(answer) => {
                self.stream = Some(Stream {
                    body: answer.into_body(),
                    reader: EventReader::default(),
                });
            }
            // Looking at the job does the same, only slower.
            Err(
                ClientError::Refused(_) | ClientError::Unreachable(_) | ClientError::Interrupted(_),
            ) => {
                self.slow_down();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn read_stream(&mut self) -> Result<(), ClientError> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let frame = timeout(LONGEST_SILENCE, stream.body.frame()).await;
        let Ok(Some(Ok(frame))) = frame else {
            // It ended, broke or fell silent: the job says what is true.
            self.stream = None;
            return Ok(());
        };
        self.last_contact = Instant::now();
        let Ok(bytes) = frame.into_data() else {
            return Ok(());
        };
        let events = stream.reader.feed(&bytes)?;
        if !events.is_empty() {
            self.pause = PAUSES.0;
        }
        for event in events {
            self.take(&event);
        }
        Ok(())
    }

    /// Turns an event into an update. What cannot be read is left out: events are an extra, and the job has it all.
    fn take(&mut self, event: &Event) {
        match event.name.as_str() {
            "status" => {
                if let Ok(status) = serde_json::from_str::<StatusEvent>(&event.data) {
                    let is_terminal = status.is_terminal();
                    self.tell_outputs(&status.outputs);
                    self.tell_status(status);
                    if is_terminal {
                        self.stream = None;
                        // The next look takes the whole job, at once; a server that says it again and again is asked in turn.
                        self.has_looked = self.was_told_of_end;
                        self.was_told_of_end = true;
                    }
                }
            }
            "progress" => {
                if let Ok(progress) = serde_json::from_str(&event.data) {
                    self.waiting.push_back(Update::Progress(progress));
                }
            }
            "preview" => {
                if let Ok(preview) = serde_json::from_str(&event.data) {
                    self.waiting.push_back(Update::Preview(preview));
                }
            }
            "output" => {
                if let Ok(output) = serde_json::from_str::<Output>(&event.data) {
                    self.tell_outputs(std::slice::from_ref(&output));
                }
            }
            // Kinds of a newer server.
            _ => {}
        }
    }

    fn report(&mut self, job: &Job) {
        if let Some(progress) = &job.progress {
            self.waiting.push_back(Update::Progress(progress.clone()));
        }
        self.tell_outputs(&job.outputs);
        self.tell_status(StatusEvent {
            status: job.status.clone(),
            queue_position: job.queue_position,
            outputs: Vec::new(),
        });
    }

    fn tell_outputs(&mut self, outputs: &[Output]) {
        for output in outputs {
            if self.seen.insert(output.id.clone()) {
                self.waiting.push_back(Update::Output(output.clone()));
            }
        }
    }

    fn tell_status(&mut self, status: StatusEvent) {
        let place = format!("{} {:?}", status.status, status.queue_position);
        if self.status.as_ref() != Some(&place) {
            self.status = Some(place);
            self.waiting.push_back(Update::Status(status));
        }
    }

    fn is_patient(&self) -> bool {
        self.last_contact.elapsed() < self.options.patience
    }

    fn slow_down(&mut self) {
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}
