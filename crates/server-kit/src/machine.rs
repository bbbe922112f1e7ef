//! What is known of the machine that a server runs on, read when a client asks.

use std::fs;

/// The memory of the machine: all of it, and what a program could still have. Zeros where the system does not tell.
#[must_use]
pub fn memory() -> (u64, u64) {
    let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name| kib(&told, name).unwrap_or(0).saturating_mul(1024);
    (bytes("MemTotal:"), bytes("MemAvailable:"))
}

fn kib(told: &str, name: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_name() {
        let told =
            "MemTotal:        8142236 kB\nMemFree:          123 kB\nMemAvailable:    4071118 kB\n";
        assert_eq!(kib(told, "MemAvailable:"), Some(4_071_118));
        assert_eq!(kib(told, "Other:"), None);
    }
}
