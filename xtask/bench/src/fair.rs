//! `cargo xtask bench fair`: what an ordinary client of one account feels while another account attacks.
//!
//! The client's work is measured on a quiet server first, and then beside each attack of the tests, and beside all of them
//! at once. Every attack has a server of its own. Server, partners, attack and client are processes of their own, on one
//! machine: part of what the client feels is the attack's own use of the processor.

pub mod roles;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use it::attacks::{self, Attack};
use it::partners::Partner;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::claim::{Better, Claim};
use super::report::{Figure, Report, ServerUse, Setting, rounded};
use super::samples::Samples;
use super::{disk, machine, say, until_interrupted};
use it::load::server::{self, Launch, Product, Profile, Server};
use roles::{JOB_SLOTS, Process, Role, STEPS};

/// Without this at p99, the neighbour is not served: one second.
const GATE_MS: f64 = 1_000.0;
/// What to be proud of: twice the time on a quiet server.
const AIM: f64 = 2.0;

/// What the account that attacks may do beyond the defaults: its quotas of the router stop nothing.
const ATTACKER: &[&str] = &["--calls", "100000", "--spend", "1000000000"];

/// What to measure, and how long.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure beside these attacks alone, by name; `all` is every attack at once. May be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// How often the client does its work on each server; 100 are needed for a p99.
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Measure this program instead of building one in the profile `dist`.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Attack with this program, which is this very one built for speed, instead of building it.
    #[arg(long)]
    client: Option<PathBuf>,
}

/// This program, which partners, attack and client run.
const DRIVER: Product = Product::program(crate::DRIVER);

/// What scenarios share.
struct Bench {
    program: PathBuf,
    client: PathBuf,
    repository: PathBuf,
    /// Everything that servers write is in here and goes with it.
    folder: TempDir,
    rounds: usize,
}

/// The times of the steps, each of its own.
type Steps = [Samples; STEPS.len()];

/// Measures and writes a JSON line per figure and two tables; returns whether every gate was passed.
///
/// # Errors
/// When something cannot be built, started or reached.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => server::build(root, Profile::Dist, &[])?,
    };
    let client = match &options.client {
        Some(client) => client.clone(),
        None => server::build_product(root, DRIVER, Profile::Release, &[])?,
    };
    let folder = root.join("target");
    fs::create_dir_all(&folder)?;
    let bench = Bench {
        program,
        client,
        repository: root.to_owned(),
        folder: TempDir::with_prefix_in("bench-", folder)?,
        rounds: options.rounds.max(1),
    };
    let mut build = machine::build(root, Profile::Dist);
    if options.program.is_some() {
        // It is not known here how it was built.
        build = json!({"program": options.program});
    }
    let setting = Setting {
        machine: machine::machine(),
        build,
        disk: disk::Disk::measure(bench.folder.path())?,
    };
    let mut report = Report::new(setting, out);
    // The folder goes with the bench.
    until_interrupted(bench.all(&options.only, &mut report))?;
    report.close()
}

impl Bench {
    async fn all(&self, only: &[String], report: &mut Report<'_>) -> io::Result<()> {
        let mut quiet = None;
        report.note(heading());
        for (name, attacks) in scenarios() {
            // Everything is compared with the quiet server.
            if name != "quiet" && !only.is_empty() && !only.iter().any(|only| only == name) {
                continue;
            }
            say(name);
            match self.one(name, &attacks).await {
                Ok((steps, used, holds)) => {
                    report.note(line(name, &steps));
                    let figure = figure(name, &steps, used, &holds, quiet.as_ref());
                    quiet.get_or_insert(steps);
                    report.take(name, Ok(vec![figure]))?;
                }
                Err(error) => report.take(name, Err(error))?,
            }
        }
        Ok(())
    }

    /// The client's times beside these attacks, what the server used, and what the attacks held at the end.
    async fn one(&self, name: &str, attacks: &[Attack]) -> io::Result<(Steps, ServerUse, String)> {
        let partners = Process::start(&self.client, &Role::Partners).await?;
        let server = self.server(name, &partners.greeting).await?;
        let [attacker, penniless, neighbour] = self.accounts(name).await?;
        let role = Role::Neighbour {
            server: server.address,
            key: neighbour,
        };
        let mut neighbour = Process::start(&self.client, &role).await?;
        neighbour.ask().await?;
        let role = Role::Attack {
            names: attacks.iter().map(|it| it.name().to_owned()).collect(),
            server: server.address,
            key: attacker,
            penniless,
        };
        let mut attack = Process::start(&self.client, &role).await?;
        let before = server.usage()?;
        let mut times: [Vec<u64>; STEPS.len()] = Default::default();
        for _ in 0..self.rounds {
            let round: [u64; STEPS.len()] = serde_json::from_str(&neighbour.ask().await?)?;
            for (times, time) in times.iter_mut().zip(round) {
                times.push(time);
            }
        }
        // An attack that is over has measured nothing.
        let holds = attack.ask().await?;
        let after = server.usage()?;
        drop((attack, neighbour));
        server.kill().await?;
        let used = ServerUse {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_bytes: after.peak_bytes,
        };
        Ok((times.map(Samples::new), used, holds))
    }

