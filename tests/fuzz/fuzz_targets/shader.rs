//! See `shader::fuzzing` of engine-native.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| engine_native::fuzzing::shader(bytes));
