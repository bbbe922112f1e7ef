//! Edges that can be told by eye.

use super::*;

fn edges(frame: Frame, low: f64, high: f64) -> Vec<f32> {
    let out = canny(Image::single(frame), low, high).expect("it is large enough");
    out.first().data().iter().step_by(3).copied().collect()
}

fn step() -> Frame {
    let row = [0.0, 0.0, 0.0, 0.25, 1.0, 1.0, 1.0, 1.0];
    Frame::new(
        5,
        8,
        3,
        row.iter()
            .flat_map(|v| [*v; 3])
            .collect::<Vec<f32>>()
            .repeat(5),
    )
}

#[test]
fn a_step_is_one_line() {
    let row = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(edges(step(), 0.4, 0.8), row.repeat(5));
}

#[test]
fn a_step_above_the_lower_threshold_alone_is_nothing() {
    let faint = Frame::new(5, 8, 3, step().data().iter().map(|v| v * 0.3).collect());
    assert_eq!(edges(faint.clone(), 0.1, 0.99), [0.0; 40]);
    assert_eq!(edges(faint, 0.1, 0.2).iter().sum::<f32>(), 5.0);
}

#[test]
fn a_weak_stretch_of_a_strong_edge_is_part_of_it() {
    let mut grid = [1.0, 0.0, 0.5, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0];
    follow(&mut grid, 3);
    assert_eq!(grid, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let mut snake = [0.5, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.5];
    follow(&mut snake, 3);
    assert_eq!(snake, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn directions_round_to_the_nearest_of_eight() {
    assert!(matches!(direction((0.0, 0.0)), Along::Row));
    assert!(matches!(direction((1.0, 0.4)), Along::Row));
    assert!(matches!(direction((1.0, 0.5)), Along::Falling));
    assert!(matches!(direction((-1.0, -0.5)), Along::Falling));
    assert!(matches!(direction((1.0, -0.5)), Along::Rising));
    assert!(matches!(direction((0.4, -1.0)), Along::Column));
}

#[test]
fn what_cannot_be_done_is_said() {
    let image =
        |height, width, channels| Image::single(Frame::filled(height, width, channels, 0.0));
    assert_eq!(
        canny(image(9, 9, 3), 0.8, 0.4),
        Err(KernelError::ThresholdOrder)
    );
    assert_eq!(
        canny(image(9, 2, 3), 0.4, 0.8),
        Err(KernelError::RadiusTooLarge {
            radius: 2,
            width: 2,
            height: 9
        })
    );
    assert_eq!(
        canny(image(9, 9, 2), 0.4, 0.8),
        Err(KernelError::MissingChannels {
            needed: 3,
            found: 2
        })
    );
    assert!(canny(image(3, 3, 1), 0.4, 0.8).is_ok());
}
