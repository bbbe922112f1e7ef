//! What a release ships: an archive of the servers and one of the command line, each with licences, documents and a bill of
//! materials, and the checksums of all.
//!
//! The same sources and the same programs make the same bytes: entries are sorted, every time is that of the commit, and programs
//! are built without the paths of this machine. Each program is built in a call of its own: in a common one Cargo gives every crate
//! the features that any of the programs asks for, and a server of one family would link the other family.

mod archive;
mod licences;
mod packages;
mod sbom;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use sha2::{Digest, Sha256};

use archive::Entry;
use packages::Packages;

/// What to build, and where to put it.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The profile of Cargo that the programs are built with.
    #[arg(long, default_value = "dist")]
    profile: String,
    /// A folder of programs that were built before, in place of building them.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Where the archives go.
    #[arg(long, value_name = "FOLDER", default_value = "target/dist-archives")]
    out: PathBuf,
}

/// One archive.
#[derive(Debug)]
struct Product {
    /// How its name begins.
    name: &'static str,
    /// The packages whose programs are in it.
    programs: &'static [&'static str],
    /// The features that each of them is built with, besides its defaults.
    features: &'static [&'static str],
    /// Documents and folders of the repository that are in it, besides what every archive has.
    files: &'static [&'static str],
    /// Whether the browser gets something from it.
    has_pages: bool,
    /// Whether it is the program that writes completions.
    is_command_line: bool,
}

const PRODUCTS: &[Product] = &[
    Product {
        name: "easel",
        programs: &["easel"],
        features: &[],
        files: &["docs/CLI.md"],
        has_pages: false,
        is_command_line: true,
    },
    Product {
        name: "easel-server",
        programs: &["all-in-one", "router-server", "workflow-server"],
        features: &["cloud", "otlp"],
        files: &["deploy/proxies", "deploy/systemd", "docs"],
        has_pages: true,
        is_command_line: false,
    },
];

/// What every archive has of the repository.
const COMMON: &[&str] = &["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// What of a folder is shipped: texts, and no pictures.
const SHIPPED: &[&str] = &["Caddyfile", "conf", "json", "md", "service", "socket"];

/// Where each shell looks for completions below a prefix such as `/usr/local`.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/easel"),
    ("fish", "share/fish/vendor_completions.d/easel.fish"),
    ("powershell", "share/powershell/easel.ps1"),
    ("zsh", "share/zsh/site-functions/_easel"),
];

const PROGRAM: u32 = 0o755;
const TEXT: u32 = 0o644;

/// Makes the archives and names them in `out`.
///
/// # Errors
/// If something cannot be built, read or written.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let target = host()?;
    let packages = Packages::read(root, &target)?;
    let time = commit_time(root)?;
    let programs = match &options.programs {
        Some(folder) => folder.clone(),
        None => build(root, &options.profile)?,
    };
    let folder = root.join(&options.out);
    fs::create_dir_all(&folder)?;

    // Nobody ships a build for tests, which is many times as large.
    let level = match options.profile.as_str() {
        "dev" => Compression::fast(),
        _ => Compression::best(),
    };
    let mut sums = String::new();
    for product in PRODUCTS {
        let name = format!("{}-{}-{target}", product.name, packages.version);
        let linked = packages.linked(root, product, &target)?;
        let bill = sbom::of(&name, product, &packages, &linked, time, root)?;
        let mut entries = product.entries(root, &programs, time)?;
        entries.push(Entry::text("sbom.cdx.json", &bill));
        let licences = licences::of(&packages, &linked, product.has_pages.then_some(root))?;
        entries.push(Entry::text("THIRD-PARTY-LICENSES.txt", &licences));
        let packed = archive::pack(&name, entries, time, level)?;
        for (file, bytes) in [
            (format!("{name}.cdx.json"), bill.as_bytes()),
            (format!("{name}.tar.gz"), &packed),
        ] {
            fs::write(folder.join(&file), bytes)?;
            sums.push_str(&format!("{}  {file}\n", hex(&Sha256::digest(bytes))));
            writeln!(
                out,
                "{} ({} bytes)",
                folder.join(&file).display(),
                bytes.len()
            )?;
        }
    }
    fs::write(folder.join("SHA256SUMS"), sums)?;
    writeln!(out, "{}", folder.join("SHA256SUMS").display())?;
    Ok(true)
}

