//! `cargo xtask fleet`: many replicas over one database and one bucket, while everything goes wrong that may.
//!
//! Three processes answer and four run jobs. Clients of two accounts submit jobs, cancel some, upload files and call models under
//! keys; a partner outside keeps a book of what it was asked. Meanwhile [`faults`] kills and stops processes, takes networks away
//! and restarts PostgreSQL. What every client was told is a [`history`], and what the database accepted is in an [`audit`] that
//! triggers write. When all is well again, a [`checker`] outside of the program judges both.

mod audit;
mod checker;
mod clients;
mod database;
mod faults;
mod history;
mod members;
mod proxy;
mod witness;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use it::load::server::{self, Profile};
use it::random::Random;
use store_cloud::testing::{PostgresServer, S3Server};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::checker::{Dispatched, Facts, Kind, Violation};
use self::clients::{Account, Client, World};
use self::database::{Database, Promotion, Standby};
use self::faults::{Fault, Victims};
use self::history::Observation;
use self::members::{Member, Place, Role};
use self::witness::Witness;
use crate::partner::Partner;

/// How long to go on, and where to begin.
#[derive(Debug, Args)]
pub struct Options {
    /// For how many seconds things go wrong.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// End as soon as so many jobs were taken in and calls answered, both together; a campaign that does not come so far fails.
    #[arg(long)]
    work: Option<u64>,
    /// Let these alone go wrong; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Fault>,
    /// How many times as many clients as usual there are.
    #[arg(long, default_value_t = 1)]
    clients: u64,
    /// Decides what is sent and what goes wrong; taken from the clock unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// Use this program, built with the feature `cloud`, instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Build the program as for tests, which is sooner done, rather than as for a release.
    #[arg(long)]
    dev: bool,
    /// Bring this fault about behind the program's back: the campaign passes if the checker reports it.
    #[arg(long)]
    witness: Option<Witness>,
    /// Whether a standby of the database has everything that is acknowledged. If not, what promotions lose is counted, and nothing
    /// that is found fails the campaign.
    #[arg(long, value_enum, default_value_t = Standby::Synchronous)]
    standby: Standby,
}

const APIS: usize = 3;
const WORKERS: usize = 4;
const ACCOUNTS: [&str; 2] = ["acme", "zeta"];
/// Clients of each account: those that submit jobs, those that upload, and those that call models.
const OF_JOBS: u64 = 2;
const OF_UPLOADS: u64 = 1;
const OF_CALLS: u64 = 6;
/// The bounds of an account, over the whole fleet: small, so that they are reached all the time.
const JOB_SLOTS: usize = 2;
const CALLS: usize = 4;
/// How long everything may take to end once all is well: leases of 30 s lapse, and a call is asked again.
const SETTLING: Duration = Duration::from_secs(240);
/// How much longer for each job or call that was taken in.
const LOOK: Duration = Duration::from_millis(20);
/// Violations that are told one by one.
const MOST_TOLD: usize = 10;

/// A campaign that is set up.
struct Fleet {
    members: Vec<Arc<Member>>,
    database: Arc<Database>,
    /// Its files go with it.
    _bucket: S3Server,
    partner: Partner,
    accounts: Vec<Account>,
}

/// What a campaign does.
struct Course {
    seed: u64,
    life: Duration,
    /// The work after which it ends before that.
    work: Option<u64>,
    faults: Vec<Fault>,
    clients: u64,
    witness: Option<Witness>,
}

