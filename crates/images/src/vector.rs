//! The widest vectors of the machine for loops that do much with each sample.
//!
//! The program runs on any x86-64. Where the machine has AVX2 and fused multiply-adds, `pulp` runs a copy of a loop that is
//! compiled for them. Both copies round alike, so the samples are the same on every machine.

/// Runs `fused` over `out` where the machine adds products with one rounding, compiled for such machines, and `plain` elsewhere.
///
/// Both are closures with `#[inline(always)]` that call one function with `#[inline(always)]`, with [`multiply_add`] of `true`
/// and of `false` in it, and that function has plain loops over indices: whatever is not inlined, such as iterators that are
/// zipped, their closures, and a function that is called through two references, stays as it is compiled for any machine. It is
/// then called for each sample, and a fused multiply-add in it is a library call.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn widest<A, R>(out: A, fused: impl FnOnce(A) -> R, plain: impl FnOnce(A) -> R) -> R {
    match pulp::x86::V3::try_new() {
        Some(machine) => machine.vectorize(
            #[inline(always)]
            || fused(out),
        ),
        None => plain(out),
    }
}

/// The same where every machine has what the program is compiled for.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn widest<A, R>(out: A, fused: impl FnOnce(A) -> R, _plain: impl FnOnce(A) -> R) -> R {
    fused(out)
}

/// `a * b + c`, rounded once; by the instruction for it if there is one.
#[inline(always)]
pub(crate) fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED {
        a.mul_add(b, c)
    } else {
        rounded_once(a, b, c)
    }
}

/// `a * b + c` without the instruction, and without the library function that takes its place, which is slow.
///
/// The product is exact in double precision. What the sum loses there is kept in its last bit, which is odd where anything was
/// lost, so that rounding to single precision goes the way it would have gone from the exact sum.
#[inline(always)]
fn rounded_once(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let of_c = sum - product;
    let lost = (product - (sum - of_c)) + (c - of_c);
    let bits = sum.to_bits();
    // Away from zero where what was lost has the sign of the sum, else towards zero.
    let step = if (lost > 0.0) == (sum > 0.0) {
        1
    } else {
        u64::MAX
    };
    let is_even = bits & 1 == 0;
    let odd = if lost != 0.0 && is_even {
        bits.wrapping_add(step)
    } else {
        bits
    };
    f64::from_bits(odd) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_a_product_rounds_once_on_every_machine() {
        let mut bits = 1_u64;
        let mut number = || {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            // Signs and exponents around 1, and mantissas with few bits now and then: sums half way between two numbers.
            let mantissa = (bits as u32 & 0x7F_FFFF)
                & [0x7F_FFFF, 0x7F_F000, 0x40_0000, 0x00_0001][(bits >> 40) as usize % 4];
            let exponent = 100 + (bits >> 50) as u32 % 54;
            f32::from_bits(((bits >> 63) as u32) << 31 | exponent << 23 | mantissa)
        };
        for _ in 0..1_000_000 {
            let (a, b, c) = (number(), number(), number());
            let expected = a.mul_add(b, c);
            assert_eq!(
                rounded_once(a, b, c).to_bits(),
                expected.to_bits(),
                "{a:e} * {b:e} + {c:e}"
            );
        }
    }

    #[test]
    fn a_sum_that_double_precision_would_round_twice_is_right() {
        // 1 + 2^-24 is half way between two floats; what is added lies beyond the last bit of a double.
        let (half, tiny) = (1.0 + f32::EPSILON, 2.0_f32.powi(-60));
        for (a, b, c) in [
            (half, 0.5, 2.0_f32.powi(24)),
            (tiny, 1.0, 1.0),
            (tiny, -1.0, 1.0),
            (0.0, 1.0, -0.0),
        ] {
            assert_eq!(
                rounded_once(a, b, c).to_bits(),
                a.mul_add(b, c).to_bits(),
                "{a:e} {b:e} {c:e}"
            );
        }
    }

    #[test]
    fn one_of_both_runs() {
        let mut out = [0.0];
        widest(
            &mut out,
            |out| out[0] = multiply_add::<true>(2.0, 3.0, 1.0),
            |out| out[0] = multiply_add::<false>(2.0, 3.0, 1.0),
        );
        assert_eq!(out, [7.0]);
    }
}
