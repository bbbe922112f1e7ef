//! What a kernel refuses, in words for the person whose workflow asked for it.

use crate::pixels::ShapeError;

/// Why a kernel gives no picture; the text says what to change.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KernelError {
    /// The result would have no pixels.
    #[error("the result would be {width}x{height} pixels; choose values that leave at least 1x1")]
    EmptyResult {
        /// Columns that were asked for.
        width: usize,
        /// Rows that were asked for.
        height: usize,
    },
    /// The result is beyond what one frame may hold.
    #[error(
        "the result would be {width}x{height} pixels with {channels} channels, more than one picture may hold; choose a smaller size"
    )]
    TooLarge {
        /// Columns of the result.
        width: usize,
        /// Rows of the result.
        height: usize,
        /// Samples per pixel of the result.
        channels: usize,
    },
    /// The batch would be longer than any may be.
    #[error("the batch would have {0} pictures, more than one may hold; repeat it less often")]
    TooManyFrames(usize),
    /// Lanczos works on 8-bit RGB and RGBA only.
    #[error(
        "lanczos needs a picture of 3 or 4 channels, this one has {0}; choose another upscale method"
    )]
    LanczosChannels(usize),
    /// The border is mirrored, so the radius must stay inside the picture.
    #[error(
        "a radius of {radius} needs a picture larger than {radius} pixels on both sides, this one is {width}x{height}; choose a smaller radius"
    )]
    RadiusTooLarge {
        /// The radius that was asked for, in pixels.
        radius: usize,
        /// Columns of the picture.
        width: usize,
        /// Rows of the picture.
        height: usize,
    },
    /// The picture has fewer channels than the operation reads.
    #[error(
        "this needs a picture of {needed} channels, this one has {found}; add the missing ones before it"
    )]
    MissingChannels {
        /// Channels that are read.
        needed: usize,
        /// Channels that are there.
        found: usize,
    },
    /// Colours are given only between pictures that have three of them.
    #[error(
        "the {which} picture has {found} channels, but must have three colours; take the alpha off the {which} picture first, or give grey three channels"
    )]
    NotThreeColors {
        /// The one of the two that is wrong.
        which: &'static str,
        /// Channels that are there.
        found: usize,
    },
    /// A mask shows no part of its picture.
    #[error("the mask shows nothing of the picture; use one that has a lighter part")]
    NothingShown,
    /// Two pictures must agree in their channels.
    #[error("the two pictures have {0} and {1} channels; bring them to the same number")]
    ChannelMismatch(usize, usize),
    /// Two batches can be paired only one to one or one to all.
    #[error("batches of {0} and {1} cannot be combined; use equal batches, or a batch of one")]
    BatchMismatch(usize, usize),
    /// Two pictures must agree in their size.
    #[error("the pictures are {0}x{1} and {2}x{3} pixels; bring them to the same size")]
    SizeMismatch(usize, usize, usize, usize),
    /// The lower threshold must not be the greater one.
    #[error("the low threshold is greater than the high one; exchange them")]
    ThresholdOrder,
    /// The frames do not form a batch.
    #[error("the pictures cannot form one batch")]
    Batch(#[from] ShapeError),
}
