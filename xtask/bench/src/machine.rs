//! What was measured on, and what was measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use it::load::server::Profile;

/// Describes the machine, and how busy it was when asked: `load_1m` beyond 0 is other work.
#[must_use]
pub fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map(|(_, value)| value.trim().to_owned())
    };
    let load = read("/proc/loadavg");
    json!({
        "cpu": field(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load_1m": load.split_whitespace().next().and_then(|text| text.parse::<f64>().ok()),
    })
}

/// Describes the build: profile, commit, and whether the sources were changed since.
#[must_use]
pub fn build(root: &Path, profile: Profile) -> Value {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(root)
            .output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.unwrap_or_default()
    };
    json!({
        "profile": profile.name(),
        "commit": said("git", &["rev-parse", "--short", "HEAD"]),
        "changed_since": !said("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty(),
        "rustc": said("rustc", &["--version"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores() {
        assert!(machine()["cores"].as_u64().is_some_and(|cores| cores > 0));
    }
}
