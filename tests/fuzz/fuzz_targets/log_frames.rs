//! See `log_files::fuzzing` of store-local.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| store_local::fuzzing::log_frames(bytes));
