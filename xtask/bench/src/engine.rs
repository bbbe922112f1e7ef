//! `cargo xtask bench engine`: nodes, codecs and graphs of the native engine against the same in PyTorch and Pillow, and
//! against the speed of memory.
//!
//! One process is ours, one is Python. They work on the same pictures, with as many threads, and take turns within a run;
//! every value is a median. Before anything is timed their results are compared. Memory is looked at in a round of its own,
//! which starts without memory kept from before. Without PyTorch and Pillow the peers are left out, and the report says so.

mod compared;
mod scenarios;
mod table;

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::Args;
use serde_json::{Value, json};

use super::against::Against;
use super::machine;
use super::report::rounded;
use super::samples::median;
use it::load::server::{self, Kind, Product, Profile};
use scenarios::{ALL, Bound, Scenario, Shape};

/// What to measure, and how often.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure these alone; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// How often each is measured: 9 times unless given, and in 20 pairs of turns with `--against`, where 0 leaves times
    /// out.
    #[arg(long)]
    rounds: Option<usize>,
    /// Pixels a side; may be given several times.
    #[arg(long, default_values_t = [512, 2048])]
    side: Vec<u64>,
    /// Pictures of the batch of 512 by 512; 0 leaves it out.
    #[arg(long, default_value_t = 32)]
    batch: u64,
    /// Numbers of threads; by default one, and one for each core.
    #[arg(long)]
    threads: Vec<u64>,
    /// Write the table in Markdown.
    #[arg(long)]
    table: bool,
    /// A Python that has torch and pillow.
    #[arg(long, default_value = "target/peers/bin/python")]
    python: PathBuf,
    #[command(flatten)]
    against: Against,
}

/// The program that is measured.
const NODES: Product = Product {
    package: "engine-native",
    name: "bench_nodes",
    kind: Kind::Example,
};
/// How often each scenario is measured.
const ROUNDS: usize = 9;

/// Nodes and graphs must be so many times faster than their peers.
const GATE_FASTER: f64 = 2.0;
const AIM_FASTER: f64 = 5.0;

/// The PNG encoder must be so many times faster than Pillow's at `compress_level=4`.
const GATE_ENCODER: f64 = 8.0;

/// What only touches memory may take so many times what copying takes.
const GATE_MEMORY: f64 = 2.0;

/// The side at which the gates hold.
const GATED_SIDE: u64 = 2048;

/// What was measured of one scenario in one shape.
struct Measured {
    scenario: Scenario,
    shape: Shape,
    ms: f64,
    peak_bytes: f64,
    /// What copying as many bytes would take; where memory is the bound.
    floor_ms: Option<f64>,
    peer_ms: Option<f64>,
    /// How far apart the results are at most, of samples from 0 to 1; where they were compared.
    difference: Option<f64>,
}

/// A process that is asked line by line.
struct Asked {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Measures and writes a JSON line per scenario and shape and a table; returns whether every gate was passed that could be
/// looked at.
///
/// # Errors
/// When the measured program does not build or breaks off.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    if options.against.is_asked_for() {
        return compared::run(root, options, out);
    }
    let program = server::build_product(root, NODES, Profile::Release, &[])?;
    let mut ours = Asked::start(program.as_os_str(), &[])?;
    let mut peers = start_peers(root, options, out)?;
    let (machine, build) = (machine::machine(), machine::build(root, Profile::Release));
    let folder = tempfile::tempdir()?;
    let mut all = Vec::new();
    for shape in shapes(options) {
        if let Some(peers) = peers.as_mut() {
            peers.ask(&json!({
                "side": shape.side,
                "batch": shape.batch,
                "threads": shape.threads,
                "pictures": folder.path(),
            }))?;
        }
        for scenario in wanted(options, shape) {
            let measured = measure(
                *scenario,
                shape,
                options.rounds.unwrap_or(ROUNDS),
                folder.path(),
                &mut ours,
                peers.as_mut(),
            )?;
            let mut line = measured.line();
            line["machine"] = machine.clone();
            line["build"] = build.clone();
            writeln!(out, "{line}")?;
            all.push(measured);
        }
    }
    match options.table {
        true => table::markdown(&all, out)?,
        false => table::plain(&all, out)?,
    }
    let gated = || all.iter().filter_map(Measured::passes);
    let missed = gated().filter(|passed| !passed).count();
    writeln!(
        out,
        "\n{} gates were looked at, {missed} missed",
        gated().count()
    )?;
    Ok(missed == 0)
}

