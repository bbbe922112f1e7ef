//! Why bytes did not become a picture, or a picture did not become bytes.

/// What a codec refuses; variants by what the caller can do about it.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum CodecError {
    /// The first bytes belong to no format that is read here: ask for another file.
    #[error("this is not a picture in a known format; send PNG, JPEG, WebP, GIF, BMP, TIFF or ICO")]
    Unrecognized,
    /// The format is known, but its contents are broken beyond what can be shown: ask for an intact file.
    #[error("the {format} picture is damaged ({reason}); save it again and resend it")]
    Malformed {
        /// The format that the first bytes promised.
        format: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The picture is larger than the limits allow: ask for a smaller one.
    #[error("the picture exceeds {limit} {what}; send a smaller one")]
    TooLarge {
        /// What there is too much of, with its unit.
        what: &'static str,
        /// The most that is allowed.
        limit: u64,
    },
    /// The picture is well-formed but uses a feature that is not read or written here: convert it first.
    #[error("{0} is not supported; convert the picture to 8-bit PNG or JPEG")]
    Unsupported(String),
}

impl CodecError {
    pub(super) fn malformed(format: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Malformed {
            format,
            reason: reason.to_string(),
        }
    }
}
