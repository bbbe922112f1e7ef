//! One window against as many steps of the recorded node.

use super::*;

/// One recorded step: 3x3, or the four neighbours, mirrored at the border.
fn step(frame: &Frame, tapered: bool, pick: fn(f32, f32) -> f32) -> Frame {
    let (height, width, _) = frame.shape();
    let at = |y: isize, x: isize| {
        frame.row(y.clamp(0, height as isize - 1) as usize)[x.clamp(0, width as isize - 1) as usize]
    };
    let mut out = Vec::new();
    for (y, x) in (0..height as isize).flat_map(|y| (0..width as isize).map(move |x| (y, x))) {
        let around = (-1..=1).flat_map(|dy: isize| (-1..=1).map(move |dx: isize| (dy, dx)));
        let window = around.filter(|(dy, dx)| !tapered || dy.abs() + dx.abs() < 2);
        out.push(
            window
                .map(|(dy, dx)| at(y + dy, x + dx))
                .reduce(pick)
                .expect("nine or five pixels"),
        );
    }
    Frame::new(height, width, 1, out)
}

#[test]
fn one_window_equals_many_steps() {
    for (height, width) in [(1, 1), (1, 9), (7, 1), (13, 17)] {
        let samples = (0..(height * width) as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0)
            .collect();
        let start = Arc::new(Frame::new(height, width, 1, samples));
        for tapered in [false, true] {
            for (sign, pick) in [(1, greatest as fn(f32, f32) -> f32), (-1, least)] {
                let mut expected = (*start).clone();
                for steps in 0..20 {
                    let grown = grow(
                        Mask::new(vec![Arc::clone(&start)]).expect("a mask"),
                        sign * steps,
                        tapered,
                    );
                    assert_eq!(
                        *grown.expect("same shape").first(),
                        expected,
                        "{height}x{width} {tapered} {sign}*{steps}"
                    );
                    expected = step(&expected, tapered, pick);
                }
            }
        }
    }
}

#[test]
fn far_more_steps_than_pixels_are_no_more_work() {
    let mut frame = Frame::filled(40, 30, 1, 0.0);
    frame.data_mut()[0] = 1.0;
    for tapered in [false, true] {
        for expand in [16384, i64::MAX] {
            let mask = Mask::new(vec![Arc::new(frame.clone())]).expect("a mask");
            assert!(
                grow(mask, expand, tapered)
                    .expect("same shape")
                    .first()
                    .data()
                    .iter()
                    .all(|&v| v == 1.0)
            );
        }
    }
    let mask = Mask::new(vec![Arc::new(frame)]).expect("a mask");
    assert!(
        grow(mask, i64::MIN, true)
            .expect("same shape")
            .first()
            .data()
            .iter()
            .all(|&v| v == 0.0)
    );
}
