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
use super::calls::Calls;
use super::check::Check;
use super::client::{Client, Shared, UPLOAD_LIFE};
use super::database::Depth;
use super::disk::{Death, Disk};
use super::operator::Operator;
use super::oracle::Oracle;
use super::partner::Partner;
use super::points::{SWEEP, armed, is_of_calls};
use super::schedule::{End, LaneInstallation, end, end_by_disk};
use super::tally::{Found, Kind, Tally, Violation};
use it::load::server::{Launch, Server, start_and_kill};
use it::random::Random;

/// An installation in the making of its history.
pub(super) struct Installation {
    campaign: Arc<Campaign>,
    place: LaneInstallation,
    /// Before its folder, which it may be mounted in.
    disk: Box<dyn Disk>,
    folder: TempDir,
    oracle: Shared,
    partner: Partner,
    /// Whether the fault of a witness was brought about.
    is_broken: bool,
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
/// How long a process that was asked to stop may take.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// What the random numbers of a cycle are for.
mod part {
    pub(super) const END: u64 = 0;
    pub(super) const CHECK: u64 = 1;
    /// And one more for each client.
    pub(super) const CLIENTS: u64 = 2;
    pub(super) const DISK_ARMED: u64 = 100;
    pub(super) const DISK: u64 = 101;
}

impl Installation {
    /// An empty one.
    pub(super) async fn new(campaign: Arc<Campaign>, place: LaneInstallation) -> io::Result<Self> {
        let prefix = format!("seed-{}-installation-{place}-", campaign.seed);
        let folder = TempDir::with_prefix_in(prefix, &campaign.folder)?;
        let disk = campaign.disks.make(folder.path())?;
        let journal = BufWriter::new(File::create(folder.path().join("oracle.jsonl"))?);
        let partner = Partner::start().await?;
        partner.write_catalog(&folder.path().join("catalog"))?;
        Ok(Self {
            oracle: Shared::new(Oracle::new(
                place.is_short_lived().then_some(JOB_LIFE),
                Box::new(journal),
            )),
            campaign,
            place,
            disk,
            folder,
            partner,
            is_broken: false,
            tally: Tally::default(),
        })
    }

