//! `cargo xtask crash`: kills the real binary again and again and checks that nothing acknowledged is lost.
//!
//! The parent is the world that survives: its [`oracle`] writes down what clients sent before it is sent, and what was
//! acknowledged. The server is killed at a random instant, while it starts, or at a named fault point; it is started again
//! over the same directory, and everything that the oracle knows is asked for. Lanes run beside each other, each with
//! directories of its own: an *installation* lives for some cycles, is then checked whole, and the next one begins empty.

mod calls;
mod check;
mod client;
mod database;
pub(crate) mod disk;
pub mod fleet;
mod installation;
mod money;
mod operator;
mod oracle;
mod partner;
pub mod points;
pub mod pool;
pub mod power;
mod schedule;
mod tally;
mod v1;
mod witness;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use tokio::task::JoinSet;

use self::database::Sqlite;
use self::disk::{Disks, Folders};
use self::installation::Installation;
use self::schedule::LaneInstallation;
use self::tally::Tally;
use self::witness::Fault;
use it::load::server::{self, Profile};

/// How long to go on, and where to begin.
#[derive(Debug, Args)]
pub struct Options {
    /// How often the server is killed, over all lanes.
    #[arg(long, default_value_t = 200)]
    cycles: u64,
    /// Kill at this fault point alone.
    #[arg(long)]
    point: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// What every campaign can be told, whatever ends the server.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Decides what is sent and when the server dies; taken from the clock unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// Installations at the same time.
    #[arg(long, default_value_t = 2)]
    lanes: u64,
    /// Run this installation alone, as `LANE.NUMBER`.
    #[arg(long)]
    replay: Option<String>,
    /// Use this program instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Build the program as for tests, which is sooner done, rather than as for a release.
    #[arg(long)]
    dev: bool,
    /// The program has fault points; needed with `--program` alone.
    #[arg(long)]
    failpoints: bool,
    /// A start that takes so many seconds counts as broken: two are promised of a release on a machine of its own.
    #[arg(long, default_value_t = 2)]
    longest_start: u64,
    /// Bring this fault about in each installation: the campaign passes if the oracle reports it everywhere.
    #[arg(long)]
    witness: Option<Fault>,
}

/// The feature of the server that compiles fault points in.
const FEATURE: &str = "failpoints";
/// Cycles of an installation before it is checked whole.
const CYCLES_EACH: u64 = 50;

/// Violations of one installation that are told one by one; what breaks one thing mostly breaks many.
const MOST_TOLD: usize = 5;

/// What all installations of a campaign share.
#[derive(Debug)]
struct Campaign {
    program: PathBuf,
    /// Where installations are, and where a failed one stays.
    folder: PathBuf,
    seed: u64,
    /// The fault points that can be armed.
    points: Vec<&'static str>,
    /// Whether to kill at fault points alone.
    points_alone: bool,
    sqlite: Option<Sqlite>,
    /// What installations lie on.
    disks: Arc<dyn Disks>,
    /// What a start must not take.
    longest_start: Duration,
    witness: Option<Fault>,
}

/// Runs a campaign and writes its summary; returns whether no invariant was broken.
///
/// # Errors
/// When the server cannot be built, or the campaign's own files cannot be written.
pub fn run(root: &Path, options: Options, out: &mut dyn Write) -> io::Result<bool> {
    let plan = Plan {
        cycles: options.cycles,
        point: options.point.as_deref(),
        disks: Arc::new(Folders),
    };
    campaign(root, plan, options.common, out)
}

/// What a campaign is about.
pub(crate) struct Plan<'a> {
    /// How often the server dies.
    pub(crate) cycles: u64,
    /// The only fault point that it dies at, if there shall be one.
    pub(crate) point: Option<&'a str>,
    /// What installations lie on.
    pub(crate) disks: Arc<dyn Disks>,
}

