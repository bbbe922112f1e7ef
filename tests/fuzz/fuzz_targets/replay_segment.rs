//! See `calls::replays::segments::fuzzing` of store-local.

#![no_main]

use std::sync::LazyLock;

use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a temporary directory"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| store_local::fuzzing::segment(bytes, FOLDER.path()));
