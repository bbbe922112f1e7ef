//! How large a picture may be, and the meter that holds a decoder to it.
//!
//! Everything is checked from headers, before anything is allocated; a decoder asks the meter for every buffer whose size
//! the file decides.

use super::CodecError;

/// The most that decoding one file may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Columns of the canvas or of any frame.
    pub max_width: usize,
    /// Rows of the canvas or of any frame.
    pub max_height: usize,
    /// Pixels of all frames together.
    pub max_pixels: u64,
    /// Frames of an animation or pages of a document.
    pub max_frames: usize,
    /// Bytes of memory: the resulting floats and every intermediate buffer.
    pub max_bytes: u64,
}

impl Default for Limits {
    /// 16384 pixels a side, 2^28 pixels, 1024 frames, 1 GiB: a 32-frame batch of 1024x1024 with masks passes with room.
    fn default() -> Self {
        Self {
            max_width: 16_384,
            max_height: 16_384,
            max_pixels: 1 << 28,
            max_frames: 1024,
            max_bytes: 1 << 30,
        }
    }
}

/// What one decoding has used of its [`Limits`] so far.
pub(super) struct Meter {
    limits: Limits,
    /// Whether frames become floats, which take more than the bytes that they are decoded to.
    floats: bool,
    pixels: u64,
    frames: usize,
    bytes: u64,
}

impl Meter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            floats: true,
            pixels: 0,
            frames: 0,
            bytes: 0,
        }
    }

    /// For frames that are left as bytes.
    pub(super) fn of_bytes(limits: &Limits) -> Self {
        Self {
            floats: false,
            ..Self::new(limits)
        }
    }

    /// Checks the sides of a canvas or frame.
    pub(super) fn sides(&self, width: usize, height: usize) -> Result<(), CodecError> {
        if width > self.limits.max_width {
            return Err(too_large("pixels in width", self.limits.max_width as u64));
        }
        if height > self.limits.max_height {
            return Err(too_large("pixels in height", self.limits.max_height as u64));
        }
        Ok(())
    }

    /// Counts one frame about to be decoded, with what it will become: floats (three channels, and a mask if it has alpha), or
    /// bytes.
    /// Answers how many bytes that takes.
    pub(super) fn frame(
        &mut self,
        width: usize,
        height: usize,
        alpha: bool,
    ) -> Result<u64, CodecError> {
        self.sides(width, height)?;
        self.frames += 1;
        if self.frames > self.limits.max_frames {
            return Err(too_large("frames", self.limits.max_frames as u64));
        }
        let pixels = width as u64 * height as u64;
        self.pixels += pixels;
        if self.pixels > self.limits.max_pixels {
            return Err(too_large("pixels over all frames", self.limits.max_pixels));
        }
        let channels = if alpha { 4 } else { 3 };
        let bytes = pixels * channels * if self.floats { 4 } else { 1 };
        self.bytes(bytes)?;
        Ok(bytes)
    }

    /// Counts a buffer about to be allocated; buffers are never given back, so count what is reused once.
    pub(super) fn bytes(&mut self, bytes: u64) -> Result<(), CodecError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.max_bytes {
            Err(self.out_of_bytes())
        } else {
            Ok(())
        }
    }

    /// What to answer when the decoder of another crate needs more than it was given.
    pub(super) fn out_of_bytes(&self) -> CodecError {
        too_large("bytes of memory while decoding", self.limits.max_bytes)
    }

    /// Bytes not yet counted: what a decoder of another crate may be given as its own limit.
    pub(super) fn remaining_bytes(&self) -> usize {
        usize::try_from(self.limits.max_bytes.saturating_sub(self.bytes)).unwrap_or(usize::MAX)
    }
}

fn too_large(what: &'static str, limit: u64) -> CodecError {
    CodecError::TooLarge { what, limit }
}
