//! Pictures and masks as the nodes see them: frames of 32-bit floats.
//!
//! A batch is a list of shared frames, so that taking, repeating and joining batches moves pointers and a node that owns the
//! only reference to a frame may work in place. Values are stored sRGB values, 0..1 by convention and **not** clamped between nodes.

mod levels;
mod spare;

use std::sync::Arc;

pub(crate) use self::levels::samples_to_bytes;
pub use self::spare::release_spare_memory;
pub(crate) use self::spare::unwritten;

/// One picture or mask: `height * width * channels` row-major floats, channels interleaved.
///
/// A frame that is dropped leaves its memory to later ones.
#[derive(Debug, PartialEq)]
pub struct Frame {
    height: usize,
    width: usize,
    channels: usize,
    data: Vec<f32>,
}

/// The value of an `IMAGE` socket: `[batch, height, width, channels]`, every frame of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    frames: Vec<Arc<Frame>>,
}

/// The value of a `MASK` socket: `[batch, height, width]`, 1 = masked (transparent); its frames have one channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    frames: Vec<Arc<Frame>>,
}

/// Frames that do not form a batch.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ShapeError {
    /// A batch needs at least one frame.
    #[error("the batch is empty")]
    Empty,
    /// Two frames of a batch differ in height, width or channels.
    #[error("frames of different shapes ({0}x{1}x{2} and {3}x{4}x{5}) cannot form one batch")]
    Mixed(usize, usize, usize, usize, usize, usize),
    /// A mask frame has exactly one channel.
    #[error("a mask has one channel, this frame has {0}")]
    NotAMask(usize),
}

// === impl Frame ===

impl Frame {
    /// Wraps row-major samples.
    ///
    /// # Panics
    /// If `data` does not hold `height * width * channels` samples: that is a bug of the caller, never of its input.
    #[must_use]
    pub fn new(height: usize, width: usize, channels: usize, data: Vec<f32>) -> Self {
        assert_eq!(
            data.len(),
            height * width * channels,
            "samples must fill the shape"
        );
        Self {
            height,
            width,
            channels,
            data,
        }
    }

    /// A frame of one value.
    #[must_use]
    pub fn filled(height: usize, width: usize, channels: usize, value: f32) -> Self {
        let mut data = unwritten(height * width * channels);
        data.fill(value);
        Self::new(height, width, channels, data)
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Samples per pixel.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// All samples, row-major.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// All samples, to be changed in place.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// The samples of one row: `width * channels` of them.
    #[must_use]
    pub fn row(&self, y: usize) -> &[f32] {
        let stride = self.width * self.channels;
        &self.data[y * stride..(y + 1) * stride]
    }

    /// Height, width and channels.
    #[must_use]
    pub fn shape(&self) -> (usize, usize, usize) {
        (self.height, self.width, self.channels)
    }

    /// Bytes that the samples take.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.data.len() * size_of::<f32>()
    }
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        let mut data = unwritten(self.data.len());
        data.copy_from_slice(&self.data);
        Self { data, ..*self }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        spare::leave(std::mem::take(&mut self.data));
    }
}

// === impl Image ===

impl Image {
    /// A batch of frames.
    ///
    /// # Errors
    /// If there is no frame or their shapes differ.
    pub fn new(frames: Vec<Arc<Frame>>) -> Result<Self, ShapeError> {
        one_shape(&frames)?;
        Ok(Self { frames })
    }

    /// A batch of one.
    #[must_use]
    pub fn single(frame: Frame) -> Self {
        Self {
            frames: vec![Arc::new(frame)],
        }
    }

    /// The frames, shared.
    #[must_use]
    pub fn frames(&self) -> &[Arc<Frame>] {
        &self.frames
    }

    /// The frames, taken out; a caller that holds the only reference may change them in place.
    #[must_use]
    pub fn into_frames(self) -> Vec<Arc<Frame>> {
        self.frames
    }

    /// The first frame; a batch always has one.
    #[must_use]
    pub fn first(&self) -> &Frame {
        &self.frames[0]
    }

    /// How many of the frames are there only once, however often the batch holds them.
    #[must_use]
    pub fn distinct(&self) -> usize {
        distinct(&self.frames)
    }

    /// Bytes that the frames take together, each counted once.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        (self.distinct() * self.first().size_bytes()) as u64
    }

    /// Applies `f` to every frame, in place where this value is the only owner.
    ///
    /// # Errors
    /// If `f` gives frames of different shapes.
    pub fn map(self, f: impl FnMut(Arc<Frame>) -> Arc<Frame>) -> Result<Self, ShapeError> {
        Self::new(self.frames.into_iter().map(f).collect())
    }
}

// === impl Mask ===

impl Mask {
    /// A batch of one-channel frames.
    ///
    /// # Errors
    /// If there is no frame, their shapes differ, or they have several channels.
    pub fn new(frames: Vec<Arc<Frame>>) -> Result<Self, ShapeError> {
        one_shape(&frames)?;
        match frames[0].channels {
            1 => Ok(Self { frames }),
            several => Err(ShapeError::NotAMask(several)),
        }
    }

    /// The frames, shared.
    #[must_use]
    pub fn frames(&self) -> &[Arc<Frame>] {
        &self.frames
    }

    /// The frames, taken out; a caller that holds the only reference may change them in place.
    #[must_use]
    pub fn into_frames(self) -> Vec<Arc<Frame>> {
        self.frames
    }

    /// The first frame; a batch always has one.
    #[must_use]
    pub fn first(&self) -> &Frame {
        &self.frames[0]
    }

    /// How many of the frames are there only once, however often the batch holds them.
    #[must_use]
    pub fn distinct(&self) -> usize {
        distinct(&self.frames)
    }

    /// Bytes that the frames take together, each counted once.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        (self.distinct() * self.first().size_bytes()) as u64
    }
}

fn one_shape(frames: &[Arc<Frame>]) -> Result<(), ShapeError> {
    let first = frames.first().ok_or(ShapeError::Empty)?;
    match frames.iter().find(|frame| frame.shape() != first.shape()) {
        None => Ok(()),
        Some(other) => {
            let (a, b) = (first.shape(), other.shape());
            Err(ShapeError::Mixed(a.0, a.1, a.2, b.0, b.1, b.2))
        }
    }
}

fn distinct(frames: &[Arc<Frame>]) -> usize {
    let addresses = frames.iter().map(|frame| Arc::as_ptr(frame).addr());
    addresses.collect::<std::collections::HashSet<_>>().len()
}
