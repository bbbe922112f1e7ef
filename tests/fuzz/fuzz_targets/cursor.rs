//! See `cursor::fuzzing` of router-core.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| router_core::fuzzing::cursor(bytes));
