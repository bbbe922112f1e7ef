//! Pictures made to do harm: truncated, lying, oversized, bombs.
//!
//! The corpus is made here, always the same, so that nothing harmful lies in the repository. The codecs are tried with it, and
//! so are jobs that load a picture each.

mod bits;
mod bmp;
mod gif;
mod ico;
mod jpeg;
mod mutants;
mod png;
mod tiff;
mod webp;

/// A file and what it is called when it does harm.
pub(crate) type Hostile = (String, Vec<u8>);

pub(crate) fn all() -> Vec<Hostile> {
    let mut all = Vec::new();
    for family in [
        png::hostile,
        jpeg::hostile,
        gif::hostile,
        bmp::hostile,
        tiff::hostile,
        ico::hostile,
        webp::hostile,
        mutants::hostile,
    ] {
        all.extend(family());
    }
    all
}
