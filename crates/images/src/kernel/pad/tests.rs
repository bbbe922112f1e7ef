//! Where the odd pixel goes, and what is masked.

use super::*;

#[test]
fn the_fitted_picture_is_centred_with_the_odd_pixel_after_it() {
    let image = Image::single(Frame::filled(2, 4, 1, 0.5));
    let out = resize_and_pad(image, 4, 5, 1.0, Method::Area).expect("it fits");
    let expected = [[1.0; 4], [0.5; 4], [0.5; 4], [1.0; 4], [1.0; 4]].concat();
    assert_eq!(*out.first(), Frame::new(5, 4, 1, expected));
}

#[test]
fn a_picture_too_thin_to_fit_is_an_error() {
    let image = Image::single(Frame::filled(1, 100, 3, 0.5));
    let out = resize_and_pad(image, 50, 50, 0.0, Method::Area);
    assert_eq!(
        out,
        Err(KernelError::EmptyResult {
            width: 50,
            height: 0
        })
    );
}

#[test]
fn outpainting_adds_grey_and_masks_it() {
    let image = Image::single(Frame::filled(1, 1, 3, 1.0));
    let margins = Margins {
        left: 1,
        bottom: 1,
        ..Margins::default()
    };
    let (image, mask) = pad_for_outpaint(image, margins, 40).expect("it fits");
    let grey = [0.5; 3];
    assert_eq!(
        *image.first(),
        Frame::new(2, 2, 3, [grey, [1.0; 3], grey, grey].concat())
    );
    assert_eq!(*mask.first(), Frame::new(2, 2, 1, vec![1.0, 0.0, 1.0, 1.0]));
}

#[test]
fn feathering_fades_away_from_the_added_sides_only() {
    let image = Image::single(Frame::filled(5, 5, 3, 1.0));
    let (_, mask) = pad_for_outpaint(
        image,
        Margins {
            left: 1,
            ..Margins::default()
        },
        2,
    )
    .expect("it fits");
    assert_eq!(mask.first().row(0), [1.0, 1.0, 0.25, 0.0, 0.0, 0.0]);
    assert_eq!(mask.first().row(4), mask.first().row(0));
}

#[test]
fn nothing_added_is_nothing_done() {
    let image = Image::single(Frame::filled(9, 9, 3, 1.0));
    let (out, mask) = pad_for_outpaint(image.clone(), Margins::default(), 2).expect("it fits");
    assert_eq!(out, image);
    assert_eq!(*mask.first(), Frame::filled(9, 9, 1, 0.0));
}

#[test]
fn margins_beyond_every_number_are_too_large() {
    let far = usize::MAX / 2 + 1;
    for (left, right, bottom) in [(far, far, 0), (usize::MAX, 0, 0), (0, 0, usize::MAX)] {
        let image = Image::single(Frame::filled(4, 4, 3, 1.0));
        let margins = Margins {
            left,
            top: 0,
            right,
            bottom,
        };
        let padded = pad_for_outpaint(image, margins, usize::MAX);
        assert!(
            matches!(padded, Err(KernelError::TooLarge { .. })),
            "{padded:?}"
        );
    }
}

#[test]
fn an_edge_of_any_width_is_none_in_a_small_picture() {
    let image = Image::single(Frame::filled(4, 4, 3, 1.0));
    let margins = Margins {
        left: 1,
        ..Margins::default()
    };
    let (_, mask) = pad_for_outpaint(image, margins, usize::MAX).expect("it fits");
    assert_eq!(mask.first().row(0), [1.0, 0.0, 0.0, 0.0, 0.0]);
}
