//! Memory for what callers send and ask for: the bytes of their bodies, the trees that JSON becomes, the jobs that answers are
//! made of.
//!
//! All are bounded in all and for one account, and taken before they are used: an account that sends much waits for its own
//! share and not in anybody's way. Sign-ins have room of their own, since nobody knows yet whose they are.

use std::net::IpAddr;
use std::time::Duration;

use accounts::AccountId;
use bytes::Bytes;
use hyper_kit::{
    Body, BodyRoom, KeyedLimits, KeyedPermit, KeyedSemaphore, NoUnits, ReadPace, RoomError,
};
use json_text::{MOST_TREE_BYTES, TooLarge};
use workflow_core::{Abandoned, Jobs};

use crate::WorkflowConfig;

/// Bytes of trees in all: of one account there may be [`MOST_TREE_BYTES`], so that the largest body can be read, and two
/// accounts with the largest ones do not keep a third one from its small ones for longer than one of them takes.
const TREE_BYTES: usize = 2 * MOST_TREE_BYTES;

/// Requests of one account that wait for room for their tree: as many as a client has connections.
const WAITERS_PER_ACCOUNT: usize = 1024;

/// How long a request waits for that: the largest body takes a second.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Answers that hold the largest job there is, at once: in all, and those of one account. What is kept of a job has twice the
/// bytes of a body at most, its graph and what came beside it.
const ANSWERS: usize = 12;
const ANSWERS_PER_ACCOUNT: usize = 3;

/// Most bytes of a sign-in: a key.
const SIGN_IN_BYTES: usize = 16 * 1024;

/// What bodies and trees take. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    bodies: BodyRoom<AccountId>,
    sign_ins: BodyRoom<IpAddr>,
    trees: KeyedSemaphore<AccountId>,
    answers: KeyedSemaphore<AccountId>,
    largest_answer: usize,
}

/// What was read from a body, with the room that its tree takes while this is kept.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) value: T,
    pub(crate) room: KeyedPermit<AccountId>,
}

/// Why a body was not read, or not parsed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IntakeError {
    /// It could not be read, or had no room.
    #[error(transparent)]
    Body(#[from] RoomError),
    /// Its tree would be too large.
    #[error("the body cannot be taken: {0}")]
    TooLarge(#[from] TooLarge),
    /// There was no room for its tree.
    #[error(transparent)]
    NoRoom(#[from] NoUnits),
    /// The work on it panicked, or the program stops.
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
}

impl Memory {
    pub(crate) fn new(config: &WorkflowConfig) -> Self {
        let largest_answer = config.json_bytes.saturating_mul(2);
        Self {
            answers: KeyedSemaphore::new(KeyedLimits {
                total: largest_answer.saturating_mul(ANSWERS),
                per_key: largest_answer.saturating_mul(ANSWERS_PER_ACCOUNT),
                waiters_per_key: WAITERS_PER_ACCOUNT,
            }),
            largest_answer,
            bodies: BodyRoom::new(config.json_bytes),
            sign_ins: BodyRoom::new(SIGN_IN_BYTES),
            trees: KeyedSemaphore::new(KeyedLimits {
                total: TREE_BYTES,
                per_key: MOST_TREE_BYTES,
                waiters_per_key: WAITERS_PER_ACCOUNT,
            }),
        }
    }

    /// Bytes that are taken now: of bodies and answers, and of trees.
    pub(crate) fn used(&self) -> (usize, usize) {
        let bodies = self.bodies.used() + self.sign_ins.used() + self.answers.used();
        (bodies, self.trees.used())
    }

    /// Room for what an answer holds of one job, to be shrunk once it is known how much that is. Whoever asks for it has none.
    ///
    /// # Errors
    /// If there is none for ten seconds.
    pub(crate) async fn for_answer(
        &self,
        account: &AccountId,
    ) -> Result<KeyedPermit<AccountId>, IntakeError> {
        let room = self
            .answers
            .acquire_within(account.clone(), self.largest_answer, LONGEST_WAIT);
        Ok(room.await?)
    }

    /// Reads a whole body of at most `limit` bytes, itself within the bound of JSON.
    ///
    /// # Errors
    /// If it cannot be read, or has no room.
    pub(crate) async fn read(
        &self,
        account: &AccountId,
        body: Body,
        limit: usize,
        pace: ReadPace,
    ) -> Result<Bytes, IntakeError> {
        Ok(self.bodies.read(account, body, limit, pace).await?)
    }

    /// Reads the body of a sign-in.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) async fn read_sign_in(
        &self,
        peer: IpAddr,
        body: Body,
        pace: ReadPace,
    ) -> Result<Bytes, IntakeError> {
        let read = self.sign_ins.read(&peer, body, SIGN_IN_BYTES, pace);
        Ok(read.await?)
    }

    /// Has `work` make a tree of a body, once there is room for it; a large one on a thread where nobody waits for it.
    ///
    /// # Errors
    /// If the tree would be too large, or has no room.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        account: &AccountId,
        jobs: &Jobs,
        bytes: &Bytes,
        work: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<Parsed<T>, IntakeError> {
        let (text, length) = (bytes.clone(), bytes.len());
        let weight = jobs
            .aside(length, move || json_text::weigh_bounded(&text))
            .await??;
        let room = self
            .trees
            .acquire_within(account.clone(), weight.tree_bytes, LONGEST_WAIT);
        let room = room.await?;
        let text = bytes.clone();
        let value = jobs.aside(length, move || work(&text)).await?;
        Ok(Parsed { value, room })
    }
}
