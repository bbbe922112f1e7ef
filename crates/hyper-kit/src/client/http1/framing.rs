//! Where the body of an answer ends. Nothing here waits: it is given what has been received.

use bytes::{Buf, Bytes, BytesMut};

use super::head::Malformed;

/// The most bytes of chunk extensions and trailers that are skipped.
const MOST_SKIPPED: usize = 16 * 1024;

/// What is still to come of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// This many bytes.
    Length(u64),
    /// Chunks, of which this is the next part.
    Chunks {
        next: Part,
        /// How many bytes that mean nothing have passed.
        skipped: usize,
    },
    /// Whatever comes until the connection is closed.
    UntilClosed,
    /// Nothing.
    Over,
}

/// A part of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Digits of a size, of which some may have been read.
    Size { size: u64, digits: u8 },
    /// What may follow a size up to the end of its line.
    Extension { size: u64 },
    /// The line feed after a size.
    SizeEnd { size: u64 },
    /// Bytes of the body.
    Data { left: u64 },
    /// The line end after them.
    DataEnd { carriage_return: bool },
    /// A line after the last chunk, of which there were so many bytes.
    Trailer { length: usize },
    /// The line feed of it.
    TrailerEnd { length: usize },
}

impl Framing {
    pub(super) fn of_length(length: u64) -> Self {
        match length {
            0 => Self::Over,
            _ => Self::Length(length),
        }
    }

    pub(super) fn chunked() -> Self {
        Self::Chunks {
            next: Part::SIZE,
            skipped: 0,
        }
    }

    /// Takes the next bytes of the body out of what was received; none if more has to be received first, or it is over.
    pub(super) fn take(&mut self, received: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
        match self {
            Self::Length(left) => {
                let length = received
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *self = Self::of_length(*left - length as u64);
                Ok(cut(received, length))
            }
            Self::Chunks { next, skipped } => {
                while let Some(&byte) = received.first() {
                    if let Part::Data { left } = next {
                        let length = received
                            .len()
                            .min(usize::try_from(*left).unwrap_or(usize::MAX));
                        *next = match *left - length as u64 {
                            0 => Part::DataEnd {
                                carriage_return: true,
                            },
                            left => Part::Data { left },
                        };
                        return Ok(cut(received, length));
                    }
                    received.advance(1);
                    match next.after(byte)? {
                        Some(part) => *next = part,
                        None => {
                            *self = Self::Over;
                            return Ok(None);
                        }
                    }
                    if next.means_nothing() {
                        *skipped += 1;
                    }
                    if *skipped > MOST_SKIPPED {
                        return Err(Malformed::TooLong);
                    }
                }
                Ok(None)
            }
            Self::UntilClosed => {
                let length = received.len();
                Ok(cut(received, length))
            }
            Self::Over => Ok(None),
        }
    }

    /// Whether a body that breaks off here is whole.
    pub(super) fn may_be_closed(&self) -> bool {
        matches!(self, Self::UntilClosed | Self::Over)
    }
}

fn cut(received: &mut BytesMut, length: usize) -> Option<Bytes> {
    (length > 0).then(|| received.split_to(length).freeze())
}

impl Part {
    const SIZE: Self = Self::Size { size: 0, digits: 0 };

    /// What comes after a byte that is no data; nothing after the last one.
    fn after(self, byte: u8) -> Result<Option<Self>, Malformed> {
        let next = match (self, byte) {
            (Self::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                // Sixteen digits are as many as a number has, leading zeros included.
                if digits == 16 {
                    return Err(Malformed::Chunk);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Self::Size {
                    size: size << 4 | u64::from(digit),
                    digits: digits + 1,
                }
            }
            (Self::Size { digits: 0, .. }, _) => return Err(Malformed::Chunk),
            (Self::Size { size, .. }, b'\r') => Self::SizeEnd { size },
            (Self::Size { size, .. }, b';' | b' ' | b'\t') => Self::Extension { size },
            (Self::Extension { size }, b'\r') => Self::SizeEnd { size },
            // A line feed alone ends no line, and is how an extension hides another chunk.
            (Self::Extension { size }, _) if byte != b'\n' => Self::Extension { size },
            (Self::SizeEnd { size: 0 }, b'\n') => Self::Trailer { length: 0 },
            (Self::SizeEnd { size }, b'\n') => Self::Data { left: size },
            (
                Self::DataEnd {
                    carriage_return: true,
                },
                b'\r',
            ) => Self::DataEnd {
                carriage_return: false,
            },
            (
                Self::DataEnd {
                    carriage_return: false,
                },
                b'\n',
            ) => Self::SIZE,
            (Self::Trailer { length }, b'\r') => Self::TrailerEnd { length },
            (Self::Trailer { length }, _) if byte != b'\n' => Self::Trailer { length: length + 1 },
            (Self::TrailerEnd { length: 0 }, b'\n') => return Ok(None),
            (Self::TrailerEnd { .. }, b'\n') => Self::Trailer { length: 0 },
            _ => return Err(Malformed::Chunk),
        };
        Ok(Some(next))
    }

    fn means_nothing(self) -> bool {
        matches!(
            self,
            Self::Extension { .. } | Self::Trailer { .. } | Self::TrailerEnd { .. }
        )
    }
}

#[cfg(test)]
mod tests;
