//! Every kernel on shapes and parameters at the edges of what the node definitions allow: an answer or an error, never a panic.

use crate::kernel::blend::{self, BlendMode};
use crate::kernel::channel::{self, Channel};
use crate::kernel::composite::{self, Placement, PorterDuffMode};
use crate::kernel::mask::{self, MaskOperation};
use crate::kernel::morphology::{self, Morphology};
use crate::kernel::pad::{self, Margins};
use crate::kernel::quantize::{self, BayerOrder, Dither};
use crate::kernel::scale::{self, Crop, Method};
use crate::kernel::stitch::{self, Direction, SpacingColor, Stitch};
use crate::kernel::transform::{self, Flip, Rotation};
use crate::kernel::yuv::{self, Planes};
use crate::kernel::{KernelError, blur, canny, noise, point};
use crate::pixels::{Frame, Image, Mask};

/// Heights and widths: single pixels, lines, and more than a cache line.
const SIZES: [(usize, usize); 7] = [(1, 1), (1, 2), (2, 1), (1, 130), (130, 1), (3, 3), (17, 70)];

/// Values that pictures hold, and those that broken custom input may.
const SAMPLES: [f32; 8] = [
    0.0,
    1.0,
    0.5,
    -3.5,
    300.0,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
];

fn picture((height, width): (usize, usize), channels: usize) -> Image {
    let samples = SAMPLES.iter().cycle().take(height * width * channels);
    Image::single(Frame::new(
        height,
        width,
        channels,
        samples.copied().collect(),
    ))
}

fn masked(size: (usize, usize)) -> Mask {
    Mask::new(picture(size, 1).into_frames()).expect("one channel")
}

fn pictures() -> impl Iterator<Item = Image> {
    SIZES
        .iter()
        .flat_map(|&size| [1, 2, 3, 4, 5].map(|channels| picture(size, channels)))
}

/// An answer is a whole picture.
#[track_caller]
fn whole(image: Result<Image, KernelError>) {
    if let Ok(image) = image {
        let (height, width, channels) = image.first().shape();
        assert!(height > 0 && width > 0 && channels > 0);
    }
}

#[track_caller]
fn whole_mask(mask: Result<Mask, KernelError>) {
    if let Ok(mask) = mask {
        assert!(mask.first().height() > 0 && mask.first().width() > 0);
    }
}

#[test]
fn scaling() {
    let methods = [
        Method::NearestExact,
        Method::Bilinear,
        Method::Bicubic,
        Method::Area,
        Method::Lanczos,
    ];
    for image in pictures() {
        for method in methods {
            for (width, height) in [
                (0, 1),
                (1, 1),
                (1, 16384),
                (16384, 1),
                (129, 63),
                (16384, 16384 * 5),
            ] {
                let huge = width * height > 1 << 28;
                if huge && image.first().channels() < 4 {
                    continue;
                }
                whole(scale::common_upscale(
                    image.clone(),
                    width,
                    height,
                    method,
                    Crop::Disabled,
                ));
                whole(scale::common_upscale(
                    image.clone(),
                    width,
                    height,
                    method,
                    Crop::Center,
                ));
            }
            whole(pad::resize_and_pad(image.clone(), 1, 200, 1.0, method));
        }
        let (height, width, _) = image.first().shape();
        for factor in [0.01, 8.0] {
            let _ = scale::scaled_by(width, height, factor);
            let _ = scale::total_pixels(width, height, factor);
        }
    }
}

#[test]
fn filters() {
    for image in pictures() {
        for radius in [0, 1, 31] {
            whole(blur::blur(image.clone(), radius, 0.1));
            whole(blur::sharpen(image.clone(), radius, 10.0, 5.0));
        }
        let operations = [
            Morphology::Erode,
            Morphology::Open,
            Morphology::Gradient,
            Morphology::TopHat,
            Morphology::BottomHat,
        ];
        for operation in operations {
            for size in [0, 1, 3, 4, 999] {
                whole(morphology::morphology(image.clone(), operation, size));
            }
        }
        whole(canny::canny(image.clone(), 0.01, 0.99));
        whole(noise::add_noise(image.clone(), u64::MAX, 1.0));
        for dither in [
            Dither::None,
            Dither::FloydSteinberg,
            Dither::Bayer(BayerOrder::Sixteen),
        ] {
            for colors in [0, 1, 256, 1000] {
                whole(quantize::quantize(image.clone(), colors, dither));
            }
        }
        assert_eq!(image.first().to_bytes().len(), image.first().data().len());
    }
}

