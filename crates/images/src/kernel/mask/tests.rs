//! Areas of a few pixels, by hand.

use super::*;

fn mask(width: usize, samples: &[f32]) -> Mask {
    Mask::new(vec![Arc::new(Frame::new(
        samples.len() / width,
        width,
        1,
        samples.to_vec(),
    ))])
    .expect("a mask")
}

#[test]
fn a_crop_is_cut_at_the_border_and_never_empty() {
    let source = || mask(3, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(
        crop(source(), 1, 1, 9, 9).expect("inside"),
        mask(2, &[4.0, 5.0])
    );
    assert_eq!(
        crop(source(), 0, 0, 1, 2).expect("inside"),
        mask(1, &[0.0, 3.0])
    );
    assert_eq!(
        crop(source(), 3, 0, 9, 9),
        Err(KernelError::EmptyResult {
            width: 0,
            height: 2
        })
    );
    assert_eq!(
        crop(source(), 0, 16384, 9, 9),
        Err(KernelError::EmptyResult {
            width: 3,
            height: 0
        })
    );
}

#[test]
fn every_side_fades_towards_its_own_edge() {
    let out = feather(mask(5, &[1.0; 20]), 2, 1, 2, 2).expect("same shape");
    let row = |factor: f32| [0.5, 1.0, 1.0, 1.0, 0.5].map(|v: f32| v * factor);
    assert_eq!(
        out.first().data(),
        [row(1.0), row(1.0), row(1.0), row(0.5)].concat()
    );
}

#[test]
fn feathering_more_than_there_is_uses_what_there_is() {
    let out = feather(mask(4, &[1.0; 4]), 16384, 0, 0, 0).expect("same shape");
    assert_eq!(out.first().data(), [0.25, 0.5, 0.75, 1.0]);
}

#[test]
fn operations() {
    let cases = [
        (MaskOperation::Multiply, [0.0, 0.125, 0.75]),
        (MaskOperation::Add, [0.25, 0.75, 1.0]),
        (MaskOperation::Subtract, [0.0, 0.25, 0.0]),
        (MaskOperation::And, [0.0, 0.0, 1.0]),
        (MaskOperation::Or, [0.0, 0.0, 1.0]),
        (MaskOperation::Xor, [0.0, 0.0, 0.0]),
    ];
    for (operation, expected) in cases {
        let out = composite(
            mask(3, &[0.0, 0.5, 0.75]),
            mask(3, &[0.25, 0.25, 1.0]),
            0,
            0,
            operation,
        );
        assert_eq!(
            out.expect("one to one").first().data(),
            expected,
            "{operation:?}"
        );
    }
}

#[test]
fn only_what_is_covered_changes_but_all_is_clamped() {
    let destination = || mask(3, &[2.0, -1.0, 0.5, 0.5, 0.5, 0.5]);
    let out = composite(
        destination(),
        mask(2, &[0.5; 4]),
        2,
        1,
        MaskOperation::Multiply,
    )
    .expect("one to one");
    assert_eq!(out.first().data(), [1.0, 0.0, 0.5, 0.5, 0.5, 0.25]);
    let out = composite(
        destination(),
        mask(2, &[0.5; 4]),
        16384,
        16384,
        MaskOperation::Multiply,
    )
    .expect("one to one");
    assert_eq!(out.first().data(), [1.0, 0.0, 0.5, 0.5, 0.5, 0.5]);
}

#[test]
fn one_source_serves_every_destination_but_not_the_other_way_round() {
    let batch = |n: usize| {
        Mask::new(
            (0..n)
                .map(|_| Arc::new(Frame::filled(1, 1, 1, 0.5)))
                .collect(),
        )
        .expect("a mask")
    };
    assert_eq!(
        composite(batch(3), batch(1), 0, 0, MaskOperation::Add)
            .expect("one to all")
            .frames()
            .len(),
        3
    );
    assert_eq!(
        composite(batch(1), batch(3), 0, 0, MaskOperation::Add),
        Err(KernelError::BatchMismatch(1, 3))
    );
}
