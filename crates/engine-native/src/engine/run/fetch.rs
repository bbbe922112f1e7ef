//! Fetching files from web addresses, beside the calls under way and within the job's memory.

use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hyper_kit::client::FetchError;

use super::Run;
use super::start::Next;
use crate::engine::compile::Source;
use crate::engine::download::{failed, no_downloads};
use crate::engine::memory::Reservation;
use crate::node::FileInput;
use crate::{NodeError, Value};

/// Files on their way.
#[derive(Default)]
pub(super) struct Fetching {
    under_way: FuturesUnordered<BoxFuture<'static, Arrival>>,
}

/// A file that came, for an input.
pub(super) struct Fetched {
    input: usize,
    file: FileInput,
    /// Its bytes, and nothing besides.
    _reservation: Reservation,
}

/// A node's file came, or did not.
pub(super) struct Arrival {
    node: usize,
    fetched: Result<Fetched, NodeError>,
}

/// Files of one job that are fetched at once: enough to wait for several hosts, too few to be of use against one.
const MOST_AT_ONCE: usize = 4;

impl Fetching {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The next that comes; `None` if none is on its way. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Arrival> {
        self.under_way.next().await
    }
}

impl Run {
    /// Whether a node names files that are not there yet.
    pub(super) fn lacks_files(&self, node: usize) -> bool {
        let sources = &self.nodes[node].step.sources;
        let named = sources
            .iter()
            .filter(|source| matches!(source, Source::Address(_)));
        named.count() > self.nodes[node].fetched.len()
    }

    /// Begins to fetch the next file that a node lacks.
    pub(super) fn fetch(&mut self, node: usize) -> Next {
        if self.fetching.under_way.len() >= MOST_AT_ONCE {
            return Next::Wait;
        }
        self.machine.start(node);
        let Some(downloads) = self.engine.downloads.clone() else {
            self.fail(node, &no_downloads());
            return Next::Settled;
        };
        let running = &self.nodes[node];
        let mut sources = running.step.sources.iter().zip(0..);
        let lacking = sources.find_map(|(source, input)| match source {
            Source::Address(address) if !running.has_fetched(input) => Some((address, input)),
            Source::Address(_) | Source::Absent | Source::Constant(_) | Source::Link { .. } => None,
        });
        let Some((address, input)) = lacking else {
            return Next::Settled;
        };
        let address = address.clone();
        // Half of what is free, so that several at once and the calls beside them have room.
        let budget = self.shared.budget.clone();
        let most = budget.free() / 2;
        let wanted = (downloads.limits.max_bytes as u64).min(most);
        let (job, id) = (self.ticket.job, running.step.id.clone());
        let reservation = Reservation::new(budget.clone());
        if let Err(error) = reservation.add(wanted) {
            self.fail(node, &error);
            return Next::Settled;
        }
        let fetch = async move {
            let max_bytes = usize::try_from(wanted).unwrap_or(usize::MAX);
            let fetched = downloads.fetch(&address, max_bytes).await;
            let fetched = match fetched {
                Ok(bytes) => {
                    reservation.shrink(bytes.len() as u64);
                    Ok(Fetched {
                        input,
                        file: FileInput::fetched(&address, bytes),
                        _reservation: reservation,
                    })
                }
                // The file may be no larger than others; this job has no more room.
                Err(FetchError::TooLarge { .. }) if max_bytes < downloads.limits.max_bytes => {
                    Err(budget.exceeded(wanted.saturating_add(1), wanted))
                }
                Err(error) => {
                    tracing::info!(job.id = %job, node.id = %id, %error, "a file behind a web address could not be fetched");
                    Err(failed(&error))
                }
            };
            Arrival { node, fetched }
        };
        self.fetching.under_way.push(fetch.boxed());
        Next::Settled
    }

    /// Takes in what became of a file.
    pub(super) fn fetched(&mut self, arrival: Arrival) {
        let Arrival { node, fetched } = arrival;
        match fetched {
            Ok(file) => {
                self.nodes[node].fetched.push(file);
                self.machine.again(node);
            }
            Err(error) => self.fail(node, &error),
        }
    }

    /// The file of an input, as the call gets it.
    pub(super) fn fetched_file(&self, node: usize, input: usize) -> Option<Vec<Value>> {
        let mut fetched = self.nodes[node].fetched.iter();
        let found = fetched.find(|fetched| fetched.input == input)?;
        Some(vec![Value::File(found.file.clone())])
    }
}

impl super::Running {
    fn has_fetched(&self, input: usize) -> bool {
        self.fetched.iter().any(|fetched| fetched.input == input)
    }
}