    /// Lives through `cycles` and the last check, or until an invariant is broken; then its directory stays.
    pub(super) async fn run(mut self, cycles: u64) -> io::Result<Tally> {
        for cycle in 0..cycles {
            let mut violations = Vec::new();
            // The first start is one over an empty directory.
            if cycle == 1 {
                let key = self.operator().add_buyer().await?;
                let calls = Calls::new(self.partner.book.clone(), key);
                self.oracle.lock().calls = Some(calls);
            }
            if let Some(fault) = self.campaign.witness.filter(|_| !self.is_broken) {
                let sqlite = self.campaign.sqlite.as_ref();
                let oracle = self.oracle.lock();
                self.is_broken = fault.inject(oracle.calls.as_ref(), sqlite, &self.data_dir())?;
            }
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
        let how = match self.disk.arm(self.random(cycle, part::DISK_ARMED)) {
            true => end_by_disk(&mut random),
            false => end(&mut random, &points, self.campaign.points_alone),
        };
        match how {
            End::Disk(after) => self.until_disk(cycle, after, violations).await?,
            End::KillAtStart(after) => {
                start_and_kill(&self.launch(None), after).await?;
                self.restarted();
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
        if self.disk.died(self.random(cycle, part::DISK))? == Death::PowerCut
            && let Some(calls) = &mut self.oracle.lock().calls
        {
            calls.lost_power();
        }
        self.database_check(Depth::Quick, violations)
    }

    /// Lets a process start, be checked, work and stop, whose disk may end it at any moment.
    async fn until_disk(
        &mut self,
        cycle: u64,
        after: Duration,
        violations: &mut Vec<Violation>,
    ) -> io::Result<()> {
        // A failing start or connection is what was asked for.
        let Ok(server) = self.start(None).await else {
            return Ok(());
        };
        if self.recent_check(&server, cycle, violations).await.is_err() {
            return server.kill().await;
        }
        let work = self.work(&server, cycle);
        tokio::time::sleep(after).await;
        // It ends with an error where the disk ends it, and is killed where it does not stop.
        let _ = timeout(STOP_WAIT, server.terminate()).await;
        violations.extend(work.join_all().await.into_iter().flatten());
        Ok(())
    }

    /// Lets a process with an armed point start, be checked and work; returns whether it ended there.
    async fn until_point(
        &mut self,
        cycle: u64,
        armed: &str,
        violations: &mut Vec<Violation>,
    ) -> io::Result<bool> {
        // It may end at any moment from here on, so a failing start or connection is what was asked for.
        let Ok(mut server) = self.start(Some(armed)).await else {
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
        match self.start(armed).await {
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
        check.recent(&mut random).await?;
        let sqlite = self.campaign.sqlite.as_ref();
        let counted = check.money(&self.operator(), sqlite).await?;
        self.tally.money_checks += u64::from(counted.is_some());
        Ok(())
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
        let mut asked = check.everything(&records).await;
        if asked.is_ok() {
            let sqlite = self.campaign.sqlite.as_ref();
            let money = check.money(&self.operator(), sqlite).await;
            asked = money.map(|counted| {
                self.tally.money_checks += u64::from(counted.is_some());
                self.tally.money = counted.unwrap_or_default();
            });
        }
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
        self.disk.keep(self.folder.path())?;
        drop(self.disk);
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
        let oracle = self.oracle.lock();
        let (jobs, uploads, deletions) = oracle.acknowledged();
        self.tally.acknowledged_calls = oracle.calls.as_ref().map_or(0, Calls::acknowledged);
        self.tally.dispatches = self.partner.book.lock().len() as u64;
        self.tally.acknowledged_prompts = oracle.v1.prompts.len() as u64;
        self.tally.user_files = oracle.v1.files.len() as u64;
        self.tally.acknowledged_jobs = jobs;
        self.tally.acknowledged_uploads = uploads;
        self.tally.acknowledged_deletions = deletions;
    }

    /// Starts the server, whose start brings what the one before left to the disk.
    async fn start(&mut self, armed: Option<&str>) -> io::Result<Server> {
        self.restarted();
        let launch = self.launch(armed);
        let server = Server::start(&launch).await?;
        if let Some(calls) = &mut self.oracle.lock().calls {
            calls.recovered();
        }
        Ok(server)
    }

    /// The server is about to be started.
    fn restarted(&self) {
        if let Some(calls) = &mut self.oracle.lock().calls {
            calls.restarted();
        }
    }

    fn operator(&self) -> Operator {
        Operator {
            program: self.campaign.program.clone(),
            data_dir: self.data_dir(),
        }
    }

    /// The points that can be reached here: only where something expires there is something to sweep, and only where somebody
    /// pays are there calls.
    fn points(&self) -> Vec<&'static str> {
        let points = self.campaign.points.iter().copied();
        let has_calls = self.oracle.lock().calls.is_some();
        points
            .filter(|point| self.place.is_short_lived() || !SWEEP.contains(point))
            .filter(|point| has_calls || !is_of_calls(point))
            .collect()
    }

    fn random(&self, cycle: u64, part: u64) -> Random {
        self.place.random(self.campaign.seed, cycle, part)
    }

    fn data_dir(&self) -> PathBuf {
        self.disk.data_dir()
    }

    /// Sweeps all the time, so that kills meet sweeps, and half of the installations keep nothing for long, so that sweeps
    /// meet something; everything else is as it ships.
    fn launch(&self, armed: Option<&str>) -> Launch {
        let arguments = ["--sweep-interval", "50ms", "--log-level", "info"];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        arguments.extend([
            "--catalog".to_owned(),
            self.folder.path().join("catalog").display().to_string(),
            "--plain-partners".to_owned(),
            self.partner.address.to_string(),
            // What a start recovers takes room beside what clients send.
            "--concurrent-calls".to_owned(),
            "100".to_owned(),
        ]);
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
