//! How deployments are, for operators.

use std::path::Path;

use jiff::Timestamp;
use workflow_core::deployment::{
    Deployment, DeploymentName, DeploymentState, RevisionNumber, WorkerCounts,
};

use super::keep::is_managed;
use super::running::Running;
use super::{Deployments, DeploymentsError, process, running};
use crate::pool::WorkerReport;

/// Most bytes of a log that are answered.
const MOST_LOG_BYTES: usize = 64 << 10;

/// A deployment as it is now.
#[derive(Clone, Debug)]
pub struct DeploymentReport {
    /// Its row.
    pub row: Deployment,
    /// How it is.
    pub state: DeploymentState,
    /// Why, in a sentence.
    pub why: String,
    /// Its workers, as far as this server has them.
    pub workers: Vec<ManagedReport>,
}

/// A worker of a deployment.
#[derive(Clone, Debug)]
pub struct ManagedReport {
    /// Its revision.
    pub revision: RevisionNumber,
    /// Its process, where it was started here.
    pub pid: Option<i32>,
    /// When it was started, or connected to first.
    pub started_at: Timestamp,
    /// The worker.
    pub worker: WorkerReport,
}

/// What a worker wrote lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerLog {
    /// The worker.
    pub worker: String,
    /// Whole lines, the newest last.
    pub text: String,
}

impl Deployments {
    /// All deployments, in the order of their names.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub async fn list(&self) -> Result<Vec<DeploymentReport>, DeploymentsError> {
        self.inner.sync().await?;
        let rows = self.inner.ports.rows.list().await?;
        let reports = rows.iter().filter_map(|stored| {
            let running = self.inner.running().get(&stored.name).cloned();
            match running.filter(|running| !running.state().is_removed) {
                Some(running) => Some(self.report(&running)),
                None => Deployment::read(stored).map(ending),
            }
        });
        Ok(reports.collect())
    }

    /// One deployment.
    ///
    /// # Errors
    /// If there is no such deployment, or the rows cannot be read.
    pub async fn show(&self, name: &DeploymentName) -> Result<DeploymentReport, DeploymentsError> {
        let all = self.list().await?;
        let found = all.into_iter().find(|report| report.row.name == *name);
        found.ok_or_else(|| DeploymentsError::Absent(name.clone()))
    }

    /// What the workers of a deployment wrote lately on this machine, those that are gone included.
    ///
    /// # Errors
    /// If there is no such deployment, or the rows cannot be read.
    pub async fn logs(&self, name: &DeploymentName) -> Result<Vec<WorkerLog>, DeploymentsError> {
        self.show(name).await?;
        let folder = self.inner.config.folder.join(name.as_str());
        let name = name.clone();
        let read = tokio::task::spawn_blocking(move || {
            let numbers = numbers(&folder).into_iter();
            let logs = numbers.map(|number| WorkerLog {
                worker: format!("{name}-{number}"),
                text: process::tail(&running::log(&folder, number), MOST_LOG_BYTES),
            });
            logs.collect()
        });
        Ok(read.await.unwrap_or_default())
    }

    fn report(&self, running: &Running) -> DeploymentReport {
        let row = running.state().row.clone();
        let (state, why) = match is_managed(&row) && !self.inner.owns() {
            true => {
                let (state, why) = row.state(row.workers);
                let elsewhere = "another server of the installation starts its workers";
                (state, format!("{why}; {elsewhere}"))
            }
            false => running.shown(),
        };
        let reports = running.pool.workers();
        let managed = running.state();
        let workers = managed.workers.values().filter_map(|managed| {
            let worker = reports
                .iter()
                .find(|report| report.name == managed.worker)?;
            Some(ManagedReport {
                revision: managed.revision,
                pid: managed.process.as_ref().map(|process| process.id.pid),
                started_at: managed.started_at,
                worker: worker.clone(),
            })
        });
        DeploymentReport {
            workers: workers.collect(),
            row,
            state,
            why,
        }
    }

    /// The workers of all deployments, for metrics.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerReport> {
        let all: Vec<_> = self.inner.running().values().cloned().collect();
        all.iter()
            .flat_map(|running| running.pool.workers())
            .collect()
    }
}

/// One that was removed and made again, while the workers of before end.
fn ending(row: Deployment) -> DeploymentReport {
    DeploymentReport {
        state: row.state(WorkerCounts::default()).0,
        why: "it begins when the workers of the removed deployment of this name are gone"
            .to_owned(),
        workers: Vec::new(),
        row,
    }
}

/// The numbers of workers that have a log, in order.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let found = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let number = name
            .to_str()?
            .strip_prefix("worker-")?
            .strip_suffix(".log")?;
        number.parse().ok()
    });
    let mut numbers: Vec<u32> = found.collect();
    numbers.sort_unstable();
    numbers
}
