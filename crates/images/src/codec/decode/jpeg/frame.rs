//! The frame header: size, components, and the memory that decoding will take.

use super::malformed;
use crate::codec::CodecError;

/// Coefficients of a block.
pub(super) const BLOCK: usize = 64;

/// Size and components of a picture.
pub(in crate::codec::decode) struct Frame {
    pub(in crate::codec::decode) width: usize,
    pub(in crate::codec::decode) height: usize,
    pub(super) progressive: bool,
    pub(super) components: Vec<Component>,
    /// The largest sampling factors.
    pub(super) h_max: usize,
    pub(super) v_max: usize,
}

/// One colour component with its samples.
pub(super) struct Component {
    pub(super) id: u8,
    pub(super) h: usize,
    pub(super) v: usize,
    pub(super) table: usize,
    /// Samples that the picture has of it.
    pub(super) width: usize,
    pub(super) height: usize,
    /// Blocks that are stored of it, up to whole minimum coded units.
    pub(super) blocks_wide: usize,
    pub(super) blocks_high: usize,
    /// The quantization table, as it stood when the first scan of the component began.
    pub(super) quantization: Option<[u16; BLOCK]>,
    /// Decoded samples, `blocks_wide * 8` a row.
    pub(super) plane: Vec<u8>,
    /// Coefficients in natural order, kept for progressive pictures alone.
    pub(super) coefficients: Vec<[i16; BLOCK]>,
}

impl Frame {
    /// Parses a frame header; nothing is allocated yet.
    pub(super) fn parse(marker: u8, segment: &[u8]) -> Result<Self, CodecError> {
        if !matches!(marker, 0xc0..=0xc2) {
            return Err(CodecError::Unsupported(
                "lossless or arithmetic JPEG".to_owned(),
            ));
        }
        let ([bits, h0, h1, w0, w1, count], list) = segment
            .split_first_chunk::<6>()
            .ok_or_else(|| malformed("its frame header is cut off"))?;
        if *bits != 8 {
            return Err(CodecError::Unsupported(format!(
                "JPEG with {bits} bits a sample"
            )));
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(CodecError::Unsupported(format!(
                "JPEG with {count} components"
            )));
        }
        let side = |high: u8, low: u8| usize::from(u16::from_be_bytes([high, low]));
        let (width, height) = (side(*w0, *w1), side(*h0, *h1));
        let list = list
            .get(..usize::from(*count) * 3)
            .ok_or_else(|| malformed("its frame header is cut off"))?;
        let factors = |byte: u8| (usize::from(byte >> 4), usize::from(byte & 15));
        let all = list.chunks_exact(3).map(|component| factors(component[1]));
        if width == 0
            || height == 0
            || all
                .clone()
                .any(|(h, v)| !(1..=4).contains(&h) || !(1..=4).contains(&v))
        {
            return Err(malformed("its frame header makes no sense"));
        }
        let h_max = all.clone().map(|(h, _)| h).max().unwrap_or(1);
        let v_max = all.map(|(_, v)| v).max().unwrap_or(1);
        let components = list.chunks_exact(3).map(|component| {
            let (h, v) = factors(component[1]);
            Component {
                id: component[0],
                h,
                v,
                table: usize::from(component[2]),
                width: (width * h).div_ceil(h_max),
                height: (height * v).div_ceil(v_max),
                blocks_wide: width.div_ceil(8 * h_max) * h,
                blocks_high: height.div_ceil(8 * v_max) * v,
                quantization: None,
                plane: Vec::new(),
                coefficients: Vec::new(),
            }
        });
        let components = components.collect();
        Ok(Self {
            width,
            height,
            progressive: marker == 0xc2,
            components,
            h_max,
            v_max,
        })
    }

    /// Bytes that samples and coefficients will take.
    pub(in crate::codec::decode) fn memory(&self) -> u64 {
        let blocks: u64 = self
            .components
            .iter()
            .map(|c| c.blocks_wide as u64 * c.blocks_high as u64)
            .sum();
        blocks * BLOCK as u64 * if self.progressive { 3 } else { 1 }
    }

    /// Makes room for everything. Samples that no scan brings are mid-grey.
    pub(super) fn allocate(&mut self) {
        for component in &mut self.components {
            let blocks = component.blocks_wide * component.blocks_high;
            component.plane = vec![128; blocks * BLOCK];
            if self.progressive {
                component.coefficients = vec![[0; BLOCK]; blocks];
            }
        }
    }

    /// Minimum coded units across and down in an interleaved scan.
    pub(super) fn units(&self) -> (usize, usize) {
        (
            self.width.div_ceil(8 * self.h_max),
            self.height.div_ceil(8 * self.v_max),
        )
    }
}
