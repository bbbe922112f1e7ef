//! See `entries/link.rs`.

#![no_main]

#[path = "../entries/link.rs"]
mod link;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| link::link(bytes));
