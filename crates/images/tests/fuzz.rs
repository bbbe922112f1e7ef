//! The fuzz targets without a fuzzer: the same entries, fed with committed files that are changed, always in the same way.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

#[path = "../../../tests/fuzz/entries/changed.rs"]
mod changed;
#[path = "../../../tests/fuzz/entries/picture.rs"]
mod entries;

use changed::{feed, seeds};

#[test]
fn any_picture_is_answered() {
    feed(&seeds("testdata"), 8, entries::picture);
}

#[test]
fn any_png_text_is_answered() {
    feed(&seeds("testdata"), 8, entries::png_text);
}
