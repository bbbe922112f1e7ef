//! The failures that fault points pretend, by the name that a test or a campaign gives.

#![allow(dead_code, reason = "without fault points nobody asks for a failure")]

use std::io;

#[cfg(feature = "failpoints")]
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::ffi;

/// A fault point: what `fail::fail_point!` is, and nothing at all in a build without the feature `failpoints`.
#[cfg(feature = "failpoints")]
macro_rules! fault_point {
    ($($point:tt)*) => { fail::fail_point!($($point)*) };
}
#[cfg(not(feature = "failpoints"))]
macro_rules! fault_point {
    // A block, which is a statement as well as a value.
    ($($point:tt)*) => {{}};
}
pub(crate) use fault_point;

/// Whether the process has armed its fault points.
#[cfg(feature = "failpoints")]
static ARMED: AtomicBool = AtomicBool::new(false);

/// `full` for a full disk, anything else for a broken one.
fn is_full(kind: Option<&str>) -> bool {
    kind == Some("full")
}

/// A failure of the file system.
#[expect(
    clippy::needless_pass_by_value,
    reason = "fault points hand over what they were given"
)]
pub(crate) fn io(kind: Option<String>) -> io::Error {
    if is_full(kind.as_deref()) {
        io::ErrorKind::StorageFull.into()
    } else {
        io::Error::other("injected fault")
    }
}

/// A failure of SQLite.
#[expect(
    clippy::needless_pass_by_value,
    reason = "fault points hand over what they were given"
)]
pub(crate) fn sqlite(kind: Option<String>) -> rusqlite::Error {
    let code = if is_full(kind.as_deref()) {
        ffi::SQLITE_FULL
    } else {
        ffi::SQLITE_IOERR_FSYNC
    };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

/// Lets the process die at the fault points that the variable `FAILPOINTS` arms, wherever they are and whatever would catch
/// a panic there: nothing is unwound, flushed or answered. Does nothing without that variable, nor in a program that is built
/// without fault points, nor when it is called again.
pub(crate) fn arm() {
    #[cfg(feature = "failpoints")]
    if std::env::var_os("FAILPOINTS").is_some() && !ARMED.swap(true, Ordering::Relaxed) {
        // For as long as the process lives.
        std::mem::forget(fail::FailScenario::setup());
        std::panic::set_hook(Box::new(|_| std::process::abort()));
    }
}
