//! The loop that makes of deployments what their rows say.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use workflow_core::deployment::{
    Deployment, DeploymentChange, DeploymentName, Load, StoredDeployment, WorkerSource,
    definitions_name,
};
use workflow_core::{NamedEngine, RequirementId, RequirementSet, Requirements, StoreError};

use super::engine::{DeploymentEngine, engine_name};
use super::process::{self, Process};
use super::record::Record;
use super::running::{END_TIME, Running};
use super::{Deployments, DeploymentsError, Inner};
use crate::pool::{ComfyPool, PoolConfig};

/// How often workers are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How often rows are read that others may have changed.
const SYNC: Duration = Duration::from_secs(1);

/// How long after the start it is not yet known whose the workers are: those of an earlier life are left alone until then.
const OWNER_TIME: Duration = Duration::from_secs(10);

/// How many requirement sets are remembered before all of them are forgotten.
const MOST_REMEMBERED: usize = 4096;

/// Requirement sets that were read before.
type ReadSets = HashMap<RequirementId, Option<Arc<Requirements>>>;

impl Deployments {
    /// Follows the rows, and starts and stops workers where this process owns them, until `stop` fires; then every worker that was
    /// started here is stopped.
    pub async fn keep(&self, stop: &CancellationToken) {
        let inner = &self.inner;
        let mut sets = ReadSets::new();
        let mut synced: Option<Instant> = None;
        let mut counted: Option<Instant> = None;
        let mut adopted = false;
        let began = Instant::now();
        while !stop.is_cancelled() {
            if synced.is_none_or(|at| at.elapsed() >= SYNC) {
                match inner.sync().await {
                    Ok(()) => {
                        synced = Some(Instant::now());
                        if !adopted {
                            adopted = true;
                            inner.adopt();
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the deployments cannot be read; trying again")
                    }
                }
            }
            // Elsewhere a count only makes room for submissions.
            let counts = inner.owns()
                || (inner.is_waited_for() && counted.is_none_or(|at| at.elapsed() >= SYNC));
            if counts {
                counted = Some(Instant::now());
            }
            let loads = match counts {
                true => inner.count(&mut sets).await,
                false => HashMap::new(),
            };
            if inner.owns() || began.elapsed() > OWNER_TIME {
                inner.look(&loads).await;
            }
            tokio::select! {
                () = inner.bell.notified() => {}
                () = sleep(LOOK) => {}
                () = stop.cancelled() => {}
            }
        }
        inner.end_all().await;
    }
}

impl Inner {
    /// Takes over what the rows say.
    pub(super) async fn sync(&self) -> Result<(), DeploymentsError> {
        let rows = self.ports.rows.list().await?;
        let names: HashSet<&DeploymentName> = rows.iter().map(|row| &row.name).collect();
        for running in self.all() {
            if !names.contains(&running.name) {
                running.engine.end();
                running.state().is_removed = true;
                self.ports.engines.forget(&engine_name(&running.name));
            }
        }
        for stored in &rows {
            self.sync_one(stored).await?;
        }
        Ok(())
    }

    async fn sync_one(&self, stored: &StoredDeployment) -> Result<(), DeploymentsError> {
        let Some(row) = Deployment::read(stored) else {
            tracing::debug!(
                deployment = stored.name.as_str(),
                "a newer version wrote this deployment"
            );
            return Ok(());
        };
        let known = self.running().get(&row.name).cloned();
        let definitions = match &known {
            // One that was removed and made again begins anew, once its workers are gone.
            Some(known) if known.state().is_removed => return Ok(()),
            Some(known) => {
                let before = known.state().row.definitions.clone();
                known.follow(row.clone());
                row.definitions
                    .clone()
                    .filter(|name| before.as_ref() != Some(name))
            }
            None => row.definitions.clone(),
        };
        let running = match known {
            Some(known) => known,
            None => self.begin(row),
        };
        if definitions.is_some()
            && let Some(text) = self.ports.rows.definitions(&running.name).await?
        {
            running.pool.remember(&text);
        }
        Ok(())
    }

    fn begin(&self, row: Deployment) -> Arc<Running> {
        let name = row.name.clone();
        let folder = self.config.folder.join(name.as_str());
        let pool = ComfyPool::new(
            Arc::clone(&self.ports.blobs),
            PoolConfig {
                folder: Some(folder.join("definitions")),
                socket_name: Some(folder.display().to_string()),
                ..self.config.pool.clone()
            },
        );
        let bell = Arc::clone(&self.bell);
        let engine = Arc::new(DeploymentEngine::new(name.clone(), pool.clone(), bell));
        let engines = self.ports.engines.add(NamedEngine {
            name: engine_name(&name),
            engine: Arc::clone(&engine) as _,
        });
        let mark = self.mark(&name);
        let running = Arc::new(Running::new(row, (pool, engine, engines), folder, mark));
        self.running().insert(name, Arc::clone(&running));
        running
    }

    /// Begins the marks of the processes of a deployment: no other server of this machine has the same one.
    fn mark(&self, name: &DeploymentName) -> String {
        let folder = blake3::hash(self.config.folder.as_os_str().as_encoded_bytes()).to_hex();
        format!("{}/{name}", &folder[..32])
    }

    fn all(&self) -> Vec<Arc<Running>> {
        self.running().values().cloned().collect()
    }

