//! The Gaussian, as a square of weights and as the line that makes it.

/// The square of `2 radius + 1` normalised weights each way, row by row, rounded where the recorded ones were.
pub(super) fn gaussian(radius: usize, sigma: f64) -> Vec<f32> {
    let positions = positions(radius);
    let spread = (2.0 * sigma * sigma) as f32;
    let mut weights = Vec::with_capacity(positions.len() * positions.len());
    for y in &positions {
        for x in &positions {
            let distance = (x * x + y * y).sqrt();
            let exponent = -(distance * distance) / spread;
            weights.push(f64::from(exponent).exp() as f32);
        }
    }
    let sum = sum(&weights);
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// The weights that add `strength` times the difference from the blurred picture.
pub(super) fn sharpening(radius: usize, sigma: f64, strength: f32) -> Vec<f32> {
    let mut weights = gaussian(radius, sigma);
    weights.iter_mut().for_each(|weight| *weight *= -strength);
    let sum = sum(&weights);
    let centre = weights.len() / 2;
    weights[centre] = weights[centre] - sum + 1.0;
    weights
}

/// The weights of the samples 1, 2 .. `radius` away on either side, of a line whose square is [`gaussian`]; the centre has
/// what is left of 1.
pub(super) fn gaussian_line(radius: usize, sigma: f64) -> Vec<f32> {
    let weight = |distance: usize| {
        let x = distance as f64 / radius as f64;
        (-x * x / (2.0 * sigma * sigma)).exp()
    };
    let sum = 1.0 + 2.0 * (1..=radius).map(weight).sum::<f64>();
    (1..=radius)
        .map(|distance| (weight(distance) / sum) as f32)
        .collect()
}

/// -1 .. 1 in equal steps, each half counted from its own end.
fn positions(radius: usize) -> Vec<f32> {
    let step = 1.0 / radius as f32;
    let half = (0..=radius).map(|i| (1.0 - f64::from(step) * i as f64) as f32);
    let half: Vec<f32> = half.collect();
    half[..radius]
        .iter()
        .map(|x| -x)
        .chain(half.iter().rev().copied())
        .collect()
}

/// Samples that the recorded sum takes at a time, and its accumulators of so many.
const LANES: usize = 8;
const ACCUMULATORS: usize = 4;

/// The sum in the recorded order: its last bit shows in flat areas.
fn sum(values: &[f32]) -> f32 {
    let (lines, rest) = values.as_chunks::<LANES>();
    let (blocks, single) = lines.as_chunks::<ACCUMULATORS>();
    let mut sums = cascade(blocks);
    single.iter().for_each(|line| add(&mut sums[0], line));
    let [mut total, others @ ..] = sums;
    others.iter().for_each(|other| add(&mut total, other));
    total.iter().fold(
        rest.iter().fold(0.0, |sum, value| sum + value),
        |sum, value| sum + value,
    )
}

type Block = [[f32; LANES]; ACCUMULATORS];

/// Sums of 16, of 16 times 16 and so on are kept apart, so that small values do not vanish in large sums.
fn cascade(blocks: &[Block]) -> Block {
    const STEP: usize = 16;
    let mut levels = [Block::default(); 4];
    for (i, block) in blocks.iter().enumerate() {
        add_block(&mut levels[0], block);
        let mut filled = i + 1;
        let mut level = 1;
        while filled.is_multiple_of(STEP) && level < levels.len() {
            let finished = std::mem::take(&mut levels[level - 1]);
            add_block(&mut levels[level], &finished);
            filled /= STEP;
            level += 1;
        }
    }
    let [mut total, others @ ..] = levels;
    others.iter().for_each(|other| add_block(&mut total, other));
    total
}

fn add_block(sum: &mut Block, block: &Block) {
    sum.iter_mut()
        .zip(block)
        .for_each(|(sum, line)| add(sum, line));
}

fn add(sum: &mut [f32; LANES], line: &[f32; LANES]) {
    sum.iter_mut()
        .zip(line)
        .for_each(|(sum, value)| *sum += value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_any_radius_add_up_to_one() {
        for radius in 1..=31 {
            for sigma in [0.1, 1.0, 10.0] {
                let square: f64 = gaussian(radius, sigma)
                    .iter()
                    .map(|&weight| f64::from(weight))
                    .sum();
                assert!((square - 1.0).abs() < 1e-6, "{radius} {sigma}: {square}");
                let sharp: f64 = sharpening(radius, sigma, 50.0)
                    .iter()
                    .map(|&weight| f64::from(weight))
                    .sum();
                assert!((sharp - 1.0).abs() < 1e-4, "{radius} {sigma}: {sharp}");
            }
        }
    }

    #[test]
    fn sigma_is_relative_to_the_radius() {
        // A tiny sigma leaves only the centre, a huge one weighs all alike.
        assert_eq!(gaussian_line(2, 0.01), [0.0, 0.0]);
        assert!(
            gaussian_line(2, 1e6)
                .iter()
                .all(|weight| (weight - 0.2).abs() < 1e-6)
        );
        assert_eq!(
            gaussian(1, 0.01),
            [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
        );
    }

    #[test]
    fn the_line_makes_the_square() {
        let (square, line) = (gaussian(3, 0.7), gaussian_line(3, 0.7));
        let side = 7;
        let centre = 1.0 - 2.0 * line.iter().sum::<f32>();
        let at = |i: usize| {
            if i == 3 {
                centre
            } else {
                line[i.abs_diff(3) - 1]
            }
        };
        for (i, weight) in square.iter().enumerate() {
            assert!((weight - at(i / side) * at(i % side)).abs() < 1e-7);
        }
    }
}