impl Product {
    /// Everything of the archive that is there before the archive is.
    fn entries(&self, root: &Path, programs: &Path, time: u64) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for name in self.programs {
            let program = programs.join(name);
            let bytes = read(&program)?;
            entries.push(Entry::new(format!("bin/{name}"), PROGRAM, bytes));
            let folder = tempfile::tempdir()?;
            let mut manual = Command::new(&program);
            manual.env("SOURCE_DATE_EPOCH", time.to_string());
            output(manual.arg("man").arg(folder.path()))?;
            for entry in fs::read_dir(folder.path())? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let bytes = read(&entry.path())?;
                entries.push(Entry::new(format!("share/man/man1/{name}"), TEXT, bytes));
            }
        }
        for path in COMMON.iter().chain(self.files) {
            add(root, path, &mut entries)?;
        }
        if self.is_command_line {
            let program = programs.join("easel");
            for (shell, path) in COMPLETIONS {
                let script = output(Command::new(&program).args(["completions", shell]))?;
                entries.push(Entry::new((*path).to_owned(), TEXT, script));
            }
        }
        Ok(entries)
    }
}

/// Adds a file of the repository, or what of a folder is shipped.
fn add(root: &Path, path: &str, entries: &mut Vec<Entry>) -> io::Result<()> {
    let whole = root.join(path);
    if whole.is_file() {
        entries.push(Entry::new(path.to_owned(), TEXT, read(&whole)?));
        return Ok(());
    }
    for entry in fs::read_dir(&whole).map_err(|error| named(&whole, &error))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_shipped = SHIPPED.iter().any(|end| name.ends_with(end));
        if entry.path().is_dir() || is_shipped {
            add(root, &format!("{path}/{name}"), entries)?;
        }
    }
    Ok(())
}

/// Builds the programs; answers their folder.
fn build(root: &Path, profile: &str) -> io::Result<PathBuf> {
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .map_err(io::Error::other)?;
    // Panics name the places of sources: those of every machine alike.
    let flags = [
        format!("--remap-path-prefix={}=/easel", root.display()),
        format!("--remap-path-prefix={home}=/cargo"),
    ];
    for arguments in PRODUCTS.iter().flat_map(Product::cargo_arguments) {
        let mut cargo = it::process::cargo();
        cargo.args(["build", "--locked", "--profile", profile]);
        cargo.args(&arguments);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        let status = cargo.current_dir(root).status()?;
        if !status.success() {
            let arguments = arguments.join(" ");
            return Err(io::Error::other(format!("{arguments} does not build")));
        }
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    // The folder of the profile `dev` has an older name.
    Ok(target.join(if profile == "dev" { "debug" } else { profile }))
}

impl Product {
    /// For each program its package and features, as Cargo takes them.
    fn cargo_arguments(&self) -> impl Iterator<Item = Vec<String>> {
        let features =
            (!self.features.is_empty()).then(|| format!("--features={}", self.features.join(",")));
        let packages = self.programs.iter().map(|name| format!("--package={name}"));
        packages.map(move |package| [package].into_iter().chain(features.clone()).collect())
    }
}

/// The machine that programs are built for.
fn host() -> io::Result<String> {
    let told = text(output(Command::new("rustc").arg("-vV"))?)?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| io::Error::other("rustc does not tell what it builds for"))
}

/// The time of everything, in seconds since 1970: that of the commit, or what `SOURCE_DATE_EPOCH` says.
fn commit_time(root: &Path) -> io::Result<u64> {
    let told = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(told) => told,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(root);
            let told = output(&mut git).map_err(|error| {
                let advice = "set SOURCE_DATE_EPOCH to the seconds since 1970 of the release";
                io::Error::other(format!(
                    "there is no commit to take the time of ({error}); {advice}"
                ))
            })?;
            text(told)?
        }
    };
    let time = told.trim().parse();
    time.map_err(|_| io::Error::other(format!("{told:?} is no number of seconds since 1970")))
}

/// What a command prints, if it succeeds.
fn output(command: &mut Command) -> io::Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program().to_string_lossy();
    Err(io::Error::other(format!("{program}: {}", complaint.trim())))
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_built_in_a_call_of_its_own() {
        let calls: Vec<_> = PRODUCTS.iter().flat_map(Product::cargo_arguments).collect();
        let features = "--features=cloud,otlp";
        assert_eq!(
            calls,
            [
                vec!["--package=easel"],
                vec!["--package=all-in-one", features],
                vec!["--package=router-server", features],
                vec!["--package=workflow-server", features],
            ]
        );
    }
}
