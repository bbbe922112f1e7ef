//! What whole-system tests stand on: servers in this process and in their own, simulated
//! partners, plain sockets, forms, recorded cases.

pub mod acknowledged;
pub mod attacks;
pub mod bucket_proxy;
pub mod comfy;
pub mod data_directory;
pub mod disk;
pub mod file_host;
pub mod goldens;
pub mod http;
pub mod http2;
pub mod load;
pub mod log;
pub mod multipart;
pub mod neighbour;
pub mod partners;
pub mod process;
pub mod pty;
pub mod random;
pub mod receivers;
pub mod schema;
mod small_http;
pub mod socket;
pub mod usage;

pub use acknowledged::{Acknowledged, Fact, Holder};
pub use bucket_proxy::{BucketProxy, Trouble};
pub use comfy::Comfy;
pub use data_directory::DataDirectory;
pub use disk::Disk;
pub use goldens::{goldens, root};
pub use http::{Answer, Connection, Request};
pub use http2::Http2;
pub use log::Log;
pub use multipart::Form;
pub use neighbour::Neighbour;
pub use process::{Launch, Operated, Server, operate};
pub use random::Random;
pub use receivers::{Received, Receivers};
pub use socket::{Message, Socket};
pub use usage::Usage;

use std::io::Write;

/// Whether a test lacks what `.ci/run` installs and these variables name; then it says that it was skipped. In CI that is a failure.
pub fn lacks(test: &str, needed: &[&str]) -> bool {
    let missing = needed.iter().find(|name| std::env::var_os(name).is_none());
    if let Some(missing) = missing {
        assert!(
            std::env::var_os("CI").is_none(),
            "{missing} must be set where nothing may be skipped"
        );
        skipped(
            test,
            &format!("{missing} is not set; `.ci/run` installs what it names"),
        );
    }
    missing.is_some()
}

/// The command that runs a scenario of `tests/clients` with the official client for TypeScript, unmodified, unless the test lacks it.
pub fn with_typescript_client(test: &str, scenario: &str) -> Option<tokio::process::Command> {
    if lacks(test, &["EASEL_NODE", "EASEL_TYPESCRIPT_SDK"]) {
        return None;
    }
    let node = std::env::var_os("EASEL_NODE").expect("it is not lacking");
    let mut command = tokio::process::Command::new(node);
    command.arg(root().join("tests/clients").join(scenario));
    command.kill_on_drop(true);
    Some(command)
}

/// Says plainly that a test did nothing and why, past the capture of test output.
pub fn skipped(test: &str, why: &str) {
    // A closed standard error is no reason to fail a test.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