/// What a campaign counted.
struct Outcome {
    faults: BTreeMap<Fault, u64>,
    counts: Vec<(&'static str, u64)>,
    promotions: Vec<Promotion>,
    violations: Vec<Violation>,
    /// Whether it did the work that was asked for.
    is_done: bool,
}

/// Runs a campaign and writes its summary; returns whether nothing was found that must not be.
///
/// # Errors
/// When this machine has no PostgreSQL or no object store, the program cannot be built or started, or the campaign's own files
/// cannot be written.
pub fn run(root: &Path, options: Options, out: &mut dyn Write) -> io::Result<bool> {
    if !PostgresServer::is_installed() {
        let text = "no PostgreSQL is installed; `apt-get install postgresql` installs one";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    let program = match options.program {
        Some(program) => program,
        None => {
            let profile = match options.dev {
                true => Profile::Dev,
                false => Profile::Release,
            };
            server::build(root, profile, &["cloud"])?
        }
    };
    let seed = options.seed.unwrap_or_else(crate::seed_from_clock);
    let course = Course {
        seed,
        life: Duration::from_secs(options.seconds),
        work: options.work,
        faults: match options.only.is_empty() {
            true => Fault::ALL.to_vec(),
            false => options.only,
        },
        clients: options.clients,
        witness: options.witness,
    };
    writeln!(
        out,
        "fleet: seed {seed}; {APIS} processes that answer, {WORKERS} that run jobs, {} accounts; {} s",
        ACCOUNTS.len(),
        options.seconds
    )?;
    let folder = root.join("target").join("fleet");
    fs::create_dir_all(&folder)?;
    let folder = tempfile::TempDir::with_prefix_in(format!("seed-{seed}-"), &folder)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(async {
        let campaign = async {
            let fleet = Fleet::start(&program, folder.path(), options.standby).await?;
            fleet.run(&course, out).await
        };
        tokio::select! {
            outcome = campaign => outcome,
            interrupt = tokio::signal::ctrl_c() => {
                interrupt?;
                Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"))
            }
        }
    });
    let outcome = outcome.inspect_err(|error| {
        let _ = writeln!(out, "fleet: {error}");
    })?;
    outcome.write(seed, out)?;
    // What an asynchronous standby had not got is gone, with all that follows.
    let is_clean = outcome.violations.is_empty() || options.standby == Standby::Asynchronous;
    if !outcome.is_done {
        writeln!(
            out,
            "fleet: the work was not done in time; give it more --seconds"
        )?;
    }
    let is_clean = is_clean && outcome.is_done;
    if !is_clean && options.witness.is_none() {
        writeln!(out, "fleet: logs are in {}", folder.keep().display())?;
    }
    let Some(witness) = options.witness else {
        return Ok(is_clean);
    };
    let kind = witness.kind();
    let is_reported = outcome.violations.iter().any(|found| found.kind == kind);
    let what = if is_reported { "reported" } else { "MISSED" };
    writeln!(out, "fleet: the fault {witness:?} was {what}")?;
    Ok(is_reported)
}

impl Fleet {
    /// Starts servers, processes and a partner, and makes the accounts.
    async fn start(program: &Path, folder: &Path, standby: Standby) -> io::Result<Self> {
        let database = Database::start(standby).await?;
        let bucket = tokio::task::spawn_blocking(S3Server::start).await?;
        let bucket = bucket.ok_or_else(|| {
            let text = "no SeaweedFS is installed; EASEL_WEED names its program `weed`";
            io::Error::new(io::ErrorKind::NotFound, text)
        })?;
        let endpoint = bucket.endpoint();
        let endpoint = endpoint.trim_start_matches("http://").parse();
        let partner = Partner::start().await?;
        let catalog = folder.join("catalog");
        partner.write_catalog(&catalog)?;
        let arguments = [
            "--require-credentials",
            "--log-level",
            "info",
            "--catalog",
            &catalog.display().to_string(),
            "--plain-partners",
            &partner.address.to_string(),
            "--job-slots",
            &JOB_SLOTS.to_string(),
            "--concurrent-calls",
            &CALLS.to_string(),
        ];
        let place = Place {
            program: program.to_owned(),
            folder: folder.to_owned(),
            postgres: database.sockets(),
            bucket: endpoint.map_err(io::Error::other)?,
            arguments: arguments.map(str::to_owned).to_vec(),
        };
        let mut members = Vec::new();
        let roles = [(Role::Api, "api", APIS), (Role::Worker, "worker", WORKERS)];
        for (role, name, count) in roles {
            for number in 1..=count {
                let member = Member::new(&place, role, &format!("{name}-{number}")).await?;
                members.push(Arc::new(member));
            }
        }
        let first = &members[0];
        first.start().await?;
        audit::begin(&database.primary()).await;
        let mut accounts = Vec::new();
        for name in ACCOUNTS {
            let operate = async |words: &[&str]| members::operate(program, first, words).await;
            operate(&["account", "add", name, "--billing", "on"]).await?;
            operate(&["account", "credit", name, "1000000"]).await?;
            let key = operate(&["key", "add", name]).await?;
            accounts.push(Account { name, key });
        }
        start_all(&members).await?;
        Ok(Self {
            members,
            database: Arc::new(database),
            _bucket: bucket,
            partner,
            accounts,
        })
    }

    /// Lets clients work while things go wrong, then looks at everything and judges it.
    async fn run(self, course: &Course, out: &mut dyn Write) -> io::Result<Outcome> {
        let seed = course.seed;
        let (stop, stopped) = watch::channel(false);
        let apis = self
            .members
            .iter()
            .filter(|member| member.role == Role::Api);
        let world = Arc::new(World::new(apis.cloned().collect(), stopped.clone()));
        let mut clients = JoinSet::new();
        let mut number = 0;
        for account in &self.accounts {
            let each = OF_JOBS + OF_UPLOADS + OF_CALLS;
            for place in (0..course.clients).flat_map(|_| 0..each) {
                number += 1;
                let client = Client {
                    world: Arc::clone(&world),
                    account: account.clone(),
                    random: Random::of_all(&[seed, number]),
                    number,
                };
                if place < OF_JOBS {
                    clients.spawn(client.run_jobs());
                } else if place < OF_JOBS + OF_UPLOADS {
                    clients.spawn(client.upload());
                } else {
                    clients.spawn(client.call_models());
                }
            }
        }
        let victims = Arc::new(Victims {
            members: self.members.clone(),
            database: Arc::clone(&self.database),
        });
        let random = Random::of_all(&[seed, 0]);
        let faults = tokio::spawn(faults::run(victims, course.faults.clone(), random, stopped));
        let began = Instant::now();
        let done = || world.counts.work.load(Ordering::Relaxed);
        let is_done = || course.work.is_some_and(|work| done() >= work);
        while began.elapsed() < course.life && !is_done() {
            let pause = (course.life - began.elapsed()).min(Duration::from_secs(10));
            tokio::time::sleep(pause).await;
            let answered = world.counts.answered.load(Ordering::Relaxed);
            let (seconds, done) = (began.elapsed().as_secs(), done());
            writeln!(
                out,
                "fleet: {seconds} s, {answered} requests answered, {done} jobs and calls"
            )?;
            out.flush()?;
        }
        let is_done = course.work.is_none() || is_done();
        stop.send_replace(true);
        let faults = faults.await.map_err(io::Error::other)?;
        clients.join_all().await;
        start_all(&self.members).await?;
        writeln!(out, "fleet: all is well again; waiting for ends")?;
        out.flush()?;
        let mut random = Random::of_all(&[seed, u64::MAX]);
        let settling = SETTLING + LOOK * u32::try_from(done()).unwrap_or(u32::MAX);
        world.wait_for_ends(&mut random, settling).await;
        // Nothing takes its place any more.
        let database = self.database.primary();
        if let Some(witness) = course.witness {
            witness.inject(&database).await;
        }
        let files = world.look_at_all(&mut random, settling).await;
        let lost_claims = audit::lost_claims(&database).await;
        // Those that answer end last, so that nothing that ends then is left to be judged.
        for member in self.members.iter().rev() {
            member.terminate().await?;
        }
        let facts = Facts {
            events: world.history.events(),
            changes: audit::changes(&database).await?,
            dispatched: self.dispatched(&database).await?,
            bills: audit::bills(&database).await?,
            running_jobs: JOB_SLOTS,
            calls_in_flight: CALLS,
        };
        let counts = counts(&facts, &world, lost_claims, files);
        Ok(Outcome {
            faults,
            counts,
            promotions: self.database.promotions(),
            violations: checker::check(&facts),
            is_done,
        })
    }

    /// The partner's book, with what the rows know of its tasks.
    async fn dispatched(&self, database: &PostgresServer) -> io::Result<Vec<Dispatched>> {
        let given_up = audit::given_up(database).await?;
        let dispatches = self.partner.book.lock();
        let dispatched = dispatches.iter().map(|dispatch| {
            let generation = dispatch.generation.replace('-', "");
            let given_up = given_up.get(&generation).filter(|_| dispatch.is_task);
            Dispatched {
                key: dispatch.call.clone(),
                cents: i64::try_from(dispatch.cents).unwrap_or(i64::MAX),
                result: dispatch.result.clone(),
                began: dispatch.began,
                ended: dispatch.ended,
                given_up: given_up.copied(),
                generation,
            }
        });
        Ok(dispatched.collect())
    }
}

/// Starts those that do not run, all at once.
async fn start_all(members: &[Arc<Member>]) -> io::Result<()> {
    let mut starting = JoinSet::new();
    for member in members {
        let member = Arc::clone(member);
        starting.spawn(async move { member.start().await });
    }
    starting.join_all().await.into_iter().collect()
}

fn counts(
    facts: &Facts,
    world: &World,
    lost_claims: u64,
    files: usize,
) -> Vec<(&'static str, u64)> {
    let told = |fits: fn(&Observation) -> bool| {
        let events = facts.events.iter().filter(|event| fits(&event.told));
        events.count() as u64
    };
    let claims = facts.changes.iter();
    let claims = claims.filter(|change| matches!(change, audit::Change::Claimed { .. }));
    let billed: i64 = facts.bills.iter().map(|bill| bill.cents).sum();
    vec![
        (
            "requests answered",
            world.counts.answered.load(Ordering::Relaxed),
        ),
        (
            "answered with 429 or 5xx",
            world.counts.refused.load(Ordering::Relaxed),
        ),
        (
            "not answered",
            world.counts.unanswered.load(Ordering::Relaxed),
        ),
        ("jobs taken in", world.history.jobs().len() as u64),
        (
            "looks at jobs",
            told(|told| matches!(told, Observation::Seen { .. })),
        ),
        (
            "wishes to cancel taken",
            told(|told| matches!(told, Observation::Cancelled { .. })),
        ),
        ("claims", claims.count() as u64),
        ("claims lost with a worker", lost_claims),
        ("writes of jobs and claims", facts.changes.len() as u64),
        (
            "uploads taken in",
            told(|told| matches!(told, Observation::Uploaded { .. })),
        ),
        ("files read at the end", files as u64),
        ("dispatches at the partner", facts.dispatched.len() as u64),
        (
            "answers of calls that stand",
            told(|told| matches!(told, Observation::Called { .. })),
        ),
        ("bills", facts.bills.len() as u64),
        ("cents billed", u64::try_from(billed).unwrap_or(0)),
    ]
}

impl Outcome {
    fn write(&self, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        for violation in self.violations.iter().take(MOST_TOLD) {
            writeln!(out, "fleet: {:?}: {}", violation.kind, violation.what)?;
        }
        writeln!(out, "fleet: seed {seed}")?;
        let faults = Fault::ALL.map(|fault| (fault.name(), self.faults.get(&fault)));
        for (name, count) in faults {
            writeln!(out, "| {name} | {} |", count.copied().unwrap_or(0))?;
        }
        for (name, count) in &self.counts {
            writeln!(out, "| {name} | {count} |")?;
        }
        let took = self.promotions.iter().map(|one| one.took.as_millis());
        let behind = self.promotions.iter().map(|one| one.behind);
        writeln!(
            out,
            "| ms until a standby took writes, at most | {} |\n| bytes that a standby had not got, at most | {} |",
            took.max().unwrap_or(0),
            behind.max().unwrap_or(0)
        )?;
        for kind in Kind::ALL {
            let same = self.violations.iter().filter(|found| found.kind == kind);
            writeln!(out, "| {} | {} |", kind.name(), same.count())?;
        }
        Ok(())
    }
}
