//! Workers without a process, for benches: they are known and never asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use workflow_core::{ModelFile, Requirements};

use super::{ComfyPool, Member};
use crate::client::WorkerClient;
use crate::definitions::Definitions;
use crate::slots::WorkerSlots;
use crate::worker::Worker;

impl ComfyPool {
    /// Adds the worker of a number, which has as many jobs as its number leaves, and used these model files last.
    pub(crate) fn add_imagined(
        &self,
        number: usize,
        definitions: Definitions,
        used: &BTreeSet<ModelFile>,
    ) {
        let url: crate::WorkerUrl = format!("http://worker-{number}.invalid:8188")
            .parse()
            .expect("an address");
        let client = WorkerClient::new(url.clone(), http::HeaderMap::new(), None);
        let client = client.expect("no authorities, so none is wrong");
        let slots = WorkerSlots::default();
        let name = format!("worker-{number}");
        let worker = Worker::new(name, client, String::new(), url, slots);
        let jobs = u32::try_from(number % (slots.places() + 1)).unwrap_or(0);
        if let Ok(places) = Arc::clone(&worker.places).try_acquire_many_owned(jobs) {
            places.forget();
        }
        worker.imagine(self.shared.once(definitions));
        worker.warmed(used);
        let member = Member {
            worker: Arc::new(worker),
            stop: CancellationToken::new(),
            _task: tokio::spawn(async {}),
        };
        self.shared.members_mut().push(member);
    }

    /// Whether a worker takes a job with these needs that has waited for so long.
    pub(crate) fn choice(&self, needs: &Requirements, waited: Duration) -> Option<Arc<Worker>> {
        self.shared.choice(needs, &[], 1, waited)
    }
}
