//! The port to what reads and rewrites pictures outside any job: for uploads, and for looking at files.

use asset_store::{Blob, BoxError};
use async_trait::async_trait;
use bytes::Bytes;

/// What the header of a picture says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureInfo {
    /// Its format, as a media type.
    pub media_type: &'static str,
    /// Columns as stored; an EXIF orientation may swap them with the rows.
    pub width: u32,
    /// Rows as stored.
    pub height: u32,
}

/// A picture made of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadePicture {
    /// Its format, as a media type.
    pub media_type: &'static str,
    /// The file.
    pub bytes: Bytes,
}

/// What is wanted of a picture that is encoded anew to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewOptions {
    /// The format.
    pub format: PreviewFormat,
    /// 1..=100; what is beyond is brought within.
    pub quality: u8,
    /// Whether alpha is dropped, which JPEG does anyway.
    pub opaque: bool,
}

/// A format to look at pictures in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviewFormat {
    /// Lossy WebP, alpha kept.
    Webp,
    /// JPEG.
    Jpeg,
}

/// The part of a picture that an editor of masks asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureChannel {
    /// The colours as stored, alpha dropped and not composed with anything.
    Rgb,
    /// RGBA whose colours are 0 and whose alpha is that of the picture; 255 where it has none.
    Alpha,
}

/// Why a picture could not be read or made; variants by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum ImageToolsError {
    /// The bytes are no picture, or a broken one; the text says which and what to do.
    #[error("{0}")]
    NotAPicture(String),
    /// The picture is larger than is read here; the text says by what measure.
    #[error("{0}")]
    TooLarge(String),
    /// A mask has another size than its picture, both as they are seen: width, then height.
    #[error(
        "the mask has {mask_width}x{mask_height} pixels and the picture {width}x{height}; make them the same size"
    )]
    SizesDiffer {
        /// Columns of the picture.
        width: u32,
        /// Rows of the picture.
        height: u32,
        /// Columns of the mask.
        mask_width: u32,
        /// Rows of the mask.
        mask_height: u32,
    },
    /// The bytes are gone.
    #[error("the bytes of the picture are gone")]
    Absent,
    /// The bytes in the store are not those that were put.
    #[error("the bytes of the picture are damaged")]
    Damaged,
    /// The bytes cannot be read now, or the tools failed.
    #[error("the picture could not be processed")]
    Failed(#[source] BoxError),
}

/// Looks at pictures and makes others of them, for uploads and for views of a file.
///
/// **Contract.** A picture is what LoadImage sees of it: its first frame, turned as its EXIF orientation says, 8 bits a
/// sample, the colours of transparent pixels as stored. All bytes at all are answered, with an error at worst; what a file
/// claims to be is checked from its header before memory is taken for it, and all calls together stay within a bound of
/// memory, for which they wait in turn. Dropping the future gives up the wait; work that has begun ends unseen. Equal
/// arguments give equal bytes. There is no twin in memory: it would have to be a codec.
#[async_trait]
pub trait ImageTools: Send + Sync + 'static {
    /// Reads format and size from the header; decodes nothing.
    async fn probe(&self, picture: Blob) -> Result<PictureInfo, ImageToolsError>;

    /// A JPEG within `side` x `side` pixels, proportions kept, never enlarged, alpha dropped.
    async fn thumbnail(&self, picture: Blob, side: u32) -> Result<MadePicture, ImageToolsError>;

    /// The picture in full size, encoded to be small.
    async fn preview(
        &self,
        picture: Blob,
        options: PreviewOptions,
    ) -> Result<MadePicture, ImageToolsError>;

    /// Part of the picture, as PNG.
    async fn channel(
        &self,
        picture: Blob,
        channel: PictureChannel,
    ) -> Result<MadePicture, ImageToolsError>;

    /// The picture as PNG, its alpha replaced by that of `mask` (opaque where `mask` has none); the text chunks of a PNG
    /// original are kept.
    async fn mask(&self, picture: Blob, mask: Blob) -> Result<MadePicture, ImageToolsError>;
}
