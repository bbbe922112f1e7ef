//! Places, turns and the end of the work; blend modes are compared with recordings where the nodes are.

use super::*;

const WHOLE: Placement = Placement {
    x: 0.0,
    y: 0.0,
    width: 2.0,
    height: 1.0,
    rotation: 0.0,
    flip_x: false,
    flip_y: false,
    opacity: 1.0,
    blend: Blend::NORMAL,
};

/// A red pixel beside a blue one.
fn two() -> Frame {
    Frame::new(1, 2, 3, vec![1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
}

fn laid(width: usize, height: usize, placement: Placement) -> Vec<u8> {
    let mut canvas = Canvas::new(width, height).expect("a size");
    let none = || Ok::<(), KernelError>(());
    canvas.lay(&two(), None, &placement, none).expect("laid");
    // To linear light and back, white may end a bit below 1.
    let samples = canvas.finish();
    let levels = samples
        .data()
        .iter()
        .map(|sample| (sample * 255.0).round() as u8);
    levels.collect()
}

const RED: [u8; 4] = [255, 0, 0, 255];
const BLUE: [u8; 4] = [0, 0, 255, 255];

#[test]
fn a_picture_is_cut_at_the_border_of_the_canvas() {
    let left = laid(1, 1, Placement { x: -1.0, ..WHOLE });
    assert_eq!(left, BLUE);
    let beyond = laid(1, 1, Placement { x: 5.0, ..WHOLE });
    assert_eq!(beyond, [0; 4]);
    let far = laid(
        1,
        1,
        Placement {
            x: -1e300,
            y: 1e300,
            ..WHOLE
        },
    );
    assert_eq!(far, [0; 4]);
}

/// At which pixels of a canvas of 4 by 4 the red one and the blue one are.
fn places(placement: Placement) -> (Option<usize>, Option<usize>) {
    let laid = laid(4, 4, placement);
    let pixels: &[[u8; 4]] = laid.as_chunks().0;
    let place = |color| pixels.iter().position(|pixel| *pixel == color);
    (place(RED), place(BLUE))
}

#[test]
fn quarters_are_exact_and_clockwise() {
    let middle = Placement {
        x: 1.0,
        y: 1.5,
        ..WHOLE
    };
    // A column or row beside it may be where it lies: the border of what is turned is rounded outwards, as in ComfyUI.
    for (quarters, red_to_blue) in [(1.0, 4), (2.0, -1), (3.0, -4)] {
        let rotation = quarters * PI / 2.0;
        let (red, blue) = places(Placement { rotation, ..middle });
        let (red, blue) = (red.expect("it is red"), blue.expect("it is blue"));
        assert_eq!(
            red.checked_add_signed(red_to_blue),
            Some(blue),
            "{quarters}"
        );
    }
    let flipped = Placement {
        flip_x: true,
        ..WHOLE
    };
    assert_eq!(laid(2, 1, flipped), [BLUE, RED].concat());
}

#[test]
fn every_mode_has_its_own_name() {
    let mut names = Blend::names();
    assert!(
        names
            .iter()
            .all(|name| Blend::named(name).is_some_and(|blend| blend.name() == *name))
    );
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(Blend::named("none"), None);
}

#[test]
fn work_ends_where_it_is_told_to() {
    let mut canvas = Canvas::new(2, 1).expect("a size");
    let stopped = canvas.lay(&two(), None, &WHOLE, || Err(KernelError::ThresholdOrder));
    assert_eq!(stopped, Err(KernelError::ThresholdOrder));
    assert_eq!(canvas.finish().to_bytes(), [0; 8]);
}
