//! Arrays of floats with any number of sides.
//!
//! Only what the classes of latents need. A part of nothing is refused: a latent with a side of 0 is of no use to any node.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::unfit;
use crate::{NodeContext, NodeError};

/// An array of 32-bit floats, the last side running fastest. Clones share their samples.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Arc<Vec<f32>>,
}

impl Tensor {
    /// Wraps samples.
    ///
    /// # Panics
    /// If they do not fill the shape: that is a bug of the caller, never of its input.
    #[must_use]
    pub fn new(shape: Vec<usize>, data: Vec<f32>) -> Self {
        assert_eq!(
            data.len(),
            shape.iter().product::<usize>(),
            "samples must fill the shape"
        );
        Self {
            shape,
            data: Arc::new(data),
        }
    }

    /// The lengths of its sides.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// All samples.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Bytes that its samples take.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        size_of_val(&**self.data) as u64
    }

    /// How many sides it has.
    pub(crate) fn sides(&self) -> usize {
        self.shape.len()
    }

    /// The length of a side; sides that it does not have are 1 long.
    pub(crate) fn side(&self, side: usize) -> usize {
        self.shape.get(side).copied().unwrap_or(1)
    }

    /// One value everywhere.
    ///
    /// # Errors
    /// If there is no room for it, or a side would be 0 long.
    pub(crate) fn filled(
        shape: &[usize],
        value: f32,
        context: &NodeContext,
    ) -> Result<Self, NodeError> {
        let mut data = room(shape, context)?;
        data.resize(shape.iter().product(), value);
        Ok(Self::new(shape.to_vec(), data))
    }

    /// Every sample changed by itself.
    pub(crate) fn map(
        &self,
        context: &NodeContext,
        change: impl Fn(f32) -> f32,
    ) -> Result<Self, NodeError> {
        let mut data = room(&self.shape, context)?;
        data.extend(self.data.iter().map(|sample| change(*sample)));
        Ok(Self::new(self.shape.clone(), data))
    }

    /// Samples of two arrays joined one by one. Sides are matched from the last; one that is 1 long counts for all.
    ///
    /// # Errors
    /// If the sides do not match, or there is no room.
    pub(crate) fn zip(
        &self,
        other: &Self,
        context: &NodeContext,
        join: impl Fn(f32, f32) -> f32,
    ) -> Result<Self, NodeError> {
        let sides = self.sides().max(other.sides());
        let (one, two) = (padded(&self.shape, sides), padded(&other.shape, sides));
        let mut shape = Vec::with_capacity(sides);
        for (a, b) in one.iter().zip(&two) {
            shape.push(match (*a, *b) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return Err(unfit(&self.shape, &other.shape)),
            });
        }
        let mut data = room(&shape, context)?;
        if one == two {
            let pairs = self.data.iter().zip(&*other.data);
            data.extend(pairs.map(|(a, b)| join(*a, *b)));
            return Ok(Self::new(shape, data));
        }
        let (steps, last) = (
            [steps(&one), steps(&two)],
            shape.last().copied().unwrap_or(1),
        );
        let [a, b] = steps
            .each_ref()
            .map(|steps| steps.last().copied().unwrap_or(0));
        each_row(&shape, [&steps[0], &steps[1]], |[x, y]| {
            data.extend((0..last).map(|at| join(self.data[x + at * a], other.data[y + at * b])));
        });
        Ok(Self::new(shape, data))
    }

    /// The same, repeated along sides of 1 until it has this shape.
    ///
    /// # Errors
    /// If another side differs, or there is no room.
    pub(crate) fn expanded(
        &self,
        shape: &[usize],
        context: &NodeContext,
    ) -> Result<Self, NodeError> {
        if self.shape == shape {
            return Ok(self.clone());
        }
        let own = padded(&self.shape, shape.len());
        let fits = |(own, wanted): (&usize, &usize)| *own == 1 || own == wanted;
        if self.sides() > shape.len() || !own.iter().zip(shape).all(fits) {
            return Err(unfit(shape, &self.shape));
        }
        let steps = steps(&own);
        let (step, last) = (
            steps.last().copied().unwrap_or(0),
            shape.last().copied().unwrap_or(1),
        );
        let mut data = room(shape, context)?;
        each_row(shape, [&steps], |[x]| {
            data.extend((0..last).map(|at| self.data[x + at * step]));
        });
        Ok(Self::new(shape.to_vec(), data))
    }

    /// A part of one side.
    ///
    /// # Errors
    /// If nothing is in it, or there is no room.
    pub(crate) fn part(
        &self,
        side: usize,
        range: Range<usize>,
        context: &NodeContext,
    ) -> Result<Self, NodeError> {
        if range == (0..self.side(side)) {
            return Ok(self.clone());
        }
        let (_, length, inner) = self.around(side);
        let mut shape = self.shape.clone();
        shape[side] = range.len();
        let mut data = room(&shape, context)?;
        for block in self.data.chunks_exact(length * inner) {
            data.extend_from_slice(&block[range.start * inner..range.end * inner]);
        }
        Ok(Self::new(shape, data))
    }

    /// Several arrays after each other along one side.
    ///
    /// # Errors
    /// If another side differs, or there is no room.
    pub(crate) fn joined(
        parts: &[&Self],
        side: usize,
        context: &NodeContext,
    ) -> Result<Self, NodeError> {
        let Some(first) = parts.first() else {
            return Err(NodeError::value("there is no latent to join"));
        };
        let mut shape = first.shape.clone();
        for part in &parts[1..] {
            let mut like = part.shape.clone();
            if side >= shape.len() || like.len() != shape.len() {
                return Err(unfit(&first.shape, &part.shape));
            }
            like[side] = first.side(side);
            if like != first.shape {
                return Err(unfit(&first.shape, &part.shape));
            }
            shape[side] += part.side(side);
        }
        let (outer, _, inner) = first.around(side);
        let mut data = room(&shape, context)?;
        for at in 0..outer {
            for part in parts {
                let block = part.side(side) * inner;
                data.extend_from_slice(&part.data[at * block..(at + 1) * block]);
            }
        }
        Ok(Self::new(shape, data))
    }

    /// The whole batch so many times.
    pub(crate) fn repeated(&self, times: usize, context: &NodeContext) -> Result<Self, NodeError> {
        if times == 1 {
            return Ok(self.clone());
        }
        let mut shape = self.shape.clone();
        shape[0] = shape[0].saturating_mul(times);
        let mut data = room(&shape, context)?;
        for _ in 0..times {
            data.extend_from_slice(&self.data);
        }
        Ok(Self::new(shape, data))
    }

    /// A batch of so many items: cut, or repeated from the beginning.
    pub(crate) fn of_count(&self, count: usize, context: &NodeContext) -> Result<Self, NodeError> {
        let own = self.side(0);
        let repeated = match own < count {
            true => self.repeated(count.div_ceil(own), context)?,
            false => self.clone(),
        };
        repeated.part(0, 0..count, context)
    }

    /// One side the other way round.
    pub(crate) fn flipped(&self, side: usize, context: &NodeContext) -> Result<Self, NodeError> {
        let (_, length, inner) = self.around(side);
        let mut data = room(&self.shape, context)?;
        for block in self.data.chunks_exact(length * inner) {
            for row in block.chunks_exact(inner).rev() {
                data.extend_from_slice(row);
            }
        }
        Ok(Self::new(self.shape.clone(), data))
    }

    /// The third and the fourth side exchanged.
    pub(crate) fn transposed(&self, context: &NodeContext) -> Result<Self, NodeError> {
        let (_, height, _) = self.around(2);
        let (_, width, inner) = self.around(3);
        let mut shape = self.shape.clone();
        shape.swap(2, 3);
        let mut data = room(&shape, context)?;
        for block in self.data.chunks_exact(height * width * inner) {
            for x in 0..width {
                for y in 0..height {
                    let at = (y * width + x) * inner;
                    data.extend_from_slice(&block[at..at + inner]);
                }
            }
        }
        Ok(Self::new(shape, data))
    }

    /// The same with a part written over from these places on.
    ///
    /// # Errors
    /// If there is no room.
    pub(crate) fn replaced(
        &self,
        from: &[usize],
        part: &Self,
        context: &NodeContext,
    ) -> Result<Self, NodeError> {
        let mut data = room(&self.shape, context)?;
        data.extend_from_slice(&self.data);
        let (strides, theirs) = (contiguous(&self.shape), contiguous(&part.shape));
        let start: usize = from.iter().zip(&strides).map(|(at, step)| at * step).sum();
        let last = part.shape.last().copied().unwrap_or(1);
        each_row(&part.shape, [&strides, &theirs], |[to, at]| {
            data[start + to..start + to + last].copy_from_slice(&part.data[at..at + last]);
        });
        Ok(Self::new(self.shape.clone(), data))
    }

    /// The root of the sum of squares over the channels, which are no side of the result.
    pub(crate) fn norm(&self, context: &NodeContext) -> Result<Self, NodeError> {
        let (_, channels, inner) = self.around(1);
        let mut shape = self.shape.clone();
        shape.remove(1);
        let mut data = room(&shape, context)?;
        for block in self.data.chunks_exact(channels * inner) {
            let from = data.len();
            data.resize(from + inner, 0.0_f32);
            for channel in block.chunks_exact(inner) {
                for (sum, sample) in data[from..].iter_mut().zip(channel) {
                    *sum += sample * sample;
                }
            }
            data[from..].iter_mut().for_each(|sum| *sum = sum.sqrt());
        }
        Ok(Self::new(shape, data))
    }

    /// The same samples in another shape of as many.
    pub(crate) fn reshaped(&self, shape: Vec<usize>) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>(), self.data.len());
        Self {
            shape,
            data: Arc::clone(&self.data),
        }
    }

    /// How many blocks lie before a side, how long it is, and how many samples each of its places has.
    pub(crate) fn around(&self, side: usize) -> (usize, usize, usize) {
        let outer = self.shape[..side].iter().product();
        let inner = self.shape[side + 1..].iter().product();
        (outer, self.shape[side], inner)
    }
}

