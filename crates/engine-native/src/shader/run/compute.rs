//! Operations that compute: for all pixels of a group at once, whether they run or not, but for what is copied.

use super::super::operation::{Binary, Operation, Register, Unary};
use super::{ACROSS, LANES, Machine};

/// A component of every pixel of a group.
pub(super) type Lanes = [u32; LANES];

fn float(number: f32) -> u32 {
    number.to_bits()
}

fn truth(holds: bool) -> u32 {
    u32::from(holds)
}

impl Machine<'_> {
    pub(super) fn compute(&mut self, operation: &Operation) {
        match operation {
            Operation::Copy { to, from } => self.copy(*to, *from),
            Operation::Unary { way, to, from } => self.unary(*way, *to, *from),
            Operation::Binary { way, to, from } => self.binary(*way, *to, *from),
            Operation::Select { to, from } => {
                let [condition, chosen, other] = from.map(|from| self.registers[self.at(from)]);
                let lane = |lane: usize| {
                    if condition[lane] != 0 {
                        chosen[lane]
                    } else {
                        other[lane]
                    }
                };
                let to = self.at(*to);
                self.registers[to] = std::array::from_fn(lane);
            }
            Operation::LoadAt { to, index, from } => {
                let index = self.registers[self.at(*index)];
                let pick = |lane: usize| {
                    let at = (index[lane] as usize).min(from.len() - 1);
                    self.registers[self.at(from[at])][lane]
                };
                let picked = std::array::from_fn(pick);
                let to = self.at(*to);
                self.registers[to] = picked;
            }
            Operation::StoreAt { to, index, from } => {
                let (index, from) = (
                    self.registers[self.at(*index)],
                    self.registers[self.at(*from)],
                );
                for lane in (0..LANES).filter(|lane| self.active[*lane] != 0) {
                    let at = (index[lane] as usize).min(to.len() - 1);
                    let to = self.at(to[at]);
                    self.registers[to][lane] = from[lane];
                }
            }
            Operation::Sample { to, texture, at } => {
                let [x, y] = at.map(|at| self.registers[self.at(at)]);
                let texture = &self.run.textures[*texture];
                // What is far away for those that run no more need not be looked up.
                let color = |lane: usize| match self.active[lane] {
                    0 => [0.0; 4],
                    _ => texture.sample(f32::from_bits(x[lane]), f32::from_bits(y[lane])),
                };
                let colors: [[f32; 4]; LANES] = std::array::from_fn(color);
                self.colors(*to, &colors);
            }
            Operation::Fetch { to, texture, at } => {
                let [x, y] = at.map(|at| self.registers[self.at(at)]);
                let texture = &self.run.textures[*texture];
                let place = |bits: u32| i64::from(bits.cast_signed());
                let color = |lane: usize| texture.texel(place(x[lane]), place(y[lane]));
                let colors: [[f32; 4]; LANES] = std::array::from_fn(color);
                self.colors(*to, &colors);
            }
            Operation::Size { to, texture } => {
                let (width, height) = self.run.textures[*texture].size();
                for (to, side) in to.iter().zip([width, height]) {
                    self.fill(&[*to], |_| side as u32);
                }
            }
            Operation::Slope {
                to,
                from,
                is_across,
            } => {
                let from = self.registers[self.at(*from)];
                // Four neighbours share the slope of the first of them.
                let slope = |lane: usize| {
                    let first = (lane % ACROSS) & !1;
                    let next = if *is_across {
                        first + 1
                    } else {
                        first + ACROSS
                    };
                    float(f32::from_bits(from[next]) - f32::from_bits(from[first]))
                };
                let to = self.at(*to);
                self.registers[to] = std::array::from_fn(slope);
            }
            // What leads from one operation to another is not computed.
            Operation::If { .. }
            | Operation::Loop(_)
            | Operation::Switch(_)
            | Operation::Call { .. }
            | Operation::Pass { .. }
            | Operation::Returned { .. }
            | Operation::Break
            | Operation::Continue
            | Operation::Return
            | Operation::Discard => {}
        }
    }

    fn copy(&mut self, to: Register, from: Register) {
        let from = self.registers[self.at(from)];
        let to = self.at(to);
        let active = self.active;
        let to = &mut self.registers[to];
        for lane in 0..LANES {
            to[lane] = (from[lane] & active[lane]) | (to[lane] & !active[lane]);
        }
    }

    fn colors(&mut self, to: [Register; 4], colors: &[[f32; 4]; LANES]) {
        for (channel, to) in to.into_iter().enumerate() {
            self.fill(&[to], |lane| float(colors[lane][channel]));
        }
    }

    fn each(&mut self, to: Register, from: Register, of: impl Fn(u32) -> u32) {
        let from = self.registers[self.at(from)];
        let to = self.at(to);
        self.registers[to] = from.map(of);
    }

    fn unary(&mut self, way: Unary, to: Register, from: Register) {
        macro_rules! floats {
            ($function:expr) => {{
                let function: fn(f32) -> f32 = $function;
                self.each(to, from, |bits| float(function(f32::from_bits(bits))))
            }};
        }
        match way {
            Unary::Negate => self.each(to, from, |bits| float(-f32::from_bits(bits))),
            Unary::NegateInt => self.each(to, from, u32::wrapping_neg),
            Unary::Not => self.each(to, from, |bits| bits ^ 1),
            Unary::Complement => self.each(to, from, |bits| !bits),
            Unary::Sin => floats!(f32::sin),
            Unary::Cos => floats!(f32::cos),
            Unary::Tan => floats!(f32::tan),
            Unary::Asin => floats!(f32::asin),
            Unary::Acos => floats!(f32::acos),
            Unary::Atan => floats!(f32::atan),
            Unary::Sinh => floats!(f32::sinh),
            Unary::Cosh => floats!(f32::cosh),
            Unary::Tanh => floats!(f32::tanh),
            Unary::Asinh => floats!(f32::asinh),
            Unary::Acosh => floats!(f32::acosh),
            Unary::Atanh => floats!(f32::atanh),
            Unary::Exp => floats!(f32::exp),
            Unary::Log => floats!(f32::ln),
            Unary::Exp2 => floats!(f32::exp2),
            Unary::Log2 => floats!(f32::log2),
            Unary::Sqrt => self.each(to, from, |bits| float(f32::from_bits(bits).sqrt())),
            Unary::InverseSqrt => {
                self.each(to, from, |bits| float(f32::from_bits(bits).sqrt().recip()))
            }
            Unary::Abs => self.each(to, from, |bits| float(f32::from_bits(bits).abs())),
            Unary::AbsInt => self.each(to, from, |bits| {
                bits.cast_signed().wrapping_abs().cast_unsigned()
            }),
            Unary::Sign => floats!(|number| match number == 0.0 || number.is_nan() {
                true => number,
                false => number.signum(),
            }),
            Unary::SignInt => {
                self.each(to, from, |bits| bits.cast_signed().signum().cast_unsigned())
            }
            Unary::Floor => floats!(f32::floor),
            Unary::Ceil => floats!(f32::ceil),
            Unary::Trunc => floats!(f32::trunc),
            Unary::Round | Unary::RoundEven => floats!(f32::round_ties_even),
            Unary::Fract => floats!(|number| number - number.floor()),
            Unary::IsNan => self.each(to, from, |bits| truth(f32::from_bits(bits).is_nan())),
            Unary::IsInf => self.each(to, from, |bits| truth(f32::from_bits(bits).is_infinite())),
            Unary::IntToFloat => self.each(to, from, |bits| float(bits.cast_signed() as f32)),
            Unary::UintToFloat => self.each(to, from, |bits| float(bits as f32)),
            Unary::FloatToInt => self.each(to, from, |bits| {
                (f32::from_bits(bits) as i32).cast_unsigned()
            }),
            Unary::FloatToUint => self.each(to, from, |bits| f32::from_bits(bits) as u32),
            Unary::FloatToBool => self.each(to, from, |bits| truth(f32::from_bits(bits) != 0.0)),
            Unary::BoolToFloat => self.each(to, from, |bits| float(bits as f32)),
        }
    }

    fn pairs(&mut self, to: Register, from: [Register; 2], of: impl Fn(u32, u32) -> u32) {
        let [left, right] = from.map(|from| self.registers[self.at(from)]);
        let to = self.at(to);
        self.registers[to] = std::array::from_fn(|lane| of(left[lane], right[lane]));
    }

    fn binary(&mut self, way: Binary, to: Register, from: [Register; 2]) {
        macro_rules! floats {
            ($function:expr) => {{
                let function = $function;
                self.pairs(to, from, |left, right| {
                    float(function(f32::from_bits(left), f32::from_bits(right)))
                })
            }};
        }
        macro_rules! ints {
            ($function:expr) => {{
                let function = $function;
                self.pairs(to, from, |left, right| {
                    let whole: i32 = function(left.cast_signed(), right.cast_signed());
                    whole.cast_unsigned()
                })
            }};
        }
        macro_rules! orders {
            ($function:expr) => {{
                let function = $function;
                self.pairs(to, from, |left, right| {
                    truth(function(f32::from_bits(left), f32::from_bits(right)))
                })
            }};
        }
        match way {
            Binary::Add => floats!(|a: f32, b: f32| a + b),
            Binary::Subtract => floats!(|a: f32, b: f32| a - b),
            Binary::Multiply => floats!(|a: f32, b: f32| a * b),
            Binary::Divide => floats!(|a: f32, b: f32| a / b),
            Binary::AddInt => self.pairs(to, from, u32::wrapping_add),
            Binary::SubtractInt => self.pairs(to, from, u32::wrapping_sub),
            Binary::MultiplyInt => self.pairs(to, from, u32::wrapping_mul),
            // GLSL does not say what a division by 0 gives; here it is 0.
            Binary::DivideInt => ints!(|a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_div(b) }),
            Binary::DivideUint => self.pairs(to, from, |a, b| a.checked_div(b).unwrap_or(0)),
            Binary::RemainderInt => {
                ints!(|a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_rem(b) })
            }
            Binary::RemainderUint => self.pairs(to, from, |a, b| a.checked_rem(b).unwrap_or(0)),
            Binary::ShiftLeft => self.pairs(to, from, u32::wrapping_shl),
            Binary::ShiftRightInt => self.pairs(to, from, |a, b| {
                a.cast_signed().wrapping_shr(b).cast_unsigned()
            }),
            Binary::ShiftRightUint => self.pairs(to, from, u32::wrapping_shr),
            Binary::And => self.pairs(to, from, |a, b| a & b),
            Binary::Or => self.pairs(to, from, |a, b| a | b),
            Binary::Xor => self.pairs(to, from, |a, b| a ^ b),
            Binary::Less => orders!(|a: f32, b: f32| a < b),
            Binary::LessInt => {
                self.pairs(to, from, |a, b| truth(a.cast_signed() < b.cast_signed()))
            }
            Binary::LessUint => self.pairs(to, from, |a, b| truth(a < b)),
            Binary::LessEqual => orders!(|a: f32, b: f32| a <= b),
            Binary::LessEqualInt => {
                self.pairs(to, from, |a, b| truth(a.cast_signed() <= b.cast_signed()))
            }
            Binary::LessEqualUint => self.pairs(to, from, |a, b| truth(a <= b)),
            Binary::Equal => orders!(|a: f32, b: f32| a == b),
            Binary::EqualBits => self.pairs(to, from, |a, b| truth(a == b)),
            Binary::Modulo => floats!(|a: f32, b: f32| a - b * (a / b).floor()),
            Binary::Power => floats!(|a: f32, b: f32| if a < 0.0 { f32::NAN } else { a.powf(b) }),
            Binary::Atan2 => floats!(f32::atan2),
            Binary::Min => floats!(f32::min),
            Binary::Max => floats!(f32::max),
            Binary::MinInt => ints!(|a: i32, b: i32| a.min(b)),
            Binary::MaxInt => ints!(|a: i32, b: i32| a.max(b)),
            Binary::MinUint => self.pairs(to, from, u32::min),
            Binary::MaxUint => self.pairs(to, from, u32::max),
        }
    }
}
