//! Lab channels whose values are as often there as in another picture.

use super::Planes;

const DELTA: f32 = 6.0 / 29.0;
const KAPPA: f32 = (29.0 / 3.0) * (29.0 / 3.0) * (29.0 / 3.0);
const WHITE: [f32; 3] = [0.95047, 1.0, 1.08883];

/// How much of its own lightness a pixel keeps.
const OWN_LIGHTNESS: f32 = 0.8;

const TO_XYZ: [[f32; 3]; 3] = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.072_175],
    [0.0193339, 0.119_192, 0.9503041],
];

const FROM_XYZ: [[f32; 3]; 3] = [
    [3.2404542, -1.5371385, -0.4985314],
    [-0.969_266, 1.8760108, 0.041_556],
    [0.0556434, -0.2040259, 1.0572252],
];

/// The content in the colours of the style, which has as many pixels.
pub(super) fn matched(content: Planes, style: Planes) -> Planes {
    let (mut made, style) = (of_rgb(content), of_rgb(style));
    for (channel, (own, style)) in made.iter_mut().zip(style).enumerate() {
        let matched = ranked(own, style);
        match channel {
            0 => {
                for (own, matched) in own.iter_mut().zip(matched) {
                    *own = *own * OWN_LIGHTNESS + matched * (1.0 - OWN_LIGHTNESS);
                }
            }
            _ => *own = matched,
        }
    }
    to_rgb(made)
}

/// For each value the one of the same rank among the others; equal values rank in their order.
fn ranked(own: &[f32], mut others: Vec<f32>) -> Vec<f32> {
    let mut order: Vec<u32> = (0..own.len() as u32).collect();
    order.sort_by(|a, b| own[*a as usize].total_cmp(&own[*b as usize]));
    others.sort_by(f32::total_cmp);
    let mut matched = vec![0.0; own.len()];
    for (at, other) in order.into_iter().zip(others) {
        matched[at as usize] = other;
    }
    matched
}

fn times(matrix: &[[f32; 3]; 3], vector: [f32; 3]) -> [f32; 3] {
    matrix.map(|row| row[0] * vector[0] + row[1] * vector[1] + row[2] * vector[2])
}

/// Every pixel changed as a whole.
fn changed(mut planes: Planes, change: impl Fn([f32; 3]) -> [f32; 3]) -> Planes {
    for at in 0..planes[0].len() {
        let pixel = planes.each_ref().map(|plane| plane[at]);
        for (plane, sample) in planes.iter_mut().zip(change(pixel)) {
            plane[at] = sample;
        }
    }
    planes
}

fn of_rgb(planes: Planes) -> Planes {
    changed(planes, |pixel| {
        let linear = pixel.map(|sample| match ((sample + 1.0) * 0.5).clamp(0.0, 1.0) {
            sample if sample > 0.04045 => ((sample + 0.055) / 1.055).powf(2.4),
            sample => sample / 12.92,
        });
        let xyz = times(&TO_XYZ, linear);
        let [x, y, z] = std::array::from_fn(|at| match xyz[at] / WHITE[at] {
            part if part > DELTA * DELTA * DELTA => part.powf(1.0 / 3.0),
            part => (part * KAPPA + 16.0) / 116.0,
        });
        [y * 116.0 - 16.0, (x - y) * 500.0, (y - z) * 200.0]
    })
}

fn to_rgb(planes: Planes) -> Planes {
    changed(planes, |[lightness, a, b]| {
        let y = (lightness + 16.0) / 116.0;
        let parts = [a / 500.0 + y, y, y - b / 200.0];
        let xyz = std::array::from_fn(|at| {
            let part = match parts[at] {
                part if part > DELTA => part * part * part,
                part => (part * 116.0 - 16.0) / KAPPA,
            };
            part * WHITE[at]
        });
        times(&FROM_XYZ, xyz).map(|linear| {
            let sample = match linear > 0.003_130_8 {
                true => linear.powf(1.0 / 2.4) * 1.055 - 0.055,
                false => linear * 12.92,
            };
            sample.clamp(0.0, 1.0) * 2.0 - 1.0
        })
    })
}
