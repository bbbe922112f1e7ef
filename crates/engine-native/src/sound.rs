//! Sounds as nodes work on them: samples of every channel, decoded.

mod decode;
mod encode;
mod equalize;
mod foreign;
mod resample;

use crate::value::Opaque;
use crate::{NodeContext, NodeError, Value};

pub(crate) use decode::decoded;
pub(crate) use encode::{flac, wave};
pub(crate) use equalize::{Band, Filter};
pub(crate) use foreign::heard;
pub(crate) use resample::resampled;

/// A batch of sounds of one length: samples from -1 to 1, by sound and channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    /// Samples of a channel per second.
    pub rate: u32,
    /// Channels by sound; all have as many samples.
    pub items: Vec<Vec<Vec<f32>>>,
}

impl Sound {
    /// Samples of a channel.
    #[must_use]
    pub fn length(&self) -> usize {
        self.channels().first().map_or(0, Vec::len)
    }

    /// The channels of the first sound.
    #[must_use]
    pub fn channels(&self) -> &[Vec<f32>] {
        self.items.first().map_or(&[], Vec::as_slice)
    }

    /// Bytes that its samples take.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let channels = self.items.iter().flatten();
        channels.map(|samples| size_of_val(&**samples) as u64).sum()
    }

    /// The same with every channel changed.
    ///
    /// # Errors
    /// If there is no room for it.
    pub(crate) fn map(
        &self,
        length: usize,
        context: &NodeContext,
        change: impl Fn(&[f32]) -> Vec<f32>,
    ) -> Result<Self, NodeError> {
        let channels: usize = self.items.iter().map(Vec::len).sum();
        context.reserve(bytes(channels, length))?;
        let item = |item: &Vec<Vec<f32>>| item.iter().map(|samples| change(samples)).collect();
        Ok(Self {
            rate: self.rate,
            items: self.items.iter().map(item).collect(),
        })
    }
}

/// Bytes of so many channels of a length.
pub(crate) fn bytes(channels: usize, length: usize) -> u64 {
    (channels as u64)
        .saturating_mul(length as u64)
        .saturating_mul(size_of::<f32>() as u64)
}

impl From<Sound> for Value {
    fn from(sound: Sound) -> Self {
        let size = sound.size_bytes();
        Opaque::new("AUDIO", sound, size).into()
    }
}
