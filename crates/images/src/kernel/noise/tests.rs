//! Its distribution, and that a seed means the same everywhere.

use std::sync::Arc;

use super::*;
use crate::pixels::Frame;

fn grey(frames: usize) -> Image {
    let frame = Arc::new(Frame::filled(200, 301, 3, 0.5));
    Image::new(vec![frame; frames]).expect("a batch")
}

#[test]
fn the_noise_is_normal() {
    let out = add_noise(grey(1), 42, 0.05).expect("same shape");
    let noise: Vec<f64> = out
        .first()
        .data()
        .iter()
        .map(|v| (f64::from(*v) - 0.5) / 0.05)
        .collect();
    let moment = |power: i32| noise.iter().map(|v| v.powi(power)).sum::<f64>() / noise.len() as f64;
    let found = [moment(1), moment(2), moment(3), moment(4)];
    for (found, (expected, tolerance)) in
        found
            .iter()
            .zip([(0.0, 0.01), (1.0, 0.02), (0.0, 0.03), (3.0, 0.1)])
    {
        assert!(
            (found - expected).abs() < tolerance,
            "{found} instead of {expected}"
        );
    }
}

#[test]
fn a_seed_gives_the_same_noise_on_every_machine() {
    let noise = normals(0, 0);
    let bits = [noise[0][0], noise[1][0], noise[0][63]].map(f32::to_bits);
    assert_eq!(bits, [1_049_986_347, 3_210_769_772, 1_067_907_005]);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a small pool starts");
        pool.install(|| add_noise(grey(2), 7, 0.3))
    };
    assert_eq!(run(1), run(5));
}

#[test]
fn seeds_and_frames_differ_even_if_the_frame_is_repeated() {
    let out = add_noise(grey(2), 0, 0.2).expect("same shape");
    assert_ne!(out.frames()[0], out.frames()[1]);
    assert_ne!(
        out.first(),
        add_noise(grey(1), 1 << 53, 0.2)
            .expect("same shape")
            .first()
    );
}

#[test]
fn no_strength_only_clips() {
    let image = Image::single(Frame::new(1, 3, 1, vec![-1.0, 0.5, 2.0]));
    assert_eq!(
        add_noise(image, u64::MAX, 0.0)
            .expect("same shape")
            .first()
            .data(),
        [0.0, 0.5, 1.0]
    );
}

#[test]
fn the_functions_are_those_of_the_platform_but_for_the_last_bits() {
    for i in 1..=1000 {
        let x = i as f32 / 1000.0;
        assert!(
            (logarithm(x) - x.ln()).abs() <= 1e-6 * (1.0 + x.ln().abs()),
            "ln {x}"
        );
        let (sine, cosine) = sine_cosine(x - 0.5);
        let angle = f64::from(x - 0.5) * std::f64::consts::TAU;
        assert!((f64::from(sine) - angle.sin()).abs() < 1e-6, "sin {angle}");
        assert!(
            (f64::from(cosine) - angle.cos()).abs() < 1e-6,
            "cos {angle}"
        );
    }
    assert_eq!(logarithm(1.0), 0.0);
    assert!((logarithm(f32::powi(2.0, -24)) + 24.0 * std::f32::consts::LN_2).abs() < 1e-5);
}
