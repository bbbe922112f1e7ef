//! Both ways to blur against each other, borders, and flat areas.

use super::*;

fn noise(height: usize, width: usize, channels: usize) -> Frame {
    let samples = (0..(height * width * channels) as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0);
    Frame::new(height, width, channels, samples.collect())
}

#[test]
fn the_border_is_mirrored_without_repeating_it() {
    let frame = Frame::new(2, 3, 1, vec![1.0, 2.0, 4.0, 1.0, 2.0, 4.0]);
    let out = blur(Image::single(frame), 1, 1e6).expect("the radius fits");
    let expected = [5.0 / 3.0, 7.0 / 3.0, 8.0 / 3.0];
    for (a, b) in out.first().data().iter().zip(expected.iter().cycle()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn both_ways_give_the_same_but_for_rounding() {
    for (height, width, channels) in [(4, 4, 1), (9, 30, 3), (40, 13, 4), (20, 21, 2)] {
        let frame = noise(height, width, channels);
        for radius in [1, 2, 3] {
            for sigma in [0.1, 0.8, 10.0] {
                let square = square::convolve(&frame, &weights::gaussian(radius, sigma), |sum| sum)
                    .expect("not empty");
                let line = weights::gaussian_line(radius, sigma);
                let lines =
                    separable::convolve(&frame, &line, |_, blurred| blurred).expect("not empty");
                let worst = square
                    .data()
                    .iter()
                    .zip(lines.data())
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f32::max);
                assert!(
                    worst < 1e-6,
                    "{height}x{width}x{channels} {radius} {sigma}: {worst}"
                );
            }
        }
    }
}

#[test]
fn a_flat_area_stays_as_it_is_however_large_the_radius() {
    let frame = Frame::filled(80, 80, 3, 0.7);
    let line = weights::gaussian_line(31, 1.0);
    assert_eq!(
        separable::convolve(&frame, &line, |_, blurred| blurred),
        Ok(frame)
    );
}

#[test]
fn channels_do_not_mix() {
    let samples = (0..5 * 4).flat_map(|i| [i as f32, 0.0, 1.0]).collect();
    let out = blur(Image::single(Frame::new(5, 4, 3, samples)), 3, 0.7).expect("the radius fits");
    assert!(
        out.first()
            .data()
            .chunks_exact(3)
            .all(|p| p[1] == 0.0 && (p[2] - 1.0).abs() < 1e-6)
    );
}

#[test]
fn sharpening_clamps_and_leaves_a_flat_picture() {
    let flat =
        sharpen(Image::single(Frame::filled(9, 9, 3, 0.5)), 4, 1.0, 5.0).expect("the radius fits");
    assert!(flat.first().data().iter().all(|v| (v - 0.5).abs() < 1e-5));
    let mut edge = Frame::filled(5, 5, 1, 0.25);
    edge.data_mut()[12] = 0.75;
    let out = sharpen(Image::single(edge), 1, 1.0, 5.0).expect("the radius fits");
    assert_eq!((out.first().data()[12], out.first().data()[11]), (1.0, 0.0));
}

#[test]
fn a_radius_must_stay_inside_the_picture() {
    let image = || Image::single(Frame::filled(4, 9, 3, 0.5));
    assert!(blur(image(), 3, 1.0).is_ok());
    assert_eq!(
        blur(image(), 4, 1.0),
        Err(KernelError::RadiusTooLarge {
            radius: 4,
            width: 9,
            height: 4
        })
    );
    assert_eq!(blur(image(), 0, 1.0), Ok(image()));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let image = Image::single(noise(300, 200, 3));
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a small pool starts");
        pool.install(|| {
            (
                blur(image.clone(), 2, 1.0),
                sharpen(image.clone(), 31, 1.0, 1.0),
            )
        })
    };
    assert_eq!(run(1), run(5));
}
