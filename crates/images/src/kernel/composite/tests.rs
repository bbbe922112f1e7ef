//! Placing, mixing and the eighteen modes, by hand.

use super::*;
use crate::kernel::KernelError;

const AT_ORIGIN: Placement = Placement {
    x: 0,
    y: 0,
    resize_source: false,
};

fn picture(width: usize, samples: &[f32]) -> Image {
    Image::single(Frame::new(
        samples.len() / width,
        width,
        1,
        samples.to_vec(),
    ))
}

fn mask(width: usize, samples: &[f32]) -> Mask {
    Mask::new(vec![Arc::new(Frame::new(
        samples.len() / width,
        width,
        1,
        samples.to_vec(),
    ))])
    .expect("a mask")
}

#[test]
fn a_source_without_a_mask_covers_and_is_cut_at_the_border() {
    let placed = |x, y| {
        let placement = Placement {
            x,
            y,
            resize_source: false,
        };
        let out = image_composite_masked(
            picture(3, &[0.0; 6]),
            picture(2, &[0.1, 0.2, 0.3, 0.4]),
            placement,
            None,
        );
        out.expect("it fits").first().data().to_vec()
    };
    assert_eq!(placed(0, 0), [0.1, 0.2, 0.0, 0.3, 0.4, 0.0]);
    assert_eq!(placed(2, 1), [0.0, 0.0, 0.0, 0.0, 0.0, 0.1]);
    assert_eq!(placed(16384, 16384), [0.0; 6]);
}

#[test]
fn a_mask_mixes() {
    let out = image_composite_masked(
        picture(2, &[0.0, 1.0]),
        picture(2, &[1.0, 0.0]),
        AT_ORIGIN,
        Some(mask(2, &[0.25, 1.0])),
    );
    assert_eq!(out.expect("it fits").first().data(), [0.25, 0.0]);
}

#[test]
fn the_source_can_be_stretched_and_the_mask_follows_it() {
    let placement = Placement {
        resize_source: true,
        ..AT_ORIGIN
    };
    let out = image_composite_masked(
        picture(4, &[0.0; 4]),
        picture(1, &[1.0]),
        placement,
        Some(mask(2, &[0.0, 1.0])),
    );
    assert_eq!(out.expect("it fits").first().data(), [0.0, 0.25, 0.75, 1.0]);
}

#[test]
fn sources_and_masks_repeat_to_the_batch_of_the_destination() {
    let batch = |values: &[f32]| {
        values
            .iter()
            .map(|&v| Arc::new(Frame::filled(1, 1, 1, v)))
            .collect::<Vec<_>>()
    };
    let destination = Image::new(batch(&[0.0; 3])).expect("a batch");
    let source = Image::new(batch(&[0.25, 0.5])).expect("a batch");
    let masks = Mask::new(batch(&[1.0, 1.0, 0.0, 0.5])).expect("a batch");
    let out = image_composite_masked(destination, source, AT_ORIGIN, Some(masks)).expect("it fits");
    assert_eq!(
        out.frames().iter().map(|f| f.data()[0]).collect::<Vec<_>>(),
        [0.25, 0.5, 0.0]
    );
}

#[test]
fn a_destination_that_is_used_elsewhere_stays() {
    let destination = picture(1, &[0.0]);
    image_composite_masked(destination.clone(), picture(1, &[1.0]), AT_ORIGIN, None)
        .expect("it fits");
    assert_eq!(destination, picture(1, &[0.0]));
}

/// Source 0.5 with alpha 0.5 on destination 1.0 with alpha 0.75, all by hand.
#[test]
fn porter_duff_modes() {
    let cases = [
        (PorterDuffMode::Add, 1.0, 1.0),
        (PorterDuffMode::Clear, 0.0, 0.0),
        (PorterDuffMode::Darken, 0.6875 / 0.875, 0.875),
        (PorterDuffMode::Dst, 1.0, 0.75),
        (PorterDuffMode::DstAtop, 0.4375 / 0.5, 0.5),
        (PorterDuffMode::DstIn, 1.0, 0.375),
        (PorterDuffMode::DstOut, 1.0, 0.375),
        (PorterDuffMode::DstOver, 0.8125 / 0.875, 0.875),
        (PorterDuffMode::Lighten, 1.0, 0.875),
        (PorterDuffMode::Multiply, 0.1875 / 0.375, 0.375),
        (PorterDuffMode::Overlay, 0.625 / 0.875, 0.875),
        (PorterDuffMode::Screen, 0.8125 / 0.875, 0.875),
        (PorterDuffMode::Src, 0.5, 0.5),
        (PorterDuffMode::SrcAtop, 0.5625 / 0.75, 0.75),
        (PorterDuffMode::SrcIn, 0.5, 0.375),
        (PorterDuffMode::SrcOut, 0.5, 0.125),
        (PorterDuffMode::SrcOver, 0.625 / 0.875, 0.875),
        (PorterDuffMode::Xor, 0.4375 / 0.5, 0.5),
    ];
    for (mode, value, alpha) in cases {
        let (image, out) = porter_duff(
            &picture(1, &[0.5]),
            &mask(1, &[0.5]),
            &picture(1, &[1.0]),
            &mask(1, &[0.25]),
            mode,
        )
        .expect("one shape");
        let (got, masked) = (image.first().data()[0], out.first().data()[0]);
        assert!(
            (got - value).abs() < 1e-6 && (masked - (1.0 - alpha)).abs() < 1e-6,
            "{mode:?}: {got} {masked}"
        );
    }
}

#[test]
fn everything_gets_the_size_of_the_destination() {
    let (image, out) = porter_duff(
        &Image::single(Frame::filled(4, 4, 3, 1.0)),
        &mask(1, &[0.0]),
        &Image::single(Frame::filled(2, 5, 3, 0.0)),
        &mask(2, &[0.0; 4]),
        PorterDuffMode::SrcOver,
    )
    .expect("they are fitted");
    assert_eq!(
        (image.first().shape(), out.first().shape()),
        ((2, 5, 3), (2, 5, 1))
    );
    assert!(image.first().data().iter().all(|&v| (v - 1.0).abs() < 1e-4));
}

#[test]
fn the_shortest_batch_ends_it_and_channels_must_agree() {
    let images = |n: usize, channels| {
        Image::new(
            (0..n)
                .map(|_| Arc::new(Frame::filled(1, 1, channels, 0.5)))
                .collect(),
        )
        .expect("a batch")
    };
    let (out, _) = porter_duff(
        &images(3, 1),
        &mask(1, &[0.5]),
        &images(2, 1),
        &mask(1, &[0.5]),
        PorterDuffMode::Src,
    )
    .expect("one shape");
    assert_eq!(out.frames().len(), 1);
    let mixed = porter_duff(
        &images(1, 3),
        &mask(1, &[0.5]),
        &images(1, 4),
        &mask(1, &[0.5]),
        PorterDuffMode::Src,
    );
    assert_eq!(mixed, Err(KernelError::ChannelMismatch(3, 4)));
}
