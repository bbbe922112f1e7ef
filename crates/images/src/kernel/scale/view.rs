//! A window of a frame: what a centre crop leaves, without copying it.

use crate::pixels::Frame;

/// Rows and columns of a frame that a resize may read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    frame: &'a Frame,
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl<'a> View<'a> {
    pub(super) fn whole(frame: &'a Frame) -> Self {
        Self::inside(frame, 0, 0)
    }

    /// Leaves `x` columns out at both sides and `y` rows at top and bottom, but never everything.
    pub(super) fn inside(frame: &'a Frame, x: usize, y: usize) -> Self {
        let x = x.min((frame.width() - 1) / 2);
        let y = y.min((frame.height() - 1) / 2);
        Self {
            frame,
            x,
            y,
            width: frame.width() - 2 * x,
            height: frame.height() - 2 * y,
        }
    }

    /// Whether nothing was left out.
    pub(super) fn is_whole(&self) -> bool {
        (self.width, self.height) == (self.frame.width(), self.frame.height())
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        self.height
    }

    pub(super) fn channels(&self) -> usize {
        self.frame.channels()
    }

    pub(super) fn row(&self, y: usize) -> &'a [f32] {
        let channels = self.frame.channels();
        &self.frame.row(self.y + y)[self.x * channels..(self.x + self.width) * channels]
    }
}
