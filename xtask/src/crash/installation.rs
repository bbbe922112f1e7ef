//! One data directory through its cycles: start, check, work, die; in the end everything is checked.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Campaign;
use super::check::Check;
use super::client::{Client, Shared, UPLOAD_LIFE};
use super::database::Depth;
use super::oracle::Oracle;
use super::points::{SWEEP, armed};
use super::schedule::{End, Place, end};
use super::tally::{Found, Kind, Tally, Violation};
use crate::random::Random;
use crate::server::{Launch, Server, start_and_kill};

/// An installation in the making of its history.
pub(super) struct Installation {
    campaign: Arc<Campaign>,
    place: Place,
    folder: TempDir,
    oracle: Shared,
    tally: Tally,
}

/// Clients that work at the same time.
const CLIENTS: u64 = 4;
/// How long installations of a short life keep jobs.
const JOB_LIFE: Duration = Duration::from_secs(2);
/// And bytes that nothing refers to: longer than it takes from the bytes of a file to its record.
const BLOB_LIFE: Duration = Duration::from_secs(5);
/// How long a process with an armed fault point may live without reaching it.
const POINT_WAIT: Duration = Duration::from_millis(800);

/// What the random numbers of a cycle are for.
mod part {
    pub(super) const END: u64 = 0;
    pub(super) const CHECK: u64 = 1;
    /// And one more for each client.
    pub(super) const CLIENTS: u64 = 2;
}

impl Installation {
    /// An empty one.
    pub(super) fn new(campaign: Arc<Campaign>, place: Place) -> io::Result<Self> {
        let prefix = format!("seed-{}-installation-{place}-", campaign.seed);
        let folder = TempDir::with_prefix_in(prefix, &campaign.folder)?;
        let journal = BufWriter::new(File::create(folder.path().join("oracle.jsonl"))?);
        Ok(Self {
            oracle: Shared::new(Oracle::new(
                place.is_short_lived().then_some(JOB_LIFE),
                Box::new(journal),
            )),
            campaign,
            place,
            folder,
            tally: Tally::default(),
        })
    }

    /// Lives through `cycles` and the last check, or until an invariant is broken; then its directory stays.
    pub(super) async fn run(mut self, cycles: u64) -> io::Result<Tally> {
        for cycle in 0..cycles {
            let mut violations = Vec::new();
            self.cycle(cycle, &mut violations).await?;
            self.tally.cycles += 1;
            if violations.is_empty() && cycle + 1 == cycles {
                self.last_check(&mut violations).await?;
            }
            if !violations.is_empty() {
                return self.failed(cycle, violations);
            }
        }
        self.count();
        Ok(self.tally)
    }

    async fn cycle(&mut self, cycle: u64, violations: &mut Vec<Violation>) -> io::Result<()> {
        let mut random = self.random(cycle, part::END);
        let points = self.points();
        let how = end(&mut random, &points, self.campaign.points_alone);
        match how {
            End::KillAtStart(after) => {
                start_and_kill(&self.launch(None), after).await?;
                self.tally.kills_at_start += 1;
            }
            End::Kill(after) => {
                let Some(server) = self.started(None, violations).await? else {
                    return Ok(());
                };
                if let Err(error) = self.recent_check(&server, cycle, violations).await {
                    violations.push(went_away(&error));
                    return Ok(());
                }
                let work = self.work(&server, cycle);
                tokio::time::sleep(after).await;
                server.kill().await?;
                violations.extend(work.join_all().await.into_iter().flatten());
                self.tally.kills += 1;
            }
            End::Point { name, passing } => {
                let reached = self
                    .until_point(cycle, &armed(name, passing), violations)
                    .await?;
                let point = self.tally.points.entry(name).or_default();
                point.0 += 1;
                point.1 += u64::from(reached);
            }
        }
        self.database_check(Depth::Quick, violations)
    }

    /// Lets a process with an armed point start, be checked and work; returns whether it ended there.
    async fn until_point(
        &mut self,
        cycle: u64,
        armed: &str,
        violations: &mut Vec<Violation>,
    ) -> io::Result<bool> {
        // It may end at any moment from here on, so a failing start or connection is what was asked for.
        let Ok(mut server) = Server::start(&self.launch(Some(armed))).await else {
            return Ok(true);
        };
        if self.recent_check(&server, cycle, violations).await.is_err() {
            return Ok(timeout(POINT_WAIT, server.ended()).await.is_ok());
        }
        let work = self.work(&server, cycle);
        let reached = timeout(POINT_WAIT, server.ended()).await.is_ok();
        server.kill().await?;
        violations.extend(work.join_all().await.into_iter().flatten());
        Ok(reached)
    }