impl fmt::Debug for Tensor {
    // Nobody wants to read the samples.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?})", self.shape)
    }
}

/// Room for the samples of a shape.
///
/// # Errors
/// If a side is 0 long, or the job has not so many bytes left.
pub(super) fn room(shape: &[usize], context: &NodeContext) -> Result<Vec<f32>, NodeError> {
    if shape.contains(&0) {
        return Err(NodeError::value(format!(
            "nothing would be left of the latent: its shape would be {shape:?}; choose a larger size or a part inside of it"
        )));
    }
    let samples = shape
        .iter()
        .try_fold(1_usize, |samples, side| samples.checked_mul(*side));
    let bytes = samples.and_then(|samples| samples.checked_mul(size_of::<f32>()));
    let too_large = || {
        NodeError::value(format!(
            "a latent of the shape {shape:?} is larger than any memory; choose a smaller size or batch"
        ))
    };
    let (Some(samples), Some(bytes)) = (samples, bytes) else {
        return Err(too_large());
    };
    context.reserve(bytes as u64)?;
    context.check()?;
    let mut room = Vec::new();
    room.try_reserve_exact(samples).map_err(|_| too_large())?;
    Ok(room)
}

/// A shape with sides of 1 before it until it has so many.
fn padded(shape: &[usize], sides: usize) -> Vec<usize> {
    let mut padded = vec![1; sides.saturating_sub(shape.len())];
    padded.extend_from_slice(shape);
    padded
}

