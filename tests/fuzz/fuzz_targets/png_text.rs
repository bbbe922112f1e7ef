//! See `entries/picture.rs`.

#![no_main]

#[path = "../entries/picture.rs"]
#[allow(dead_code, reason = "each target calls one of them")]
mod picture;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| picture::png_text(bytes));
