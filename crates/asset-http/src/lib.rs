//! Bytes of assets over HTTP: content with ranges and validators, and the signed links that let their bearer read it.
//!
//! A family that hands links out mounts [`PATTERN`] and answers it with [`serve_link`]; what a family says of an error is its
//! own, so [`ContentError`] has no response. Knows no account and no credential: who may read a record is decided before.
//! Start at [`serve`] for bytes and at [`SignedLinks`] for links.
//!
#![doc = include_str!("../README.md")]

mod content;
mod error;
mod links;
mod signed;

pub use content::{DAMAGED, Representation, serve};
pub use error::ContentError;
pub use links::{SignedLinks, SignedUrl, signed_url};
pub use signed::{PATTERN, serve_link};
