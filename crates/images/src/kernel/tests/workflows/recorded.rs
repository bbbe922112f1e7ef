//! Each recorded workflow, and how near its pictures are.

use super::*;

/// How far a saved picture may be from the recorded one.
#[derive(Clone, Copy)]
enum Tolerance {
    /// Equal samples.
    Equal,
    /// One level off in at most 0.5 % of the samples.
    OneLevel,
    /// Mean and deviation within 1.5 levels.
    Statistics,
}

/// Runs a case and compares every picture that it saves.
fn check(case: &str, tolerance: Tolerance) {
    let Some(root) = goldens::directory() else {
        return;
    };
    let directory = root.join(case);
    let mut workflow = Workflow::open(&directory);
    let saves: Vec<(String, Value)> = workflow
        .nodes
        .as_object()
        .expect("nodes")
        .iter()
        .filter(|(_, node)| node["class_type"] == "SaveImage")
        .map(|(id, node)| (id.clone(), node["inputs"]["images"].clone()))
        .collect();
    assert!(!saves.is_empty(), "{case} saves nothing");
    for (save, link) in saves {
        let Slot::Image(image) = workflow.slot(
            link[0].as_str().expect("node id"),
            link[1].as_u64().expect("slot"),
        ) else {
            panic!("{case}: {save} saves a mask");
        };
        for (i, frame) in image.frames().iter().enumerate() {
            let name = format!("{case}/out_{save}_{i}.png");
            compare(&name, frame, &goldens::saved(&root.join(&name)), tolerance);
        }
    }
}

fn compare(name: &str, frame: &Frame, expected: &goldens::Saved, tolerance: Tolerance) {
    assert_eq!(
        frame.shape(),
        (expected.height, expected.width, expected.channels),
        "{name}"
    );
    let got = frame.to_bytes();
    let worst = got
        .iter()
        .zip(&expected.samples)
        .map(|(a, b)| a.abs_diff(*b))
        .max()
        .unwrap_or(0);
    let differing = got
        .iter()
        .zip(&expected.samples)
        .filter(|(a, b)| a != b)
        .count();
    let share = differing as f64 / got.len() as f64;
    match tolerance {
        Tolerance::Equal => assert_eq!(
            differing, 0,
            "{name}: up to {worst} levels off in {share:.5} of the samples"
        ),
        Tolerance::Statistics => {
            let (a, b) = (statistics(&got), statistics(&expected.samples));
            assert!(
                (a.0 - b.0).abs() < 1.5 && (a.1 - b.1).abs() < 1.5,
                "{name}: {a:?} instead of {b:?}"
            );
        }
        Tolerance::OneLevel => assert!(
            worst <= 1 && share <= 0.005,
            "{name}: up to {worst} levels off in {share:.5} of the samples"
        ),
    }
}

fn statistics(levels: &[u8]) -> (f64, f64) {
    let mean = |f: &dyn Fn(f64) -> f64| {
        levels.iter().map(|&v| f(f64::from(v))).sum::<f64>() / levels.len() as f64
    };
    let average = mean(&|v| v);
    (average, mean(&|v| (v - average).powi(2)).sqrt())
}

#[test]
fn scale_nearest_exact() {
    check("scale_nearest_exact", Tolerance::Equal);
}

#[test]
fn scale_bilinear() {
    check("scale_bilinear", Tolerance::Equal);
}

#[test]
fn scale_bicubic() {
    check("scale_bicubic", Tolerance::OneLevel);
}

#[test]
fn scale_area() {
    check("scale_area", Tolerance::Equal);
}

#[test]
fn scale_lanczos() {
    check("scale_lanczos", Tolerance::Equal);
}

#[test]
fn scale_by() {
    check("scale_by", Tolerance::OneLevel);
}

#[test]
fn scale_total_pixels() {
    check("scale_total_pixels", Tolerance::OneLevel);
}

#[test]
fn invert() {
    check("invert", Tolerance::Equal);
}

#[test]
fn mask_convert() {
    check("mask_convert", Tolerance::Equal);
}

#[test]
fn empty_image() {
    check("empty_image", Tolerance::Equal);
}

#[test]
fn empty_image_all_levels() {
    check("empty_image_all_levels", Tolerance::Equal);
}

#[test]
fn blend_normal() {
    check("blend_normal", Tolerance::OneLevel);
}

#[test]
fn blend_multiply() {
    check("blend_multiply", Tolerance::OneLevel);
}

#[test]
fn blend_screen() {
    check("blend_screen", Tolerance::OneLevel);
}

#[test]
fn blend_overlay() {
    check("blend_overlay", Tolerance::OneLevel);
}

#[test]
fn blend_difference() {
    check("blend_difference", Tolerance::OneLevel);
}

#[test]
fn blur() {
    check("blur", Tolerance::OneLevel);
}

#[test]
fn sharpen() {
    check("sharpen", Tolerance::Equal);
}

#[test]
fn batch() {
    check("batch", Tolerance::Equal);
}

#[test]
fn crop() {
    check("crop", Tolerance::Equal);
}

#[test]
fn mask_basic() {
    check("mask_basic", Tolerance::Equal);
}

#[test]
fn mask_composite() {
    check("mask_composite", Tolerance::Equal);
}

#[test]
fn pad_outpaint() {
    check("pad_outpaint", Tolerance::Equal);
}

#[test]
fn resize_and_pad() {
    check("resize_and_pad", Tolerance::OneLevel);
}

#[test]
fn rotate_flip() {
    check("rotate_flip", Tolerance::Equal);
}

#[test]
fn quantize() {
    check("quantize", Tolerance::Equal);
}

#[test]
fn morphology_yuv_canny() {
    check("morphology_yuv_canny", Tolerance::Equal);
}

/// The recorded generator is another one: mean and deviation agree, samples do not.
#[test]
fn add_noise() {
    check("add_noise", Tolerance::Statistics);
}