#[test]
fn moving() {
    for image in pictures() {
        for rotation in [
            Rotation::None,
            Rotation::Quarter,
            Rotation::Half,
            Rotation::ThreeQuarters,
        ] {
            whole(transform::rotate(image.clone(), rotation));
        }
        whole(transform::flip(image.clone(), Flip::Vertical));
        whole(transform::flip(image.clone(), Flip::Horizontal));
        for (width, height, x, y) in [(0, 0, 0, 0), (1, 1, 16384, 16384), (16384, 16384, 0, 0)] {
            whole(transform::crop(image.clone(), width, height, x, y));
        }
        for side in [0, 1, 3] {
            for feathering in [0, 1, 16384] {
                let margins = Margins {
                    left: side,
                    top: 0,
                    right: 2 * side,
                    bottom: side,
                };
                let padded = pad::pad_for_outpaint(image.clone(), margins, feathering);
                whole(padded.map(|(image, _)| image));
            }
        }
        let all = Margins {
            left: 16384,
            top: 16384,
            right: 16384,
            bottom: 16384,
        };
        assert!(pad::pad_for_outpaint(image, all, 40).is_err());
    }
}

#[test]
fn two_pictures() {
    for first in pictures() {
        for second in pictures() {
            let size = (second.first().height(), second.first().width());
            whole(blend::blend(
                first.clone(),
                second.clone(),
                1.0,
                BlendMode::SoftLight,
            ));
            for direction in [
                Direction::Right,
                Direction::Down,
                Direction::Left,
                Direction::Up,
            ] {
                for match_image_size in [false, true] {
                    let options = Stitch {
                        direction,
                        match_image_size,
                        spacing_width: 3,
                        spacing_color: SpacingColor::Green,
                    };
                    whole(stitch::stitch(first.clone(), second.clone(), options));
                }
            }
            for (x, y, resize_source) in [(0, 0, true), (1, 0, false), (16384, 16384, false)] {
                let placement = Placement {
                    x,
                    y,
                    resize_source,
                };
                whole(composite::image_composite_masked(
                    first.clone(),
                    second.clone(),
                    placement,
                    None,
                ));
                let mask = Some(masked(size));
                whole(composite::image_composite_masked(
                    first.clone(),
                    second.clone(),
                    placement,
                    mask,
                ));
            }
            let mode = PorterDuffMode::Overlay;
            let composed =
                composite::porter_duff(&first, &masked(size), &second, &masked((1, 1)), mode);
            whole(composed.map(|(image, _)| image));
            let planes = Planes {
                y: first.clone(),
                u: second.clone(),
                v: first.clone(),
            };
            whole(yuv::yuv_to_rgb(&planes));
        }
        whole(yuv::rgb_to_yuv(&first).map(|planes| planes.u));
    }
}

#[test]
fn masks() {
    for size in SIZES {
        for expand in [-16384, -1, 0, 1, 2, 16384] {
            whole_mask(mask::grow(masked(size), expand, true));
            whole_mask(mask::grow(masked(size), expand, false));
        }
        for side in [0, 1, 16384] {
            whole_mask(mask::feather(masked(size), side, side, side, side));
            whole_mask(mask::crop(masked(size), side, side, 1 + side, 16384));
            for other in SIZES {
                for operation in [
                    MaskOperation::Multiply,
                    MaskOperation::And,
                    MaskOperation::Xor,
                ] {
                    whole_mask(mask::composite(
                        masked(size),
                        masked(other),
                        side,
                        side,
                        operation,
                    ));
                }
            }
        }
        whole_mask(point::threshold(masked(size), 0.5));
        whole_mask(point::invert_mask(masked(size)));
        whole(channel::mask_to_image(masked(size)));
        for image in pictures() {
            whole(channel::join_alpha(image, masked(size)));
        }
    }
    for image in pictures() {
        for channel in [Channel::Red, Channel::Alpha] {
            whole_mask(channel::image_to_mask(image.clone(), channel));
        }
        whole_mask(channel::color_to_mask(image.clone(), 0xFF_FF_FF));
        whole(channel::split_alpha(image).map(|(image, _)| image));
    }
}
