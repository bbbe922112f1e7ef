//! Names for texts of any length, which every replica computes from the text.

use asset_store::BlobHash;
use uuid::Uuid;

/// A name for a text.
pub(crate) fn of(text: &[u8]) -> Uuid {
    let hash = BlobHash::of(text);
    let (name, _) = hash.as_bytes().split_at(16);
    Uuid::from_slice(name).expect("it has 16 bytes")
}

/// The name that a label is found under.
pub(crate) fn of_label(key: &str, value: &str) -> Uuid {
    let mut text = (key.len() as u64).to_be_bytes().to_vec();
    text.extend([key.as_bytes(), value.as_bytes()].concat());
    of(&text)
}
