//! What the system knows of this process, read from `/proc/self` when a client asks; absent where there is none.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The clock ticks of a second that Linux shows to programs, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory, descriptors, threads and processor time of this process.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Memory in use",
                status_kib("VmRSS:").map(|kib| kib * 1024),
            ),
            ("process_threads", "Threads", status_kib("Threads:")),
            (
                "process_open_fds",
                "Open file descriptors",
                open_descriptors(),
            ),
            (
                "process_max_fds",
                "File descriptors that the process may have",
                most_descriptors(),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(
                    name,
                    help,
                    None,
                    gauge.metric_type(),
                )?)?;
            }
        }
        if let Some(seconds) = processor_seconds() {
            let counter = ConstCounter::new(seconds);
            let help = "Processor time used";
            counter.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

/// A number of `/proc/self/status` by its name there.
fn status_kib(name: &str) -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn open_descriptors() -> Option<i64> {
    // One of them is the directory that is being read.
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(count).ok().map(|count| count - 1)
}

pub(crate) fn most_descriptors() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may hold anything; the numbers stand behind its last bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}
