//! Brings a component to the picture's size, one row at a time.
//!
//! Halved components are interpolated with weights 3:1 towards the nearer sample, in libjpeg's rounding; anything else that
//! divides evenly is repeated.

use super::frame::Component;

/// How a component is brought to size.
#[derive(Clone, Copy)]
pub(super) enum Upsampling {
    Same,
    SmoothAcross,
    SmoothDown,
    SmoothBoth,
    Repeat { across: usize, down: usize },
}

impl Upsampling {
    /// For a component that is `across` and `down` times smaller than the picture.
    pub(super) fn of(across: usize, down: usize, component: &Component) -> Self {
        match (across, down) {
            (1, 1) => Self::Same,
            (2, 1) if component.width > 2 => Self::SmoothAcross,
            (2, 2) if component.width > 2 => Self::SmoothBoth,
            (1, 2) => Self::SmoothDown,
            _ => Self::Repeat { across, down },
        }
    }

    /// Writes row `y` of the picture; `out` has room for two samples more, and `sums` is a buffer to be used again.
    pub(super) fn row(self, component: &Component, y: usize, sums: &mut Vec<u16>, out: &mut [u8]) {
        let plane = |y: usize| {
            let stride = component.blocks_wide * 8;
            &component.plane[y * stride..][..component.width]
        };
        // The row that lies on the other side of the wanted one, where the nearer one is `y / 2`.
        let farther = || {
            let near = y / 2;
            if y.is_multiple_of(2) {
                near.saturating_sub(1)
            } else {
                (near + 1).min(component.height - 1)
            }
        };
        match self {
            Self::Same => out[..component.width].copy_from_slice(plane(y)),
            Self::SmoothAcross => {
                let samples = plane(y).iter().map(|&sample| u16::from(sample));
                across::<1, 2, 2>(samples, sums, out);
            }
            Self::SmoothDown => {
                let bias = if y.is_multiple_of(2) { 1 } else { 2 };
                for ((out, &near), &far) in out.iter_mut().zip(plane(y / 2)).zip(plane(farther())) {
                    *out = ((u16::from(near) * 3 + u16::from(far) + bias) >> 2) as u8;
                }
            }
            Self::SmoothBoth => {
                let both = plane(y / 2).iter().zip(plane(farther()));
                let both = both.map(|(&near, &far)| u16::from(near) * 3 + u16::from(far));
                across::<8, 7, 4>(both, sums, out);
            }
            Self::Repeat { across, down } => {
                for (out, &sample) in out.chunks_mut(across).zip(plane(y / down)) {
                    out.fill(sample);
                }
            }
        }
    }
}

/// Doubles a row: each sample gives one towards its left and one towards its right neighbour, rounded with `LEFT` and `RIGHT`
/// and shifted by `SHIFT`; the outermost are their own neighbours. `sums` is room for the row.
fn across<const LEFT: u16, const RIGHT: u16, const SHIFT: u16>(
    samples: impl Iterator<Item = u16>,
    sums: &mut Vec<u16>,
    out: &mut [u8],
) {
    sums.clear();
    sums.push(0);
    sums.extend(samples);
    let last = sums[sums.len() - 1];
    sums.push(last);
    sums[0] = sums[1];
    let triples = sums.iter().zip(&sums[1..]).zip(&sums[2..]);
    for (pair, ((&left, &sample), &right)) in out.as_chunks_mut::<2>().0.iter_mut().zip(triples) {
        *pair = [
            ((sample * 3 + left + LEFT) >> SHIFT) as u8,
            ((sample * 3 + right + RIGHT) >> SHIFT) as u8,
        ];
    }
}
