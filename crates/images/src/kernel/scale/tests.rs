//! Every method on rows short enough to check by hand, and the sizes that nodes ask for.

use super::*;

const METHODS: [Method; 5] = [
    Method::NearestExact,
    Method::Bilinear,
    Method::Bicubic,
    Method::Area,
    Method::Lanczos,
];

fn grey(width: usize, samples: &[f32]) -> Arc<Frame> {
    Arc::new(Frame::new(
        samples.len() / width,
        width,
        1,
        samples.to_vec(),
    ))
}

fn resized(samples: &[f32], width: usize, method: Method) -> Vec<f32> {
    let frame = resize(
        grey(samples.len(), samples),
        width,
        1,
        method,
        Crop::Disabled,
    )
    .expect("a legal size");
    frame.data().to_vec()
}

#[test]
fn nearest_exact_takes_the_pixel_under_the_centre() {
    assert_eq!(
        resized(&[1.0, 2.0], 4, Method::NearestExact),
        [1.0, 1.0, 2.0, 2.0]
    );
    assert_eq!(
        resized(&[1.0, 2.0, 3.0, 4.0], 2, Method::NearestExact),
        [2.0, 4.0]
    );
}

#[test]
fn bilinear_has_half_pixel_centres_and_repeats_the_edge() {
    assert_eq!(
        resized(&[0.0, 1.0], 4, Method::Bilinear),
        [0.0, 0.25, 0.75, 1.0]
    );
}

#[test]
fn bicubic_overshoots() {
    // a = -0.75 at a quarter: weights -0.1054688, 0.8789063, 0.2617188, -0.0351563.
    assert_eq!(
        resized(&[0.0, 1.0], 4, Method::Bicubic),
        [-0.10546875, 0.2265625, 0.7734375, 1.1054688]
    );
}

