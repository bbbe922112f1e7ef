//! `cargo xtask bench curves`: how cost grows with stored jobs, calls in flight, models, queued requests and accounts.
//!
//! Each axis is measured at a few sizes. A figure is one line of JSON, and the picture of an axis is drawn from lines alone, also
//! long after they were measured. Curves have no verdict: `v2` and `router` hold one size against another turn by turn.

mod lines;
mod picture;
mod series;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use tempfile::TempDir;

pub(crate) use self::lines::Lines;
pub(crate) use self::series::{Gate, Series};

use self::series::Axis;
use super::{machine, router, say, until_interrupted, v2};
use it::load::server::{self, Product, Profile};
use lines::Line;

/// What to measure or to draw.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure these axes alone; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Axis>,
    /// How many seconds each load lasts at each size.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Leave larger sizes out, on every axis.
    #[arg(long, value_name = "N")]
    most: Option<u64>,
    /// Leave larger numbers of stored jobs out.
    #[arg(long, value_name = "N")]
    most_stored: Option<u64>,
    /// Measure this program, an `all-in-one`, on every axis instead of building those that are shipped.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Run clients and partners with this program, which is this very one built for speed, instead of building it.
    #[arg(long)]
    client: Option<PathBuf>,
    /// Write the lines and a picture of each axis to docs/images/curves.
    #[arg(long)]
    write: bool,
    /// Measure nothing: draw the pictures from the lines of this file, those of docs/images/curves unless named.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["only", "seconds", "most", "most_stored", "program", "client", "write"]
    )]
    from: Option<Option<PathBuf>>,
}

/// Where pictures are, from the root of the repository.
const FOLDER: &str = "docs/images/curves";
/// The file of lines in it.
const FILE: &str = "figures.jsonl";
/// A curve has at least so many points.
const LEAST_SIZES: usize = 2;

/// What the scenarios of an axis need.
#[derive(Debug)]
pub(crate) struct How<'a> {
    /// The program that is measured.
    pub(crate) program: PathBuf,
    /// What clients and partners run.
    pub(crate) client: &'a Path,
    /// Where a folder for everything that is written is made.
    pub(crate) folder: &'a Path,
    /// How long each load lasts at each size.
    pub(crate) seconds: f64,
    /// The sizes, the smallest first.
    pub(crate) sizes: Vec<u64>,
}

impl How<'_> {
    /// A folder of its own, which goes when it is dropped.
    pub(crate) fn own_folder(&self) -> io::Result<TempDir> {
        TempDir::with_prefix_in("bench-", self.folder)
    }
}

/// Measures or draws; returns whether every axis was measured whole.
///
/// # Errors
/// When an option leaves nothing to measure, something cannot be built or written, or a file of lines cannot be read.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let folder = root.join(FOLDER);
    if let Some(file) = &options.from {
        let file = file.clone().unwrap_or_else(|| folder.join(FILE));
        let drawn = draw(&lines::read(&file)?, &folder)?;
        writeln!(out, "{drawn} pictures are drawn in {FOLDER}")?;
        return Ok(true);
    }
    let mut axes = Vec::new();
    for axis in Axis::chosen(&options.only) {
        axes.push((axis, sizes(axis, options)?));
    }
    for program in options.program.iter().chain(&options.client) {
        if !program.is_file() {
            let text = format!(
                "{} is no program: name one that is built, or leave the option out",
                program.display()
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
    }
    let client = match &options.client {
        Some(client) => client.clone(),
        None => {
            server::build_product(root, Product::program(crate::DRIVER), Profile::Release, &[])?
        }
    };
    let target = root.join("target");
    fs::create_dir_all(&target)?;
    let mut plans = Vec::new();
    for (axis, sizes) in axes {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => server::build_product(root, axis.product(), Profile::Dist, &[])?,
        };
        let how = How {
            program,
            client: &client,
            folder: &target,
            seconds: f64::from(options.seconds),
            sizes,
        };
        plans.push((axis, how));
    }
    let mut build = machine::build(root, Profile::Dist);
    if options.program.is_some() {
        // It is not known here how it was built.
        build["profile"] = serde_json::Value::Null;
    }
    let mut lines = Lines::new(machine::machine(), build, out);
    let missing = until_interrupted(measure(&plans, &mut lines))?;
    lines.table()?;
    for (axis, error) in &missing {
        lines.say(&format!(
            "{} were not measured whole: {error}",
            axis.title()
        ))?;
    }
    if options.write {
        let whole = plans.iter().map(|(axis, _)| *axis);
        let whole = whole.filter(|axis| missing.iter().all(|(other, _)| other != axis));
        let drawn = write(&folder, &whole.collect::<Vec<_>>(), lines.all())?;
        lines.say(&format!(
            "{drawn} pictures and {FILE} are written to {FOLDER}"
        ))?;
    }
    Ok(missing.is_empty())
}

/// The sizes of an axis that the options leave.
fn sizes(axis: Axis, options: &Options) -> io::Result<Vec<u64>> {
    let of_axis = options.most_stored.filter(|_| axis == Axis::Stored);
    let most = options.most.into_iter().chain(of_axis).min();
    let sizes = axis.sizes().iter().copied();
    let sizes: Vec<u64> = sizes
        .filter(|size| most.is_none_or(|most| *size <= most))
        .collect();
    if sizes.len() >= LEAST_SIZES {
        return Ok(sizes);
    }
    let text = format!(
        "a curve over {} needs {LEAST_SIZES} sizes of {:?}: allow a larger one, or choose other axes with --only",
        axis.title(),
        axis.sizes(),
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Measures each axis; those that failed leave the others worth having.
async fn measure(
    plans: &[(Axis, How<'_>)],
    lines: &mut Lines<'_>,
) -> io::Result<Vec<(Axis, io::Error)>> {
    let mut missing = Vec::new();
    for (axis, how) in plans {
        say(axis.title());
        let measured = match axis {
            Axis::Stored => v2::curves::stored(how, lines).await,
            Axis::Held => router::curves::held(how, lines).await,
            Axis::Models => router::curves::models(how, lines).await,
            Axis::Queued => router::curves::queued(how, lines).await,
            Axis::Accounts => router::curves::accounts(how, lines).await,
        };
        if let Err(error) = measured {
            say(&format!("{}: {error}", axis.title()));
            missing.push((*axis, error));
        }
    }
    Ok(missing)
}

/// Replaces what the folder has of these axes, and leaves the others; returns how many pictures it has.
fn write(folder: &Path, axes: &[Axis], measured: &[Line]) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let file = folder.join(FILE);
    let mut all = match file.exists() {
        true => lines::read(&file)?,
        false => Vec::new(),
    };
    let is_of = |line: &Line| axes.iter().any(|axis| axis.has(&line.name));
    all.retain(|line| !is_of(line));
    all.extend(measured.iter().filter(|line| is_of(line)).cloned());
    fs::write(&file, lines::text(&all))?;
    draw(&all, folder)
}

/// Draws a picture of each axis that has lines; returns how many there are.
fn draw(lines: &[Line], folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let mut drawn = 0;
    for axis in Axis::chosen(&[]) {
        if let Some(picture) = lines::picture(axis, lines) {
            fs::write(folder.join(format!("{}.svg", axis.name())), picture.svg())?;
            drawn += 1;
        }
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests;
