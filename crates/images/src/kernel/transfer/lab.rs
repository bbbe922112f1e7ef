//! The Lab colour space with the white of daylight (D65), from and to sRGB.

use super::linear::{Matrix, Vector, times};

const WHITE: Vector = [0.95047, 1.0, 1.08883];

const TO_XYZ: Matrix = [
    [0.412453, 0.357580, 0.180423],
    [0.212671, 0.715160, 0.072169],
    [0.019334, 0.119193, 0.950227],
];

const FROM_XYZ: Matrix = [
    [3.2404813432005266, -1.5371515162713185, -0.4985363261688878],
    [-0.9692549499965682, 1.8759900014898907, 0.0415559265582928],
    [0.0556466391351772, -0.2040413383665112, 1.0573110696453443],
];

/// The Lab colour of three samples.
pub(super) fn of_rgb(pixel: &[f32]) -> Vector {
    let linear = [0, 1, 2].map(|at| match f64::from(pixel[at]) {
        sample if sample > 0.04045 => ((sample + 0.055) / 1.055).powf(2.4),
        sample => sample / 12.92,
    });
    let xyz = times(&TO_XYZ, &linear);
    let [x, y, z] = [0, 1, 2].map(|at| match xyz[at] / WHITE[at] {
        part if part > 0.008856 => part.cbrt(),
        part => 7.787 * part + 4.0 / 29.0,
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// The samples of a Lab colour, as far as the screen has it.
pub(super) fn to_rgb([lightness, a, b]: Vector) -> [f32; 3] {
    let y = (lightness + 16.0) / 116.0;
    let parts = [a / 500.0 + y, y, (y - b / 200.0).max(0.0)];
    let xyz = [0, 1, 2].map(|at| {
        let part = match parts[at] {
            part if part > 0.2068966 => part.powi(3),
            part => (part - 4.0 / 29.0) / 7.787,
        };
        part * WHITE[at]
    });
    times(&FROM_XYZ, &xyz).map(|linear| {
        let sample = match linear > 0.003_130_8 {
            true => 1.055 * linear.powf(1.0 / 2.4) - 0.055,
            false => 12.92 * linear,
        };
        sample.clamp(0.0, 1.0) as f32
    })
}
