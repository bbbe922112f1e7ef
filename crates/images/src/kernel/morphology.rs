//! Morphology: erosion and dilation by a square, and what is made of them.

use std::sync::Arc;

use super::KernelError;
use super::extremes::{Extreme, Reach, square};
use super::frames::each;
use super::rows::zip_samples;
use crate::pixels::{Frame, Image};

/// What is done with the square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Morphology {
    /// The least sample under it.
    Erode,
    /// The greatest sample under it.
    Dilate,
    /// Eroded, then dilated: small light spots vanish.
    Open,
    /// Dilated, then eroded: small dark spots vanish.
    Close,
    /// The dilated less the eroded.
    Gradient,
    /// The closed less the picture.
    BottomHat,
    /// The picture less the opened.
    TopHat,
}

/// Runs `operation` with a square of `kernel_size` pixels each way, channel by channel; pixels beyond the border do not count.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn morphology(
    image: Image,
    operation: Morphology,
    kernel_size: usize,
) -> Result<Image, KernelError> {
    // An even square reaches one pixel farther to the left and the top, whether it erodes or dilates.
    let size = kernel_size.max(1);
    let reach = Reach {
        before: size / 2,
        after: size - size / 2 - 1,
    };
    let erode = |frame: &Frame| square(frame, reach, Extreme::Least);
    let dilate = |frame: &Frame| square(frame, reach, Extreme::Greatest);
    let less = |a: Frame, b: &Frame| zip_samples(Arc::new(a), b, |a, b| a - b);
    each(image, |frame| {
        Ok(match operation {
            Morphology::Erode => Arc::new(erode(&frame)?),
            Morphology::Dilate => Arc::new(dilate(&frame)?),
            Morphology::Open => Arc::new(dilate(&erode(&frame)?)?),
            Morphology::Close => Arc::new(erode(&dilate(&frame)?)?),
            Morphology::Gradient => less(dilate(&frame)?, &erode(&frame)?),
            Morphology::BottomHat => less(erode(&dilate(&frame)?)?, &frame),
            Morphology::TopHat => {
                zip_samples(Arc::clone(&frame), &dilate(&erode(&frame)?)?, |a, b| a - b)
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operation: Morphology, size: usize, expected: &[f32]) {
        let frame = Frame::new(1, 6, 1, vec![0.0, 0.0, 1.0, 0.25, 0.25, 1.0]);
        let out = morphology(Image::single(frame), operation, size).expect("same shape");
        assert_eq!(out.first().data(), expected, "{operation:?} {size}");
    }

    #[test]
    fn operations() {
        check(Morphology::Erode, 3, &[0.0, 0.0, 0.0, 0.25, 0.25, 0.25]);
        check(Morphology::Dilate, 3, &[0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        check(Morphology::Open, 3, &[0.0, 0.0, 0.25, 0.25, 0.25, 0.25]);
        check(Morphology::Close, 3, &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        check(Morphology::Gradient, 3, &[0.0, 1.0, 1.0, 0.75, 0.75, 0.75]);
        check(Morphology::BottomHat, 3, &[0.0, 0.0, 0.0, 0.75, 0.75, 0.0]);
        check(Morphology::TopHat, 3, &[0.0, 0.0, 0.75, 0.0, 0.0, 0.75]);
    }

    #[test]
    fn an_even_square_reaches_farther_back() {
        check(Morphology::Dilate, 4, &[0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        check(Morphology::Dilate, 2, &[0.0, 0.0, 1.0, 1.0, 0.25, 1.0]);
    }

    #[test]
    fn a_square_larger_than_the_picture_takes_all_of_it() {
        check(Morphology::Dilate, 999, &[1.0; 6]);
        check(Morphology::Erode, 999, &[0.0; 6]);
    }
}