    /// Starts the server, which has to succeed and be quick.
    async fn started(
        &mut self,
        armed: Option<&str>,
        violations: &mut Vec<Violation>,
    ) -> io::Result<Option<Server>> {
        match Server::start(&self.launch(armed)).await {
            Ok(server) => {
                self.tally.slowest_start = self.tally.slowest_start.max(server.start_time);
                if server.start_time >= self.campaign.longest_start {
                    let what = format!("it took {} ms", server.start_time.as_millis());
                    violations.push(Violation::new(Kind::Start, what));
                }
                Ok(Some(server))
            }
            Err(error) => {
                violations.push(Violation::new(Kind::Start, error.to_string()));
                Ok(None)
            }
        }
    }

    async fn recent_check(
        &mut self,
        server: &Server,
        cycle: u64,
        violations: &mut Vec<Violation>,
    ) -> io::Result<()> {
        let mut random = self.random(cycle, part::CHECK);
        let mut check = Check {
            connection: server.connect().await?,
            oracle: &self.oracle,
            violations,
            outputs: 0,
        };
        check.recent(&mut random).await
    }

    /// Sets the clients to work.
    fn work(&self, server: &Server, cycle: u64) -> JoinSet<Vec<Violation>> {
        let mut work = JoinSet::new();
        for number in 0..CLIENTS {
            let client = Client {
                oracle: self.oracle.clone(),
                random: self.random(cycle, part::CLIENTS + number),
                prefix: format!("{cycle:04}-{number}"),
            };
            work.spawn(client.run(server.address));
        }
        work
    }

    /// Looks at the database while nobody has it, starts the server a last time and asks for everything.
    async fn last_check(&mut self, violations: &mut Vec<Violation>) -> io::Result<()> {
        self.database_check(Depth::Whole, violations)?;
        let records = match &self.campaign.sqlite {
            Some(sqlite) => sqlite.records(&self.data_dir())?,
            None => Vec::new(),
        };
        let Some(server) = self.started(None, violations).await? else {
            return Ok(());
        };
        let mut check = Check {
            connection: server.connect().await?,
            oracle: &self.oracle,
            violations,
            outputs: 0,
        };
        let asked = check.everything(&records).await;
        self.tally.checked_outputs += check.outputs;
        if let Err(error) = asked {
            violations.push(went_away(&error));
        }
        server.kill().await
    }

    fn database_check(&mut self, depth: Depth, violations: &mut Vec<Violation>) -> io::Result<()> {
        // A process that was killed early enough leaves no database behind.
        if let Some(sqlite) = &self.campaign.sqlite
            && self.data_dir().join("main.db").exists()
        {
            self.tally.database_checks += 1;
            sqlite.check(&self.data_dir(), depth, violations)?;
        }
        Ok(())
    }

    fn failed(mut self, cycle: u64, violations: Vec<Violation>) -> io::Result<Tally> {
        self.count();
        let kept = self.folder.keep();
        let found = violations.into_iter().map(|violation| Found {
            seed: self.campaign.seed,
            place: self.place,
            cycle,
            violation,
            kept: kept.display().to_string(),
        });
        self.tally.violations.extend(found);
        fs::write(kept.join("cycle"), format!("{cycle}\n"))?;
        Ok(self.tally)
    }

    fn count(&mut self) {
        let (jobs, uploads, deletions) = self.oracle.lock().acknowledged();
        self.tally.acknowledged_jobs = jobs;
        self.tally.acknowledged_uploads = uploads;
        self.tally.acknowledged_deletions = deletions;
    }

    /// The points that can be reached here: only where something expires there is something to sweep.
    fn points(&self) -> Vec<&'static str> {
        let points = self.campaign.points.iter().copied();
        points
            .filter(|point| self.place.is_short_lived() || !SWEEP.contains(point))
            .collect()
    }

    fn random(&self, cycle: u64, part: u64) -> Random {
        self.place.random(self.campaign.seed, cycle, part)
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Sweeps all the time, so that kills meet sweeps, and half of the installations keep nothing for long, so that sweeps
    /// meet something; everything else is as it ships.
    fn launch(&self, armed: Option<&str>) -> Launch {
        let arguments = ["--sweep-interval", "50ms", "--log-level", "info"];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        if self.place.is_short_lived() {
            for (name, life) in [
                ("--job-retention", JOB_LIFE),
                ("--upload-retention", UPLOAD_LIFE),
                ("--sweep-grace", BLOB_LIFE),
            ] {
                arguments.extend([name.to_owned(), format!("{}ms", life.as_millis())]);
            }
        }
        Launch {
            program: self.campaign.program.clone(),
            under: Vec::new(),
            data_dir: self.data_dir(),
            log: self.folder.path().join("server.log"),
            arguments,
            variables: armed
                .map(|armed| ("FAILPOINTS".to_owned(), armed.to_owned()))
                .into_iter()
                .collect(),
        }
    }
}

fn went_away(error: &io::Error) -> Violation {
    let what = format!("the server went away while it was asked: {error}");
    Violation::new(Kind::Fault, what)
}
