//! Single nodes against recorded float vectors, which must agree within 1e-6.

use serde_json::Value;

use super::goldens;
use crate::kernel::blend::{self, BlendMode};
use crate::kernel::composite::{self, Placement, PorterDuffMode};
use crate::kernel::mask::{self, MaskOperation};
use crate::kernel::pad::{self, Margins};
use crate::kernel::quantize::{self, BayerOrder, Dither};
use crate::kernel::scale::{self, Crop, Method};
use crate::kernel::{blur, channel, point, transform};
use crate::pixels::{Frame, Image, Mask};

/// The recorded vectors by name.
struct Vectors(Value);

impl Vectors {
    fn open() -> Option<Self> {
        Some(Self(goldens::json(
            &goldens::directory()?.join("node-vectors.json"),
        )))
    }

    fn numbers(&self, name: &str, field: &str) -> Vec<f64> {
        let numbers = self.0[name][field]
            .as_array()
            .unwrap_or_else(|| panic!("no vector {name}"));
        numbers
            .iter()
            .map(|n| n.as_f64().expect("a number"))
            .collect()
    }

    /// The frame of a batch of one; a mask has no channel dimension.
    fn frame(&self, name: &str) -> Frame {
        let shape: Vec<usize> = self
            .numbers(name, "shape")
            .iter()
            .map(|&n| n as usize)
            .collect();
        let data = self
            .numbers(name, "data")
            .iter()
            .map(|&n| n as f32)
            .collect();
        Frame::new(shape[1], shape[2], shape.get(3).copied().unwrap_or(1), data)
    }

    fn image(&self, name: &str) -> Image {
        Image::single(self.frame(name))
    }

    fn mask(&self, name: &str) -> Mask {
        Mask::new(vec![self.frame(name).into()]).expect("one channel")
    }

    #[track_caller]
    fn check(&self, name: &str, got: &Frame) {
        let expected = self.frame(name);
        assert_eq!(got.shape(), expected.shape(), "{name}");
        for (i, (a, b)) in got.data().iter().zip(expected.data()).enumerate() {
            assert!(
                (a - b).abs() <= 1e-6,
                "{name}: sample {i} is {a}, recorded {b}"
            );
        }
    }
}

#[test]
fn image_scale() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let methods = [
        ("nearest-exact", Method::NearestExact),
        ("bilinear", Method::Bilinear),
        ("area", Method::Area),
        ("bicubic", Method::Bicubic),
        ("lanczos", Method::Lanczos),
    ];
    let crops = [("disabled", Crop::Disabled), ("center", Crop::Center)];
    let mut checked = 0;
    for name in vectors.0.as_object().expect("an object").keys() {
        let Some(parameters) = name.strip_prefix("ImageScale/") else {
            continue;
        };
        let parts: Vec<&str> = parameters.split('/').collect();
        let (_, method) = methods
            .iter()
            .find(|(name, _)| *name == parts[0])
            .expect("a method");
        let (width, height) = parts[1].split_once('x').expect("a size");
        let (_, crop) = crops
            .iter()
            .find(|(name, _)| *name == parts[2])
            .expect("a crop");
        let number = |text: &str| text.parse().expect("a number");
        let (width, height) =
            scale::scaled_to(4, 3, number(width), number(height)).expect("not both 0");
        let out = scale::common_upscale(
            vectors.image("input_ramp_1x3x4x3"),
            width,
            height,
            *method,
            *crop,
        );
        vectors.check(name, out.expect("a legal size").first());
        checked += 1;
    }
    assert_eq!(checked, 25);
}

#[test]
fn image_scale_by_and_total_pixels() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    for (name, factor) in [
        ("ImageScaleBy/bilinear/1.5", 1.5),
        ("ImageScaleBy/bilinear/0.625", 0.625),
    ] {
        let (width, height) = scale::scaled_by(4, 3, factor).expect("not empty");
        let out = scale::common_upscale(
            vectors.image("input_ramp_1x3x4x3"),
            width,
            height,
            Method::Bilinear,
            Crop::Disabled,
        );
        vectors.check(name, out.expect("a legal size").first());
    }
    let shape = vectors.numbers("ScaleToTotalPixels/nearest-exact/0.01 shape", "data");
    let (width, height) = scale::total_pixels(4, 3, 0.01).expect("not empty");
    assert_eq!(shape, [1.0, height as f64, width as f64, 3.0]);
}

/// `1 - input`: the second picture of the recorded pairs.
fn inverted(image: Image) -> Image {
    point::invert(image).expect("same shape")
}

#[test]
fn image_pad_for_outpaint() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let margins = Margins {
        left: 1,
        top: 0,
        right: 2,
        bottom: 1,
    };
    let (out, _) =
        pad::pad_for_outpaint(vectors.image("input_ramp_1x3x4x3"), margins, 0).expect("it fits");
    vectors.check("ImagePadForOutpaint/img", out.first());
    let margins = Margins {
        left: 1,
        top: 0,
        right: 0,
        bottom: 2,
    };
    let (_, mask) =
        pad::pad_for_outpaint(vectors.image("input_big_1x6x6x3"), margins, 2).expect("it fits");
    vectors.check("ImagePadForOutpaint6/mask_l1_b2_f2", mask.first());
}

#[test]
fn image_blend() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let modes = [
        ("normal", BlendMode::Normal),
        ("multiply", BlendMode::Multiply),
        ("screen", BlendMode::Screen),
        ("overlay", BlendMode::Overlay),
        ("soft_light", BlendMode::SoftLight),
        ("difference", BlendMode::Difference),
    ];
    for (name, mode) in modes {
        let image = vectors.image("input_ramp_1x3x4x3");
        let out = blend::blend(image.clone(), inverted(image), 0.3, mode).expect("one shape");
        vectors.check(&format!("ImageBlend/{name}/0.3"), out.first());
    }
}

