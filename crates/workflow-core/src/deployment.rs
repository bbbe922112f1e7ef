//! Deployments: named sets of workers with numbered revisions, as data and pure decisions.
//!
//! A [`Deployment`] is one row. What operators ask for and what became of its workers are [`DeploymentChange`]s of it; what is to
//! be done next is [`decide`]d from the row and what was seen of the workers. Knows no process, no file and no wire format.

mod definition;
mod memory;
mod scale;
mod store;
mod stored;

use jiff::Timestamp;

pub use definition::{
    Bounds, Definition, DeploymentName, EnvironmentValue, InvalidDefinition, InvalidDeploymentName,
    WorkerCommand, WorkerSource,
};
pub use memory::MemoryDeployments;
pub use scale::{Failures, Load, MOST_FAILURES, Seen, SeenWorker, Step, WorkerPhase, decide};
pub use store::{DeploymentEvent, Deployments, MOST_EVENTS, NewEvent, StoredDeployment};
pub use stored::definitions_name;

/// Most revisions that are kept.
const MOST_REVISIONS: usize = 20;

/// The number of a revision, from 1. It is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionNumber(pub u32);

/// A revision of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub number: RevisionNumber,
    /// What it says.
    pub definition: Definition,
    /// When it was applied.
    pub created_at: Timestamp,
}

/// A revision that is to take the place of the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRevision {
    /// Which.
    pub number: RevisionNumber,
    /// Since when it is tried.
    pub since: Timestamp,
}

/// What operators want of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It runs jobs.
    Running,
    /// It does not, until it is started again.
    Stopped,
}

/// How many workers of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Those that have not answered yet, or do not now.
    pub starting: u32,
    /// Those that take jobs.
    pub ready: u32,
    /// Those that only end their jobs.
    pub draining: u32,
}

/// A deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Its name.
    pub name: DeploymentName,
    /// How often its row was written: 0 before it is.
    pub version: u64,
    /// What is kept of its revisions, oldest first.
    pub revisions: Vec<Revision>,
    /// The one that takes jobs; none until the first one is ready.
    pub current: Option<RevisionNumber>,
    /// The one that is started beside it.
    pub next: Option<NextRevision>,
    /// What operators want.
    pub wanted: Wanted,
    /// Why it runs no jobs, if its workers failed.
    pub failure: Option<String>,
    /// How many workers it has, where an operator changed that since the last revision.
    pub bounds: Option<Bounds>,
    /// How long the last worker took until it answered, in milliseconds.
    pub start_ms: Option<u64>,
    /// Names what its workers have, as it was kept last.
    pub definitions: Option<String>,
    /// The workers that were started for it, as the replica that starts them saw them last.
    pub workers: WorkerCounts,
}

/// How a deployment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentState {
    /// It runs nothing: by an operator's wish, or because nothing is to be done.
    Stopped,
    /// Its first worker starts.
    Starting,
    /// A worker takes jobs.
    Ready,
    /// It takes no more jobs; those that its workers have go on.
    Draining,
    /// Its workers failed.
    Failed,
}

impl DeploymentState {
    /// Its name, as commands and the API show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Failed => "failed",
        }
    }
}

/// Something that happens to a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentChange {
    /// An operator applies a definition.
    Apply(Definition),
    /// An operator starts it.
    Start,
    /// An operator stops it.
    Stop,
    /// An operator changes how many workers it has, until the next revision.
    Scale(Bounds),
    /// An operator goes back to a revision; without a number, to the one before the current, or away from one that is not ready.
    RollBack(Option<RevisionNumber>),
    /// A worker of the next revision answers.
    RevisionReady(RevisionNumber),
    /// The next revision did not become ready.
    RevisionFailed(RevisionNumber, String),
    /// The workers of the current revision failed again and again.
    WorkersFailed(String),
    /// A worker answered so many milliseconds after its start.
    StartMeasured(u64),
    /// What the workers have was kept under this name.
    DefinitionsKept(String),
    /// Whoever starts its workers saw so many.
    WorkersSeen(WorkerCounts),
}

/// Why a change is not made. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefused {
    /// The definition cannot be used.
    #[error(transparent)]
    Invalid(#[from] InvalidDefinition),
    /// There is no such revision, or none before the current one.
    #[error("there is no revision {0} to go back to; `deployment show` lists those that are kept")]
    NoRevision(String),
    /// Its workers are started by others.
    #[error(
        "the workers of this deployment have addresses and are started by others; apply a definition with a `command`"
    )]
    NotScaled,
}

