//! Names of files: the folders that v1 tells apart, and the names it gives to uploads.

use asset_store::BlobHash;

/// The folders of v1. They are words only: what is in them are records of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Uploads.
    Input,
    /// Final outputs of jobs.
    Output,
    /// Outputs that were only looked at.
    Temp,
}

/// The word names no folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`type` must be `input`, `output` or `temp`")]
pub struct UnknownFileKind;

impl FileKind {
    /// The folder of a word.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn from_name(name: &str) -> Result<Self, UnknownFileKind> {
        match name {
            "input" => Ok(Self::Input),
            "output" => Ok(Self::Output),
            "temp" => Ok(Self::Temp),
            _ => Err(UnknownFileKind),
        }
    }

    /// The word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Temp => "temp",
        }
    }

    /// Splits the folder off that some clients write behind a name: `a.png [output]`.
    #[must_use]
    pub fn annotated(name: &str) -> (&str, Option<Self>) {
        for kind in [Self::Input, Self::Output, Self::Temp] {
            let annotation = format!(" [{}]", kind.name());
            if let Some(plain) = name.strip_suffix(&annotation) {
                return (plain, Some(kind));
            }
        }
        (name, None)
    }
}

/// Most characters of an ending that is kept.
const MOST_ENDING: usize = 8;

/// The name an upload is known by: its hash, with the ending of the name it came under.
#[must_use]
pub fn content_name(hash: BlobHash, file_name: &str, media_type: &str) -> String {
    let own = file_name.rsplit_once('.').map(|(_, ending)| ending);
    let is_plain = |ending: &&str| {
        (1..=MOST_ENDING).contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let ending = own.filter(is_plain).map(str::to_ascii_lowercase);
    let ending = ending.or_else(|| ending_of(media_type).map(str::to_owned));
    match ending {
        Some(ending) => format!("{}.{ending}", hash.to_hex()),
        None => hash.to_hex(),
    }
}

fn ending_of(media_type: &str) -> Option<&'static str> {
    match media_type {
        "image/png" => Some("png"),
        "image/jpeg" => Some("jpg"),
        "image/webp" => Some("webp"),
        "image/gif" => Some("gif"),
        "image/bmp" => Some("bmp"),
        "image/tiff" => Some("tiff"),
        "image/x-icon" => Some("ico"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_hash_and_a_plain_ending() {
        let hash = BlobHash::of(b"x");
        let hex = hash.to_hex();
        let named = |file_name, media_type| content_name(hash, file_name, media_type);
        assert_eq!(named("a b/É.PNG", ""), format!("{hex}.png"));
        assert_eq!(named("a.tar/../x", "image/webp"), format!("{hex}.webp"));
        assert_eq!(named("noending", "text/plain"), hex);
        assert_eq!(named("x.longerthan8", "image/jpeg"), format!("{hex}.jpg"));
    }

    #[test]
    fn an_annotation_names_the_folder() {
        assert_eq!(
            FileKind::annotated("a.png [temp]"),
            ("a.png", Some(FileKind::Temp))
        );
        assert_eq!(FileKind::annotated("a [b].png"), ("a [b].png", None));
    }
}