#[test]
fn image_blur_and_sharpen() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let image = || vectors.image("input_big_1x6x6x3");
    vectors.check(
        "ImageBlur/r1/s1",
        blur::blur(image(), 1, 1.0).expect("it fits").first(),
    );
    vectors.check(
        "ImageBlur/r2/s0.5",
        blur::blur(image(), 2, 0.5).expect("it fits").first(),
    );
    vectors.check(
        "ImageSharpen/r1/s1/a0.1",
        blur::sharpen(image(), 1, 1.0, 0.1)
            .expect("it fits")
            .first(),
    );
}

#[test]
fn grow_mask() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let seed = || {
        let mut frame = Frame::filled(7, 7, 1, 0.0);
        frame.data_mut()[3 * 7 + 3] = 1.0;
        frame.data_mut()[0] = 0.5;
        frame
    };
    for (name, expand, tapered) in [
        ("1/True", 1, true),
        ("1/False", 1, false),
        ("2/True", 2, true),
        ("2/False", 2, false),
        ("-1/True", -1, true),
        ("-1/False", -1, false),
    ] {
        let mask = Mask::new(vec![seed().into()]).expect("one channel");
        let mask = match expand < 0 {
            true => point::invert_mask(mask).expect("same shape"),
            false => mask,
        };
        vectors.check(
            &format!("GrowMask/{name}"),
            mask::grow(mask, expand, tapered)
                .expect("same shape")
                .first(),
        );
    }
}

#[test]
fn mask_composite_and_threshold() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let operations = [
        ("multiply", MaskOperation::Multiply),
        ("add", MaskOperation::Add),
        ("subtract", MaskOperation::Subtract),
        ("and", MaskOperation::And),
        ("or", MaskOperation::Or),
        ("xor", MaskOperation::Xor),
    ];
    for (name, operation) in operations {
        let mask = vectors.mask("input_mask_1x4x5");
        let source = point::invert_mask(mask::crop(mask.clone(), 0, 0, 3, 2).expect("inside"))
            .expect("same shape");
        let out = mask::composite(mask, source, 1, 1, operation).expect("one to one");
        vectors.check(&format!("MaskComposite/{name}/1,1"), out.first());
    }
    let out = point::threshold(vectors.mask("input_mask_1x4x5"), 0.5).expect("same shape");
    vectors.check("ThresholdMask/0.5", out.first());
}

#[test]
fn image_composite_masked() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let image = vectors.image("input_ramp_1x3x4x3");
    let placement = Placement {
        x: 2,
        y: 1,
        resize_source: false,
    };
    let out =
        composite::image_composite_masked(image.clone(), inverted(image.clone()), placement, None)
            .expect("it fits");
    vectors.check("ImageCompositeMasked/2,1/nomask", out.first());
    let mask =
        Mask::new(vec![Frame::new(2, 2, 1, vec![0.0, 1.0, 1.0, 0.5]).into()]).expect("one channel");
    let placement = Placement {
        x: 0,
        y: 0,
        resize_source: true,
    };
    let source = transform::crop(inverted(image.clone()), 2, 2, 0, 0).expect("inside");
    let out =
        composite::image_composite_masked(image, source, placement, Some(mask)).expect("it fits");
    vectors.check("ImageCompositeMasked/0,0/mask2x2/resize", out.first());
}

#[test]
fn join_alpha() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let mask = vectors.mask("input_mask_1x4x5");
    let out =
        channel::join_alpha(vectors.image("input_ramp_1x3x4x3"), mask).expect("there are colours");
    vectors.check("JoinImageWithAlpha", out.first());
}

#[test]
fn porter_duff() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let image = vectors.image("input_ramp_1x3x4x3");
    let mask = mask::crop(vectors.mask("input_mask_1x4x5"), 0, 0, 4, 3).expect("inside");
    let other = point::invert_mask(mask.clone()).expect("same shape");
    for (name, mode) in [
        ("SRC_OVER", PorterDuffMode::SrcOver),
        ("XOR", PorterDuffMode::Xor),
        ("OVERLAY", PorterDuffMode::Overlay),
        ("ADD", PorterDuffMode::Add),
    ] {
        let inverted = inverted(image.clone());
        let (out, alpha) =
            composite::porter_duff(&inverted, &mask, &image, &other, mode).expect("one shape");
        vectors.check(&format!("PorterDuff/{name}/image"), out.first());
        vectors.check(&format!("PorterDuff/{name}/alpha"), alpha.first());
    }
}

#[test]
fn image_quantize() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    for (name, dither) in [
        ("none", Dither::None),
        ("floyd-steinberg", Dither::FloydSteinberg),
        ("bayer-2", Dither::Bayer(BayerOrder::Two)),
        ("bayer-4", Dither::Bayer(BayerOrder::Four)),
    ] {
        let out = quantize::quantize(vectors.image("input_big_1x6x6x3"), 4, dither)
            .expect("there are colours");
        vectors.check(&format!("ImageQuantize/4/{name}"), out.first());
    }
}

#[test]
fn save_quantise() {
    let Some(vectors) = Vectors::open() else {
        return;
    };
    let samples: Vec<f32> = vectors
        .numbers("save_quantise", "in")
        .iter()
        .map(|&v| v as f32)
        .collect();
    let levels: Vec<f64> = Frame::new(1, samples.len(), 1, samples)
        .to_bytes()
        .into_iter()
        .map(f64::from)
        .collect();
    assert_eq!(levels, vectors.numbers("save_quantise", "out"));
}
