//! The folders of files that v1 tells apart.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_names_the_folder() {
        assert_eq!(
            FileKind::annotated("a.png [temp]"),
            ("a.png", Some(FileKind::Temp))
        );
        assert_eq!(FileKind::annotated("a [b].png"), ("a [b].png", None));
    }
}
