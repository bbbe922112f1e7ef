//! The record of an account over a blob.

use std::fmt;
use std::str::FromStr;

use accounts::AccountId;
use jiff::Timestamp;
use uuid::Uuid;

use crate::BlobHash;

/// Most bytes a file path may have.
const MAX_PATH_BYTES: usize = 1024;

/// Identifies an asset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssetId(pub Uuid);

/// The name a file was uploaded under, or an output was given: relative, with `/` between its parts. It is a name in a row,
/// never a path on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(String);

/// The text is no file path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a file path is relative, has 1 to 1024 bytes without control characters, no drive such as `C:`, and no part that is empty, `.` or `..`"
)]
pub struct InvalidFilePath;

/// One record. Two records over the same blob are two assets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Identifies the record.
    pub id: AssetId,
    /// Whose it is.
    pub account: AccountId,
    /// Its bytes.
    pub hash: BlobHash,
    /// How many bytes.
    pub size_bytes: u64,
    /// The media type that was declared, or that the bytes were written as.
    pub content_type: String,
    /// The name it goes by, where it has one.
    pub file_path: Option<FilePath>,
    /// Free words of the uploader.
    pub tags: Vec<String>,
    /// When the record was made.
    pub created_at: Timestamp,
    /// When it stops being readable; `None` never does.
    pub expires_at: Option<Timestamp>,
    /// The job that made it, where one did.
    pub job_id: Option<Uuid>,
}

impl Asset {
    /// Whether the record is past its time: it then reads as absent, swept or not.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

impl fmt::Display for AssetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for AssetId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

impl FilePath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part behind the last `/`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FilePath {
    type Err = InvalidFilePath;

    fn from_str(text: &str) -> Result<Self, InvalidFilePath> {
        // A backslash separates parts on the systems of some clients: `..\x` must not come out of it as one part.
        let part_is_well = |part: &str| !matches!(part, "" | "." | "..");
        // A letter before a colon is a drive on such systems, and nothing else is.
        let has_drive =
            matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
        let well = text.len() <= MAX_PATH_BYTES
            && !has_drive
            && !text.chars().any(char::is_control)
            && text.split(['/', '\\']).all(part_is_well);
        if well {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidFilePath)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_path_is_relative_and_stays_inside() {
        for good in [
            "photo.png",
            "a/b/c.png",
            "ein Bild – 写真.png",
            "..photo",
            "a..b",
            "1:2.png",
            "写:真.png",
            "ab:c.png",
            &"x".repeat(1024),
        ] {
            assert!(good.parse::<FilePath>().is_ok(), "{good}");
        }
        let bad = [
            "", "/a", "a/", "a//b", "..", "../a", "a/../b", "a\\..\\b", "\\a", "a\0b", "a\nb",
            "C:\\a", "c:a", "./a",
        ];
        for bad in bad.into_iter().chain([&*"x".repeat(1025)]) {
            assert_eq!(bad.parse::<FilePath>(), Err(InvalidFilePath), "{bad:?}");
        }
    }

    #[test]
    fn the_name_is_the_last_part() {
        let path: FilePath = "a/b.png".parse().expect("a valid path");
        assert_eq!(path.name(), "b.png");
    }
}