    /// Takes over the processes that an earlier life of the server started and did not stop, and ends those of deployments that
    /// are gone.
    fn adopt(&self) {
        for running in self.all() {
            let mut found: HashMap<u32, Record> =
                Record::all(&running.folder).into_iter().collect();
            for (id, mark) in process::marked(&format!("{}/", running.mark)) {
                let record = marked(&mark, id);
                let is_unknown = !found.values().any(|record| record.process == id);
                if let Some((number, record)) = record.filter(|_| is_unknown) {
                    // Its start was not written down: the server was killed at that moment.
                    found.insert(number, record);
                }
            }
            for (number, record) in found {
                match Process::adopt(record.process) {
                    Some(process) => running.adopt(number, &record, process),
                    None => Record::remove(&running.folder, number),
                }
            }
        }
    }

    fn is_waited_for(&self) -> bool {
        self.all()
            .iter()
            .any(|running| running.engine.is_waited_for())
    }

    /// Counts what waits for each deployment; of those that cannot be counted now, nothing is answered.
    async fn count(&self, sets: &mut ReadSets) -> HashMap<DeploymentName, Load> {
        let all = self.all();
        if all.is_empty() {
            return HashMap::new();
        }
        let began = Instant::now();
        match self.loads(&all, sets, Timestamp::now()).await {
            Ok(loads) => {
                for running in &all {
                    if let Some(load) = loads.get(&running.name) {
                        running.engine.counted(load.waiting, began);
                    }
                }
                loads
            }
            Err(error) => {
                tracing::debug!(%error, "the jobs that wait for deployments cannot be counted now");
                HashMap::new()
            }
        }
    }

    async fn look(&self, loads: &HashMap<DeploymentName, Load>) {
        let (owns, now) = (self.owns(), Timestamp::now());
        for running in self.all() {
            let observed = running.look(owns, loads.get(&running.name).copied(), now);
            if let Err(error) = self.write(&running, observed, now).await {
                tracing::warn!(deployment = running.name.as_str(), %error, "an event of a deployment could not be saved");
            }
            if running.state().is_removed && running.is_over() {
                self.running().remove(&running.name);
            }
        }
    }

    /// Writes down what a look came to.
    async fn write(
        &self,
        running: &Running,
        observed: super::running::Observed,
        now: Timestamp,
    ) -> Result<(), DeploymentsError> {
        let super::running::Observed {
            mut changes,
            events,
            ready,
        } = observed;
        if running.state().is_removed {
            return Ok(());
        }
        if let Some(worker) = ready
            && let Some(text) = running.pool.definitions(&worker)
        {
            let name = definitions_name(&running.name, &text);
            if running.state().row.definitions.as_ref() != Some(&name) {
                self.ports
                    .rows
                    .keep_definitions(&running.name, &text)
                    .await?;
                running.pool.remember(&text);
                changes.push(DeploymentChange::DefinitionsKept(name));
            }
        }
        if changes.is_empty() && events.is_empty() {
            return Ok(());
        }
        self.change(&running.name, changes, events, now).await?;
        let stored = self.stored(&running.name).await?;
        if let Some(row) = Deployment::read(&stored) {
            running.follow(row);
        }
        // What was decided may lead to more.
        self.bell.notify_one();
        Ok(())
    }

    /// What waits for each deployment.
    async fn loads(
        &self,
        all: &[Arc<Running>],
        sets: &mut ReadSets,
        now: Timestamp,
    ) -> Result<HashMap<DeploymentName, Load>, StoreError> {
        let demand = self.ports.queue.demand(now).await?;
        if sets.len() > MOST_REMEMBERED {
            sets.clear();
        }
        let mut read = |set: &RequirementSet| {
            let read = sets.entry(set.id());
            read.or_insert_with(|| set.read().map(Arc::new)).clone()
        };
        let waiting: Vec<(RequirementId, Arc<Requirements>)> = demand
            .sets
            .iter()
            .filter_map(|set| Some((set.id(), read(set)?)))
            .collect();
        let mut loads = HashMap::new();
        for running in all {
            let engine = engine_name(&running.name);
            let of_it = waiting
                .iter()
                .filter(|(_, needs)| needs.engine == engine && running.pool.could_run(needs));
            let of_it: HashSet<RequirementId> = of_it.map(|(id, _)| *id).collect();
            let (in_runs, longest) = running.pool.waiting();
            let mut load = Load {
                waiting: in_runs,
                longest,
            };
            if !of_it.is_empty() {
                let queued = self.ports.queue.waiting(&of_it).await?;
                load.waiting += queued.jobs;
                let waited = queued.oldest.map(|oldest| now.duration_since(oldest));
                let waited = waited.and_then(|waited| Duration::try_from(waited).ok());
                load.longest = load.longest.max(waited.unwrap_or_default());
            }
            loads.insert(running.name.clone(), load);
        }
        Ok(loads)
    }

    /// Stops every worker that was started here, and waits until it is gone.
    async fn end_all(&self) {
        let all = self.all();
        for running in &all {
            running.end_all();
        }
        let until = Instant::now() + END_TIME;
        loop {
            let in_time = Instant::now() < until;
            // Every one is looked at, also behind one that has not ended.
            let ended: Vec<bool> = all.iter().map(|running| running.ended(in_time)).collect();
            if ended.iter().all(|ended| *ended) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The number and the record of a process, by its mark.
fn marked(mark: &str, process: process::ProcessId) -> Option<(u32, Record)> {
    let mut parts = mark.rsplit('/');
    let port = parts.next()?.parse().ok()?;
    let revision = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    let record = Record {
        process,
        port,
        revision: workflow_core::deployment::RevisionNumber(revision),
        started_at: Timestamp::now(),
    };
    Some((number, record))
}

/// Whether workers of a row are started here.
pub(super) fn is_managed(row: &Deployment) -> bool {
    let serving = row.serving();
    serving.is_some_and(|revision| matches!(revision.definition.source, WorkerSource::Command(_)))
}