impl Deployment {
    /// A new deployment, whose first revision is tried at once.
    ///
    /// # Errors
    /// If the definition cannot be used.
    pub fn new(
        name: DeploymentName,
        definition: Definition,
        now: Timestamp,
    ) -> Result<(Self, Vec<NewEvent>), ChangeRefused> {
        let mut deployment = Self {
            name,
            version: 0,
            revisions: Vec::new(),
            current: None,
            next: None,
            wanted: Wanted::Running,
            failure: None,
            bounds: None,
            start_ms: None,
            definitions: None,
            workers: WorkerCounts::default(),
        };
        let events = deployment.apply(DeploymentChange::Apply(definition), now)?;
        Ok((deployment, events))
    }

    /// A revision, while it is kept.
    #[must_use]
    pub fn revision(&self, number: RevisionNumber) -> Option<&Revision> {
        self.revisions.iter().find(|kept| kept.number == number)
    }

    /// The revision that takes jobs, or will once a worker of it is ready; the newest one if none is to.
    #[must_use]
    pub fn serving(&self) -> Option<&Revision> {
        let number = self.current.or(self.next.map(|next| next.number));
        match number {
            Some(number) => self.revision(number),
            None => self.revisions.last(),
        }
    }

    /// How many workers a revision has.
    #[must_use]
    pub fn bounds_of(&self, revision: &Revision) -> Bounds {
        match &revision.definition.source {
            WorkerSource::Urls(_) => revision.definition.bounds,
            WorkerSource::Command(_) => self.bounds.unwrap_or(revision.definition.bounds),
        }
    }

