//! See `entries/multipart.rs`.

#![no_main]

#[path = "../entries/multipart.rs"]
mod multipart;

use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| multipart::form(bytes, &RUNTIME));
