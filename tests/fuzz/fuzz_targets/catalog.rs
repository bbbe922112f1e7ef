//! See `entries/catalog.rs`.

#![no_main]

#[path = "../entries/catalog.rs"]
mod catalog;

use std::sync::LazyLock;

use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a temporary directory"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| catalog::catalog(bytes, FOLDER.path()));