/// The scenarios that are chosen and make sense in this shape.
fn wanted(options: &Options, shape: Shape) -> impl Iterator<Item = &'static Scenario> {
    ALL.iter().filter(move |scenario| {
        let named =
            options.only.is_empty() || options.only.iter().any(|name| name == scenario.name);
        named && (shape.batch == 1 || scenario.takes_batches())
    })
}

fn shapes(options: &Options) -> Vec<Shape> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut threads = match options.threads.is_empty() {
        true => vec![1, cores],
        false => options.threads.clone(),
    };
    threads.dedup();
    let mut shapes = Vec::new();
    let sizes = options.side.iter().map(|&side| (side, 1));
    let batch = (options.batch > 0).then_some((512, options.batch));
    for (side, batch) in sizes.chain(batch) {
        shapes.extend(threads.iter().map(|&threads| Shape {
            side,
            batch,
            threads,
        }));
    }
    shapes
}

fn measure(
    scenario: Scenario,
    shape: Shape,
    rounds: usize,
    folder: &Path,
    ours: &mut Asked,
    mut peers: Option<&mut Asked>,
) -> io::Result<Measured> {
    let mut request = scenario.request(shape);
    if peers.is_some() {
        request["pictures"] = json!(folder);
    }
    let mut copy = request.clone();
    copy["class"] = json!("memcpy");
    let bound_by_memory = matches!(scenario.bound, Bound::Memory(_));

    // These two rounds also warm up.
    let mut first = request.clone();
    first["fresh"] = json!(true);
    first["results"] = json!(folder);
    let peak_bytes = ours.ask(&first)?["peak_bytes"].as_f64().unwrap_or(0.0);
    // In the peers `pictures` asks for the pictures alone.
    let peer_request = scenario.request(shape);
    let difference = match (peers.as_mut(), scenario.agrees) {
        (Some(peers), Some(tolerance)) => {
            let mut first = peer_request.clone();
            first["results"] = json!(folder);
            Some(agreed(scenario.name, &peers.ask(&first)?, tolerance)?)
        }
        (Some(peers), None) => {
            peers.ask(&peer_request)?;
            None
        }
        (None, _) => None,
    };
    let (mut times, mut floors, mut peer_times) = (vec![], vec![], vec![]);
    for _ in 0..rounds.max(1) {
        times.extend(ours.ask(&request)?["ns"].as_f64());
        if bound_by_memory {
            floors.extend(ours.ask(&copy)?["ns"].as_f64());
        }
        if let Some(peers) = peers.as_mut() {
            peer_times.extend(peers.ask(&peer_request)?["ns"].as_f64());
        }
    }
    // A copy of one picture reads and writes three floats a pixel.
    let floor_ms = match scenario.bound {
        Bound::Memory(floats) => {
            median(floors).map(|ns| ns / 1e6 * floats / 6.0 * shape.batch as f64)
        }
        Bound::Work | Bound::Encoder | Bound::Decoder | Bound::Graph => None,
    };
    Ok(Measured {
        scenario,
        shape,
        ms: median(times).ok_or_else(|| io::Error::other("nothing was measured"))? / 1e6,
        peak_bytes,
        floor_ms,
        peer_ms: median(peer_times).map(|ns| ns / 1e6),
        difference,
    })
}

