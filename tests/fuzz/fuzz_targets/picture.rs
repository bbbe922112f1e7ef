//! See `entries.rs`.

#![no_main]

#[path = "../entries.rs"]
#[allow(dead_code, reason = "each target calls one of them")]
mod entries;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entries::picture(bytes));
