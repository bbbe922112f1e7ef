//! The fuzz target without a fuzzer: the same entry, fed with seeds that are changed, always in the same way.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

#[path = "../../../tests/fuzz/entries/changed.rs"]
#[expect(dead_code, reason = "these seeds are in no file")]
mod changed;
#[path = "../../../tests/fuzz/entries/link.rs"]
mod entries;

use changed::feed;

#[test]
fn no_text_is_a_link_and_no_link_may_be_changed() {
    let seeds = [
        "AQAAAAE\0a.png",
        "image/png\0a.png",
        "\0",
        "text/plain; charset=utf-8\0ä.txt",
    ];
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    feed(&seeds, 1_000, entries::link);
}