/// How far apart the results are.
///
/// # Errors
/// When that is too far for the two to be the same operation: then there is nothing to measure.
fn agreed(name: &str, answer: &Value, tolerance: f64) -> io::Result<f64> {
    let difference = answer["difference"].as_f64().unwrap_or(f64::NAN);
    if difference <= tolerance {
        return Ok(difference);
    }
    let message =
        format!("{name}: the results differ by {difference}, and may by {tolerance} at most");
    Err(io::Error::other(message))
}

impl Measured {
    fn faster(&self) -> Option<f64> {
        self.peer_ms.map(|peer| peer / self.ms)
    }

    /// How often the time of a copy it takes.
    fn of_floor(&self) -> Option<f64> {
        self.floor_ms.map(|floor| self.ms / floor)
    }

    fn pixels(&self) -> f64 {
        (self.shape.side * self.shape.side * self.shape.batch) as f64
    }

    /// In pictures of three channels, of which there are as many as the batch has.
    fn peak_images(&self) -> f64 {
        self.peak_bytes / (self.pixels() * 12.0)
    }

    fn gate_faster(&self) -> f64 {
        match self.scenario.bound {
            Bound::Encoder => GATE_ENCODER,
            Bound::Memory(_) | Bound::Work | Bound::Decoder | Bound::Graph => GATE_FASTER,
        }
    }

    /// Whether it passes what it is held to at this size; `None` where it is held to nothing, or nothing is there to compare.
    fn passes(&self) -> Option<bool> {
        if self.shape.side != GATED_SIDE {
            return None;
        }
        let faster = self.faster().map(|faster| faster >= self.gate_faster());
        let near = self.of_floor().map(|times| times <= GATE_MEMORY);
        match (faster, near) {
            (None, None) => None,
            (faster, near) => Some(faster.unwrap_or(true) && near.unwrap_or(true)),
        }
    }

    fn line(&self) -> Value {
        let value = |number: Option<f64>| number.map(rounded);
        json!({
            "scenario": self.scenario.name,
            "side": self.shape.side,
            "batch": self.shape.batch,
            "threads": self.shape.threads,
            "p50_ms": rounded(self.ms),
            "ns_per_pixel": rounded(self.ms * 1e6 / self.pixels()),
            "peak_images": rounded(self.peak_images()),
            "peer_ms": value(self.peer_ms),
            "times_faster": value(self.faster()),
            "gate_faster": self.gate_faster(),
            "aim_faster": AIM_FASTER,
            "copy_ms": value(self.floor_ms),
            "times_copy": value(self.of_floor()),
            "difference": self.difference,
            "bound": self.bound(),
            "passed": self.passes(),
        })
    }

    fn bound(&self) -> &'static str {
        match self.scenario.bound {
            Bound::Memory(_) => "memory",
            Bound::Work => "arithmetic",
            Bound::Encoder => "compressor",
            Bound::Decoder => "decompressor",
            Bound::Graph => "graph",
        }
    }
}

/// The peers, or nothing where they are not installed, which is said.
fn start_peers(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<Option<Asked>> {
    let python = root.join(&options.python);
    let versions = "import torch, PIL; print(torch.__version__, PIL.__version__)";
    let said = Command::new(&python).args(["-c", versions]).output();
    let said = match said {
        Ok(said) if said.status.success() => said,
        Ok(_) | Err(_) => {
            writeln!(
                out,
                "no peers: {} has no torch and pillow; python3 -m venv target/peers && target/peers/bin/pip install torch numpy pillow",
                python.display()
            )?;
            return Ok(None);
        }
    };
    let versions = String::from_utf8_lossy(&said.stdout);
    writeln!(out, "peers: torch and pillow {}", versions.trim())?;
    let script = root.join("xtask/bench/src/engine/peers.py");
    Asked::start(python.as_os_str(), &[script.as_os_str()]).map(Some)
}

impl Asked {
    fn start(program: &OsStr, arguments: &[&OsStr]) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        Ok(Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        })
    }

    fn ask(&mut self, request: &Value) -> io::Result<Value> {
        writeln!(self.stdin, "{request}")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        serde_json::from_str(&line).map_err(|_| io::Error::other(format!("no answer to {request}")))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // It may have ended already.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}
