//! Single nodes against recorded float vectors, which must agree within 1e-6.

use serde_json::Value;

use super::goldens;
use crate::kernel::scale::{self, Crop, Method};
use crate::value::{Frame, Image};

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
