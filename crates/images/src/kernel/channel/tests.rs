//! Pictures to masks and back, and channels that are missing or too many.

use super::*;

fn rgba() -> Image {
    Image::single(Frame::new(
        1,
        2,
        4,
        vec![0.1, 0.2, 0.3, 0.25, 0.5, 0.6, 0.7, 1.0],
    ))
}

#[test]
fn a_channel_becomes_a_mask_and_a_mask_three_channels() {
    let mask = image_to_mask(rgba(), Channel::Green).expect("there is green");
    assert_eq!(mask.first().data(), [0.2, 0.6]);
    assert_eq!(
        mask_to_image(mask).expect("small").first().data(),
        [0.2, 0.2, 0.2, 0.6, 0.6, 0.6]
    );
}

#[test]
fn alpha_of_a_picture_without_alpha_is_an_error() {
    let image = Image::single(Frame::filled(1, 1, 3, 0.0));
    assert_eq!(
        image_to_mask(image, Channel::Alpha),
        Err(KernelError::MissingChannels {
            needed: 4,
            found: 3
        })
    );
}

#[test]
fn splitting_and_joining_give_the_picture_back() {
    let (colours, mask) = split_alpha(rgba()).expect("there are colours");
    assert_eq!(colours.first().shape(), (1, 2, 3));
    assert_eq!(mask.first().data(), [0.75, 0.0]);
    assert_eq!(
        join_alpha(colours, mask).expect("there are colours"),
        rgba()
    );
}

#[test]
fn a_picture_without_alpha_is_opaque() {
    let (_, mask) =
        split_alpha(Image::single(Frame::filled(1, 2, 3, 0.5))).expect("there are colours");
    assert_eq!(mask.first().data(), [0.0, 0.0]);
}

#[test]
fn a_colour_matches_by_its_rounded_level() {
    let level = |v: f32| v / 255.0;
    let frame = Frame::new(
        1,
        3,
        3,
        vec![
            level(0.4),
            -1.0,
            level(255.4),
            level(0.5),
            0.0,
            1.0,
            level(0.6),
            0.0,
            1.0,
        ],
    );
    let mask = color_to_mask(Image::single(frame), 0x00_00_FF).expect("there are colours");
    assert_eq!(mask.first().data(), [1.0, 1.0, 0.0]);
}

#[test]
fn missing_channels_are_opaque_and_extra_ones_are_dropped() {
    let frame = Arc::new(Frame::new(1, 1, 3, vec![0.1, 0.2, 0.3]));
    let four = with_channels(Arc::clone(&frame), 4).expect("small");
    assert_eq!(four.data(), [0.1, 0.2, 0.3, 1.0]);
    assert_eq!(with_channels(four, 3).expect("small"), frame);
}