#[test]
fn area_counts_every_touched_pixel_whole() {
    assert_eq!(resized(&[1.0, 2.0, 6.0], 2, Method::Area), [1.5, 4.0]);
    assert_eq!(resized(&[1.0, 2.0], 4, Method::Area), [1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn lanczos_truncates_to_eight_bits_even_at_the_same_size() {
    let frame = Arc::new(Frame::new(1, 1, 3, vec![0.5, 0.999, 2.0]));
    let out = resize(frame, 1, 1, Method::Lanczos, Crop::Disabled).expect("a legal size");
    assert_eq!(out.data(), [127.0 / 255.0, 254.0 / 255.0, 1.0]);
}

#[test]
fn lanczos_weighs_colours_by_their_alpha() {
    let frame = Arc::new(Frame::new(
        1,
        2,
        4,
        vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0],
    ));
    let out = resize(frame, 1, 1, Method::Lanczos, Crop::Disabled).expect("a legal size");
    let levels: Vec<u8> = out.data().iter().map(|v| (v * 255.0) as u8).collect();
    assert_eq!(levels, [255, 0, 0, 128]);
}

#[test]
fn lanczos_refuses_other_than_three_or_four_channels() {
    let frame = Arc::new(Frame::filled(2, 2, 1, 0.0));
    assert_eq!(
        resize(frame, 4, 4, Method::Lanczos, Crop::Disabled),
        Err(KernelError::LanczosChannels(1))
    );
}

#[test]
fn every_method_keeps_a_flat_picture_flat() {
    for method in METHODS {
        for (width, height) in [(1, 1), (1, 7), (13, 1), (5, 9), (200, 150)] {
            let frame = Arc::new(Frame::filled(6, 7, 3, 1.0));
            let out = resize(frame, width, height, method, Crop::Center).expect("a legal size");
            assert_eq!(out.shape(), (height, width, 3));
            let worst = out
                .data()
                .iter()
                .map(|v| (v - 1.0).abs())
                .fold(0.0, f32::max);
            assert!(worst < 1e-4, "{method:?} {width}x{height}: {worst}");
        }
    }
}

#[test]
fn every_method_works_with_any_number_of_channels() {
    for method in [
        Method::NearestExact,
        Method::Bilinear,
        Method::Bicubic,
        Method::Area,
    ] {
        for channels in [1, 2, 3, 4, 5, 9] {
            let ramp = (0..6 * 5 * channels).map(|i| i as f32).collect();
            let frame = Arc::new(Frame::new(5, 6, channels, ramp));
            let out =
                resize(Arc::clone(&frame), 60, 80, method, Crop::Disabled).expect("a legal size");
            let single = Arc::new(Frame::new(
                5,
                6,
                1,
                frame.data().iter().step_by(channels).copied().collect(),
            ));
            let expected = resize(single, 60, 80, method, Crop::Disabled).expect("a legal size");
            let first: Vec<f32> = out.data().iter().step_by(channels).copied().collect();
            let worst = first
                .iter()
                .zip(expected.data())
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(worst < 1e-4, "{method:?} {channels}: {worst}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let samples = (0..300 * 200 * 3u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0)
        .collect();
    let frame = Arc::new(Frame::new(200, 300, 3, samples));
    for method in METHODS {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a small pool starts");
            pool.install(|| resize(Arc::clone(&frame), 411, 333, method, Crop::Disabled))
                .expect("a legal size")
        };
        assert_eq!(run(1), run(5), "{method:?}");
    }
}

#[test]
fn a_size_of_zero_and_a_size_beyond_one_frame_are_errors() {
    for method in METHODS {
        let upscale = |width, height| {
            resize(
                Arc::new(Frame::filled(2, 2, 3, 0.0)),
                width,
                height,
                method,
                Crop::Center,
            )
        };
        assert_eq!(
            upscale(0, 5),
            Err(KernelError::EmptyResult {
                width: 0,
                height: 5
            })
        );
        assert_eq!(
            upscale(1 << 20, 1 << 20),
            Err(KernelError::TooLarge {
                width: 1 << 20,
                height: 1 << 20,
                channels: 3
            })
        );
    }
}

#[test]
fn an_extreme_aspect_ratio_still_leaves_a_pixel_to_read() {
    for method in METHODS {
        let frame = Arc::new(Frame::filled(1, 4000, 3, 1.0));
        let out = resize(frame, 1, 4000, method, Crop::Center).expect("a legal size");
        assert_eq!(out.shape(), (4000, 1, 3));
    }
}

#[test]
fn a_frame_of_the_right_size_is_passed_on() {
    let frame = Arc::new(Frame::filled(2, 2, 3, 0.3));
    let out =
        resize(Arc::clone(&frame), 2, 2, Method::Bicubic, Crop::Center).expect("a legal size");
    assert!(Arc::ptr_eq(&frame, &out));
}

#[test]
fn sides_round_half_to_even() {
    assert_eq!(scaled_by(5, 3, 0.5), Ok((2, 2)));
    assert_eq!(
        scaled_by(7, 1, 0.5),
        Err(KernelError::EmptyResult {
            width: 4,
            height: 0
        })
    );
    assert_eq!(center_crop(10, 10, 1, 2), (2, 0));
    assert_eq!(center_crop(14, 10, 10, 10), (2, 0));
    assert_eq!(center_crop(10, 13, 10, 10), (0, 2));
}

#[test]
fn a_side_of_zero_follows_the_other() {
    assert_eq!(scaled_to(192, 144, 100, 0), Some((100, 75)));
    assert_eq!(scaled_to(192, 144, 0, 77), Some((103, 77)));
    assert_eq!(scaled_to(16384, 1, 10, 0), Some((10, 1)));
    assert_eq!(scaled_to(192, 144, 0, 0), None);
}

#[test]
fn total_pixels_keeps_the_aspect_ratio() {
    assert_eq!(total_pixels(4, 3, 0.01), Ok((118, 89)));
}

#[test]
fn the_longer_side_becomes_the_largest() {
    assert_eq!(max_dimension(200, 100, 512), Ok((512, 256)));
    assert_eq!(max_dimension(100, 200, 512), Ok((256, 512)));
    assert_eq!(max_dimension(100, 100, 512), Ok((512, 512)));
    assert_eq!(
        max_dimension(100, 1, 4),
        Err(KernelError::EmptyResult {
            width: 4,
            height: 0
        })
    );
}