/// Samples from one place of each side to the next.
fn contiguous(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for side in (1..shape.len()).rev() {
        strides[side - 1] = strides[side] * shape[side];
    }
    strides
}

/// As [`contiguous`], with 0 for sides that are 1 long: they are read again for every place of the other array.
fn steps(shape: &[usize]) -> Vec<usize> {
    let strides = contiguous(shape).into_iter().zip(shape);
    strides
        .map(|(stride, side)| if *side == 1 { 0 } else { stride })
        .collect()
}

/// Calls `row` for every row of the shape, in order, with where it begins in arrays of these steps.
fn each_row<const N: usize>(
    shape: &[usize],
    steps: [&[usize]; N],
    mut row: impl FnMut([usize; N]),
) {
    let leading = shape.len().saturating_sub(1);
    let mut place = vec![0; leading];
    let rows: usize = shape[..leading].iter().product();
    for _ in 0..rows {
        row(steps.map(|steps| place.iter().zip(steps).map(|(at, step)| at * step).sum()));
        for side in (0..leading).rev() {
            place[side] += 1;
            if place[side] < shape[side] {
                break;
            }
            place[side] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Tensor {
        let samples = shape.iter().product::<usize>();
        let data = (0..samples).map(|sample| sample as f32).collect();
        Tensor::new(shape.to_vec(), data)
    }

    #[test]
    fn sides_of_one_count_for_all_when_arrays_are_joined() {
        let context = NodeContext::detached();
        let column = counted(&[2, 1]);
        let row = counted(&[3]);
        let sums = column
            .zip(&row, &context, |a, b| a * 10.0 + b)
            .expect("they match");
        assert_eq!(sums.shape(), [2, 3]);
        assert_eq!(sums.data(), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
        let error = counted(&[2, 2]).zip(&row, &context, |a, _| a);
        assert!(error.is_err(), "2 and 3 do not match");
    }

    #[test]
    fn a_part_is_written_where_it_belongs() {
        let context = NodeContext::detached();
        let whole = Tensor::filled(&[1, 3, 4], 9.0, &context).expect("there is room");
        let replaced = whole
            .replaced(&[0, 1, 2], &counted(&[1, 2, 2]), &context)
            .expect("there is room");
        let rows: Vec<&[f32]> = replaced.data().chunks_exact(4).collect();
        assert_eq!(rows[0], [9.0, 9.0, 9.0, 9.0]);
        assert_eq!(rows[1], [9.0, 9.0, 0.0, 1.0]);
        assert_eq!(rows[2], [9.0, 9.0, 2.0, 3.0]);
    }

    #[test]
    fn sizes_beyond_all_memory_are_refused_and_not_allocated() {
        let context = NodeContext::detached();
        assert!(room(&[usize::MAX / 2, 4], &context).is_err());
        assert!(room(&[usize::MAX / 8, 1], &context).is_err());
        assert!(room(&[2, 0, 4], &context).is_err());
    }
}
