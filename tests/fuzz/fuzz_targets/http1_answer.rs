//! See `client::http1::fuzzing` of hyper-kit.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hyper_kit::fuzzing::answer(bytes));