    async fn server(&self, name: &str, partners: &str) -> io::Result<Server> {
        let partners: Vec<(String, String)> = serde_json::from_str(partners)?;
        let relocations: Vec<String> = partners
            .iter()
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let catalog = self.folder.path().join("catalog");
        attacks::write_catalog(&self.repository.join("crates/providers/catalog"), &catalog)?;
        let variable = |name: &str, partner: Partner| (name.to_owned(), partner.secret());
        let catalog = catalog.display().to_string();
        let arguments = [
            "--require-credentials",
            "--log-level",
            "warn",
            "--job-slots",
            &JOB_SLOTS.to_string(),
            "--catalog",
            &catalog,
            "--relocate-partners",
            &relocations.join(","),
        ];
        Server::start(&Launch {
            program: self.program.clone(),
            under: Vec::new(),
            data_dir: self.data_dir(name),
            log: self.folder.path().join(format!("{name}.log")),
            arguments: arguments.map(str::to_owned).to_vec(),
            variables: vec![
                variable("BFL_API_KEY", Partner::Bfl),
                variable("OPENAI_API_KEY", Partner::OpenaiImages),
            ],
        })
        .await
    }

    fn data_dir(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the three accounts, and a key for each.
    async fn accounts(&self, name: &str) -> io::Result<[String; 3]> {
        let kinds = [
            ("attacker", ATTACKER),
            ("penniless", &["--billing", "on"]),
            ("neighbour", &[]),
        ];
        let mut keys: [String; 3] = Default::default();
        for ((account, limits), key) in kinds.into_iter().zip(&mut keys) {
            let add = [&["account", "add", account], limits].concat();
            self.command(name, &add).await?;
            *key = self.command(name, &["key", "add", account]).await?;
        }
        Ok(keys)
    }

    async fn command(&self, name: &str, words: &[&str]) -> io::Result<String> {
        let output = Command::new(&self.program)
            .args(words)
            .arg("--data-dir")
            .arg(self.data_dir(name))
            .output()
            .await?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{words:?}: {complaint}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// The quiet server, each attack, and all of them.
fn scenarios() -> Vec<(&'static str, Vec<Attack>)> {
    let each = Attack::ALL
        .iter()
        .map(|attack| (attack.name(), vec![*attack]));
    let quiet = std::iter::once(("quiet", Vec::new()));
    let all = std::iter::once(("all", Attack::ALL.to_vec()));
    quiet.chain(each).chain(all).collect()
}

/// The p99 of the step that suffers most, against the same step on a quiet server.
fn figure(
    name: &'static str,
    steps: &Steps,
    server: ServerUse,
    holds: &str,
    quiet: Option<&Steps>,
) -> Figure {
    let p99 = |samples: &Samples| samples.percentile_ms(99.0).unwrap_or(f64::INFINITY);
    let worst =
        (0..STEPS.len()).max_by(|one, other| p99(&steps[*one]).total_cmp(&p99(&steps[*other])));
    let worst = worst.unwrap_or_default();
    let mut beside = json!({"step": STEPS[worst], "attack": holds});
    for (step, samples) in STEPS.iter().zip(steps) {
        beside[*step] = json!({"p50_ms": samples.median_ms(), "p99_ms": p99(samples)});
    }
    Figure {
        claim: Claim {
            name,
            what: "slowest step of another account, at p99",
            unit: "ms",
            better: Better::Lower,
            gate: Some(GATE_MS),
            aim: quiet.map(|quiet| AIM * p99(&quiet[worst])),
        },
        value: p99(&steps[worst]),
        samples: steps[worst].clone(),
        server,
        beside,
    }
}

/// The head of the table of all steps.
fn heading() -> String {
    let mut line = format!("\n{:<14}", "p50/p99 ms");
    for step in STEPS {
        line.push_str(&format!("{step:>16}"));
    }
    line
}

/// A line of it.
fn line(name: &str, steps: &Steps) -> String {
    let mut line = format!("{name:<14}");
    for samples in steps {
        let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| rounded(ms).to_string());
        let both = format!(
            "{}/{}",
            ms(samples.median_ms()),
            ms(samples.percentile_ms(99.0))
        );
        line.push_str(&format!("{both:>16}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(slowest_ms: u64) -> Steps {
        let mut ms = 0;
        [(); STEPS.len()].map(|()| {
            ms += 1;
            Samples::new(vec![ms.min(slowest_ms) * 1000])
        })
    }

    #[test]
    fn the_figure_is_the_slowest_step_against_the_same_one_when_quiet() {
        let quiet = steps(6);
        let mut attacked = quiet.clone();
        attacked[1] = Samples::new(vec![900_000]);
        let used = ServerUse::default();
        let figure = figure("regex", &attacked, used, "[]", Some(&quiet));
        assert_eq!((figure.value, figure.claim.aim), (900.0, Some(4.0)));
        assert_eq!(figure.beside["step"], "upload");
    }

    #[test]
    fn every_scenario_has_a_name_of_its_own_and_quiet_comes_first() {
        let names: Vec<_> = scenarios().iter().map(|(name, _)| *name).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert_eq!((names[0], names[names.len() - 1]), ("quiet", "all"));
    }

    #[test]
    fn a_role_survives_its_way() {
        let role = Role::Neighbour {
            server: ([127, 0, 0, 1], 1).into(),
            key: "key".to_owned(),
        };
        let line = serde_json::to_string(&role).expect("json");
        assert!(!line.contains('\n'));
        assert!(serde_json::from_str::<Role>(&line).is_ok());
    }
}
