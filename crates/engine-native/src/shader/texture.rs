//! What a shader samples: pictures and curves. Rows count from the bottom, as in OpenGL.

use std::sync::Arc;

use images::Frame;

/// A texture, sampled linearly and continued by its edges.
#[derive(Clone, Debug)]
pub(crate) enum Texture {
    /// A picture of 3 or 4 channels.
    Picture(Arc<Frame>),
    /// One row of one channel.
    Row(Arc<[f32]>),
}

impl Texture {
    pub(super) fn size(&self) -> (usize, usize) {
        match self {
            Self::Picture(frame) => (frame.width(), frame.height()),
            Self::Row(row) => (row.len(), 1),
        }
    }

    /// The texel of a column and a row; those beyond an edge are as the edge is.
    pub(super) fn texel(&self, column: i64, row: i64) -> [f32; 4] {
        let (width, height) = self.size();
        let held = |at: i64, length: usize| {
            let last = length.saturating_sub(1);
            usize::try_from(at).map_or(0, |at| at.min(last))
        };
        let (column, row) = (held(column, width), held(row, height));
        match self {
            Self::Picture(frame) => {
                let channels = frame.channels();
                let from = ((height - 1 - row) * width + column) * channels;
                let pixel = &frame.data()[from..from + channels];
                [
                    pixel[0],
                    pixel[1],
                    pixel[2],
                    pixel.get(3).copied().unwrap_or(1.0),
                ]
            }
            Self::Row(row) => [row[column], 0.0, 0.0, 1.0],
        }
    }

    /// The colour at a point of the unit square, between the four texels around it.
    pub(super) fn sample(&self, x: f32, y: f32) -> [f32; 4] {
        let (width, height) = self.size();
        // What is no number is at the first texel.
        let place = |at: f32, length: usize| {
            let at = at.clamp(-1.0, 2.0) * length as f32 - 0.5;
            let whole = at.floor();
            (whole as i64, at - whole)
        };
        let ((column, across), (row, up)) = (place(x, width), place(y, height));
        let across = if across.is_nan() { 0.0 } else { across };
        let up = if up.is_nan() { 0.0 } else { up };
        let [lower, upper] = [row, row + 1].map(|row| {
            let (left, right) = (self.texel(column, row), self.texel(column + 1, row));
            mixed(left, right, across)
        });
        mixed(lower, upper, up)
    }
}

fn mixed(from: [f32; 4], to: [f32; 4], share: f32) -> [f32; 4] {
    std::array::from_fn(|at| from[at] + share * (to[at] - from[at]))
}