    /// Whether operators or failures keep it from running jobs.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.wanted == Wanted::Stopped || self.failure.is_some()
    }

    /// How it is with these workers, and why in a sentence.
    #[must_use]
    pub fn state(&self, workers: WorkerCounts) -> (DeploymentState, String) {
        let WorkerCounts {
            starting,
            ready,
            draining,
        } = workers;
        if let Some(why) = &self.failure {
            return (DeploymentState::Failed, why.clone());
        }
        let others = starting + ready + draining;
        match self.wanted {
            Wanted::Stopped if others > 0 => (
                DeploymentState::Draining,
                "an operator stopped it; jobs that run go on".to_owned(),
            ),
            Wanted::Stopped => (
                DeploymentState::Stopped,
                "an operator stopped it; `deployment start` starts it".to_owned(),
            ),
            Wanted::Running if ready > 0 => (
                DeploymentState::Ready,
                match ready {
                    1 => "1 worker takes jobs".to_owned(),
                    _ => format!("{ready} workers take jobs"),
                },
            ),
            Wanted::Running if starting > 0 => (
                DeploymentState::Starting,
                match starting {
                    1 => "1 worker starts".to_owned(),
                    _ => format!("{starting} workers start"),
                },
            ),
            Wanted::Running if draining > 0 => (
                DeploymentState::Draining,
                "its workers end the jobs that they have".to_owned(),
            ),
            Wanted::Running if self.next.is_some() => (
                DeploymentState::Starting,
                "its first worker is to be started".to_owned(),
            ),
            Wanted::Running => (
                DeploymentState::Stopped,
                "no job needs it; a submission starts it".to_owned(),
            ),
        }
    }

    /// Makes a change; answers what there is to tell of it. Nothing is told of a change that changes nothing.
    ///
    /// # Errors
    /// If it cannot be made; then nothing is changed.
    pub fn apply(
        &mut self,
        change: DeploymentChange,
        now: Timestamp,
    ) -> Result<Vec<NewEvent>, ChangeRefused> {
        match change {
            DeploymentChange::Apply(definition) => {
                definition.check()?;
                Ok(self.take_definition(definition, now))
            }
            DeploymentChange::Start => Ok(self.start(now)),
            DeploymentChange::Stop => {
                if self.wanted == Wanted::Stopped {
                    return Ok(Vec::new());
                }
                self.wanted = Wanted::Stopped;
                Ok(told("stopped", "an operator stopped it", now))
            }
            DeploymentChange::Scale(bounds) => {
                let source = self.serving().map(|revision| &revision.definition.source);
                if !matches!(source, Some(WorkerSource::Command(_))) {
                    return Err(ChangeRefused::NotScaled);
                }
                bounds.check()?;
                self.bounds = Some(bounds);
                let Bounds { min, max } = bounds;
                Ok(told(
                    "scaled",
                    &format!("it has {min} to {max} workers"),
                    now,
                ))
            }
            DeploymentChange::RollBack(to) => self.roll_back(to, now),
            DeploymentChange::RevisionReady(number) => {
                if self.next.map(|next| next.number) != Some(number) {
                    return Ok(Vec::new());
                }
                let before = self.current.replace(number);
                self.next = None;
                self.forget_revisions();
                let text = match before {
                    Some(RevisionNumber(before)) => {
                        format!(
                            "revision {} takes jobs, and revision {before} drains",
                            number.0
                        )
                    }
                    None => format!("revision {} takes jobs", number.0),
                };
                Ok(told("revision_ready", &text, now))
            }
            DeploymentChange::RevisionFailed(number, why) => {
                if self.next.map(|next| next.number) != Some(number) {
                    return Ok(Vec::new());
                }
                self.next = None;
                let stays = match self.current {
                    Some(RevisionNumber(current)) => format!("; revision {current} stays"),
                    None => {
                        self.failure =
                            Some(format!("revision {} never became ready: {why}", number.0));
                        String::new()
                    }
                };
                let text = format!("revision {} is dropped: {why}{stays}", number.0);
                Ok(told("revision_dropped", &text, now))
            }
            DeploymentChange::WorkersFailed(why) => {
                self.failure = Some(why.clone());
                Ok(told("failed", &why, now))
            }
            DeploymentChange::StartMeasured(took_ms) => {
                self.start_ms = Some(took_ms);
                Ok(Vec::new())
            }
            DeploymentChange::DefinitionsKept(name) => {
                self.definitions = Some(name);
                Ok(Vec::new())
            }
            DeploymentChange::WorkersSeen(workers) => {
                self.workers = workers;
                Ok(Vec::new())
            }
        }
    }

    fn take_definition(&mut self, definition: Definition, now: Timestamp) -> Vec<NewEvent> {
        let tried = self.next.map(|next| next.number).or(self.current);
        let stands = tried.and_then(|number| self.revision(number));
        let is_same = stands.is_some_and(|revision| revision.definition == definition);
        if is_same && self.failure.is_none() {
            return Vec::new();
        }
        let last = self
            .revisions
            .last()
            .map_or(0, |revision| revision.number.0);
        let number = RevisionNumber(last + 1);
        self.revisions.push(Revision {
            number,
            definition,
            created_at: now,
        });
        let mut events = told("applied", &format!("revision {} is applied", number.0), now);
        if let Some(next) = self.next {
            let text = format!(
                "revision {} is dropped: revision {} takes its place",
                next.number.0, number.0
            );
            events.extend(told("revision_dropped", &text, now));
        }
        self.failure = None;
        self.bounds = None;
        self.next = Some(NextRevision { number, since: now });
        self.forget_revisions();
        events
    }

    fn start(&mut self, now: Timestamp) -> Vec<NewEvent> {
        if !self.is_stopped() {
            return Vec::new();
        }
        self.wanted = Wanted::Running;
        self.failure = None;
        // What never was ready is tried again.
        if self.current.is_none() && self.next.is_none() {
            self.next = self.revisions.last().map(|revision| NextRevision {
                number: revision.number,
                since: now,
            });
        }
        if let Some(next) = &mut self.next {
            next.since = now;
        }
        told("started", "an operator started it", now)
    }

    fn roll_back(
        &mut self,
        to: Option<RevisionNumber>,
        now: Timestamp,
    ) -> Result<Vec<NewEvent>, ChangeRefused> {
        let to = match (to, self.next, self.current) {
            (Some(to), _, _) => to,
            (None, Some(_), Some(current)) => current,
            (None, None, Some(current)) => {
                let mut numbers = self.revisions.iter().map(|revision| revision.number);
                let before = numbers.rfind(|number| *number < current);
                before.ok_or_else(|| ChangeRefused::NoRevision(format!("before {}", current.0)))?
            }
            (None, _, None) => {
                return Err(ChangeRefused::NoRevision("before the first".to_owned()));
            }
        };
        if self.revision(to).is_none() {
            return Err(ChangeRefused::NoRevision(to.0.to_string()));
        }
        self.bounds = None;
        if self.current == Some(to) {
            // The one beside it goes, if there is one.
            let Some(next) = self.next.take() else {
                return Ok(Vec::new());
            };
            let text = format!(
                "revision {} is dropped: revision {} stays",
                next.number.0, to.0
            );
            return Ok(told("rolled_back", &text, now));
        }
        self.failure = None;
        self.next = Some(NextRevision {
            number: to,
            since: now,
        });
        let text = format!("revision {} is started again", to.0);
        Ok(told("rolled_back", &text, now))
    }

    /// Forgets the oldest revisions of too many, but none that is in use.
    fn forget_revisions(&mut self) {
        let next = self.next.map(|next| next.number);
        while self.revisions.len() > MOST_REVISIONS {
            let is_in_use = |number| Some(number) == self.current || Some(number) == next;
            let unused = self.revisions.iter();
            let Some(place) = unused
                .map(|revision| revision.number)
                .position(|number| !is_in_use(number))
            else {
                return;
            };
            self.revisions.remove(place);
        }
    }
}

fn told(kind: &'static str, text: &str, at: Timestamp) -> Vec<NewEvent> {
    vec![NewEvent {
        at,
        kind: kind.to_owned(),
        text: text.to_owned(),
    }]
}

#[cfg(test)]
mod tests;
