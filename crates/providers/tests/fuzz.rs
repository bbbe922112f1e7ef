//! The fuzz target without a fuzzer: the same entry, fed with seeds that are changed, always in the same way.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

#[path = "../../../tests/fuzz/entries/changed.rs"]
mod changed;
#[path = "../../../tests/fuzz/entries/catalog.rs"]
mod entries;

use changed::{feed, seeds};

#[test]
fn any_catalog_is_loaded_or_refused_with_its_faults() {
    let folder = tempfile::tempdir().unwrap();
    let partners = ["bfl", "byteplus", "fal", "recraft"];
    let seeds: Vec<_> = partners
        .iter()
        .map(|partner| {
            let files = seeds(&format!("catalog/{partner}"));
            let is_schema = |file: &&Vec<u8>| file.trim_ascii_start().starts_with(b"{");
            let is_partner = |file: &&Vec<u8>| file.windows(8).any(|text| text == b"base_url");
            let schema = files.iter().find(is_schema);
            let partner = files.iter().find(is_partner).unwrap();
            let model = files
                .iter()
                .find(|file| !is_schema(file) && !is_partner(file));
            let empty = Vec::new();
            [partner, model.unwrap_or(&empty), schema.unwrap_or(&empty)]
                .map(|file| file.as_slice())
                .join(&0)
        })
        .collect();
    feed(&seeds, 100, |bytes| entries::catalog(bytes, folder.path()));
}