/// Runs a campaign and writes its summary; returns whether no invariant was broken.
///
/// # Errors
/// As [`run`].
pub(crate) fn campaign(
    root: &Path,
    plan: Plan<'_>,
    options: Common,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let features: &[&str] = if has_feature(root, FEATURE)? {
        &[FEATURE]
    } else {
        &[]
    };
    let (program, armed) = match options.program {
        Some(program) => (program, options.failpoints),
        None => {
            let profile = if options.dev {
                Profile::Dev
            } else {
                Profile::Release
            };
            (
                server::build(root, profile, features)?,
                !features.is_empty(),
            )
        }
    };
    if !program.is_file() {
        let text = format!("there is no program {}", program.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    let folder = root.join("target").join("crash");
    fs::create_dir_all(&folder)?;
    let campaign = Arc::new(Campaign {
        program,
        folder,
        seed: options.seed.unwrap_or_else(seed_from_clock),
        points: chosen_points(armed, plan.point)?,
        points_alone: plan.point.is_some(),
        sqlite: Sqlite::find(),
        disks: plan.disks,
        longest_start: Duration::from_secs(options.longest_start),
        witness: options.witness,
    });
    writeln!(out, "{}", campaign.opening())?;
    let places = match &options.replay {
        Some(place) => vec![(LaneInstallation::parse(place)?, CYCLES_EACH)],
        None => places(plan.cycles, options.lanes),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    // Dropping the lanes kills their servers; installations that broke nothing are removed with them.
    let tally = runtime.block_on(async {
        tokio::select! {
            tally = lanes(&campaign, &places, out) => tally,
            interrupt = tokio::signal::ctrl_c() => {
                interrupt?;
                Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"))
            }
        }
    })?;
    writeln!(out, "{}", tally.summary(campaign.seed))?;
    let Some(fault) = campaign.witness else {
        return Ok(tally.is_clean());
    };
    let is_reported = tally.has_everywhere(fault.kind(), places.len());
    let outcome = if is_reported { "reported" } else { "MISSED" };
    writeln!(out, "crash: the fault {fault:?} was {outcome}")?;
    Ok(is_reported)
}

/// Runs the lanes beside each other, the installations of each one after the other.
async fn lanes(
    campaign: &Arc<Campaign>,
    places: &[(LaneInstallation, u64)],
    out: &mut dyn Write,
) -> io::Result<Tally> {
    let mut lanes = JoinSet::new();
    let (tell, mut told) = tokio::sync::mpsc::channel(16);
    let mut numbers: Vec<u64> = places.iter().map(|(place, _)| place.lane).collect();
    numbers.dedup();
    for lane in numbers {
        let own = places.iter().filter(move |(place, _)| place.lane == lane);
        let own: Vec<_> = own.copied().collect();
        let (campaign, tell) = (Arc::clone(campaign), tell.clone());
        lanes.spawn(async move {
            for (place, cycles) in own {
                let ended = Installation::new(Arc::clone(&campaign), place)
                    .await?
                    .run(cycles)
                    .await?;
                if tell.send((place, ended)).await.is_err() {
                    break;
                }
            }
            io::Result::Ok(())
        });
    }
    drop(tell);
    let mut whole = Tally::default();
    while let Some((place, ended)) = told.recv().await {
        whole.add(&ended);
        for violation in ended.violations.iter().take(MOST_TOLD) {
            writeln!(out, "crash: {violation}")?;
        }
        writeln!(
            out,
            "crash: installation {place} ended; {}",
            whole.progress()
        )?;
        out.flush()?;
    }
    while let Some(lane) = lanes.join_next().await {
        lane.map_err(io::Error::other)??;
    }
    Ok(whole)
}

/// Deals the cycles out: to lanes in turn, in installations of [`CYCLES_EACH`].
fn places(cycles: u64, lanes: u64) -> Vec<(LaneInstallation, u64)> {
    let lanes = lanes.max(1);
    let mut places = Vec::new();
    for lane in 0..lanes {
        let mut left = cycles / lanes + u64::from(lane < cycles % lanes);
        for installation in 0.. {
            if left == 0 {
                break;
            }
            let share = left.min(CYCLES_EACH);
            left -= share;
            places.push((LaneInstallation { lane, installation }, share));
        }
    }
    places
}

fn chosen_points(armed: bool, point: Option<&str>) -> io::Result<Vec<&'static str>> {
    let points = if armed { points::POINTS } else { &[] };
    let Some(wanted) = point else {
        return Ok(points.to_vec());
    };
    let found = points.iter().find(|known| **known == wanted);
    found.map(|known| vec![*known]).ok_or_else(|| {
        let text = match armed {
            true => format!(
                "there is no fault point `{wanted}`; there are {}",
                points.join(", ")
            ),
            false => "this build has no fault points".to_owned(),
        };
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Whether the manifest of the program has a feature.
///
/// # Errors
/// When the manifest cannot be read.
fn has_feature(root: &Path, feature: &str) -> io::Result<bool> {
    let path = root.join("bins").join(server::PROGRAM).join("Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(path)?
        .parse()
        .map_err(io::Error::other)?;
    let features = manifest.get("features").and_then(toml::Value::as_table);
    Ok(features.is_some_and(|features| features.contains_key(feature)))
}

pub(crate) fn seed_from_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::from(since.subsec_nanos()))
}

impl Campaign {
    fn opening(&self) -> String {
        let points = match self.points.len() {
            0 => "no fault points in this build, kills at random instants only".to_owned(),
            count => format!("{count} fault points"),
        };
        let sqlite = match &self.sqlite {
            Some(sqlite) => format!("the database is checked with sqlite3 {}", sqlite.version),
            None => "sqlite3 is not installed, the database is not checked from outside".to_owned(),
        };
        format!("crash: seed {}; {points}; {sqlite}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_one_of_this_repository() {
        let root = it::root();
        assert!(!has_feature(root, "a-feature-that-nobody-has").expect("its manifest can be read"));
    }

    #[test]
    fn every_cycle_is_dealt_out_once() {
        for (cycles, lanes) in [(1, 2), (200, 2), (101, 3), (7, 0)] {
            let places = places(cycles, lanes);
            assert_eq!(places.iter().map(|(_, share)| share).sum::<u64>(), cycles);
            assert!(
                places
                    .iter()
                    .all(|(_, share)| (1..=CYCLES_EACH).contains(share))
            );
        }
    }

    #[test]
    fn a_point_is_one_that_the_build_has() {
        let first = points::POINTS[0];
        assert_eq!(chosen_points(true, Some(first)).ok(), Some(vec![first]));
        assert!(chosen_points(true, Some("a-point-that-nobody-has")).is_err());
        assert!(chosen_points(false, Some(first)).is_err());
        assert_eq!(chosen_points(false, None).ok(), Some(vec![]));
    }
}
