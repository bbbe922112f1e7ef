//! The functions of the language.

use super::super::ShaderError;
use super::super::kinds::{BOOL, Base, FLOAT, INT, Type};
use super::super::operation::{Binary, Operation, Unary};
use super::arithmetic::equal_way;
use super::{Lowering, Value};

/// Functions of one float, or of each of several.
const UNARY: [(&str, Unary); 27] = [
    ("sin", Unary::Sin),
    ("cos", Unary::Cos),
    ("tan", Unary::Tan),
    ("asin", Unary::Asin),
    ("acos", Unary::Acos),
    ("atan", Unary::Atan),
    ("sinh", Unary::Sinh),
    ("cosh", Unary::Cosh),
    ("tanh", Unary::Tanh),
    ("asinh", Unary::Asinh),
    ("acosh", Unary::Acosh),
    ("atanh", Unary::Atanh),
    ("exp", Unary::Exp),
    ("log", Unary::Log),
    ("exp2", Unary::Exp2),
    ("log2", Unary::Log2),
    ("sqrt", Unary::Sqrt),
    ("inversesqrt", Unary::InverseSqrt),
    ("abs", Unary::Abs),
    ("sign", Unary::Sign),
    ("floor", Unary::Floor),
    ("ceil", Unary::Ceil),
    ("trunc", Unary::Trunc),
    ("round", Unary::Round),
    ("roundEven", Unary::RoundEven),
    ("fract", Unary::Fract),
    ("not", Unary::Not),
];

impl Lowering {
    /// A function of the language; `None` if these arguments are none of its own.
    pub(super) fn builtin(
        &mut self,
        name: &str,
        arguments: &[Value],
        line: u32,
    ) -> Result<Option<Value>, ShaderError> {
        if let [of] = arguments
            && let Some(value) = self.of_one(name, of)
        {
            return Ok(Some(value));
        }
        if let Some(value) = self.of_texture(name, arguments) {
            return Ok(Some(value));
        }
        if let Some(value) = self.of_matrix(name, arguments) {
            return Ok(Some(value));
        }
        if let Some(value) = self.of_truths(name, arguments) {
            return Ok(Some(value));
        }
        if let Some(value) = self.of_pair(name, arguments) {
            return Ok(Some(value));
        }
        let floats = arguments
            .iter()
            .all(|value| matches!(value.kind, Type::Vector(Base::Float, _)));
        match floats {
            true => self.of_floats(name, arguments, line),
            false => Ok(self.clamped(name, arguments)),
        }
    }

    fn of_one(&mut self, name: &str, of: &Value) -> Option<Value> {
        let Type::Vector(base, size) = of.kind else {
            return None;
        };
        let with = |base| Type::Vector(base, size);
        let relabeled = |base| Some(Value::new(Type::Vector(base, size), of.registers.clone()));
        let found = UNARY.into_iter().find(|(known, _)| *known == name);
        if let Some((_, way)) = found {
            let way = match (way, base) {
                (Unary::Not, Base::Bool) => Unary::Not,
                (Unary::Not, _) => return None,
                (Unary::Abs, Base::Int) => Unary::AbsInt,
                (Unary::Sign, Base::Int) => Unary::SignInt,
                (way, Base::Float) => way,
                (_, Base::Int | Base::Uint | Base::Bool) => return None,
            };
            return Some(self.each(way, of, of.kind.clone()));
        }
        match (name, base) {
            ("isnan", Base::Float) => Some(self.each(Unary::IsNan, of, with(Base::Bool))),
            ("isinf", Base::Float) => Some(self.each(Unary::IsInf, of, with(Base::Bool))),
            ("floatBitsToInt", Base::Float) => relabeled(Base::Int),
            ("floatBitsToUint", Base::Float) => relabeled(Base::Uint),
            ("intBitsToFloat", Base::Int) | ("uintBitsToFloat", Base::Uint) => {
                relabeled(Base::Float)
            }
            ("radians" | "degrees", Base::Float) => {
                let factor = std::f32::consts::PI / 180.0;
                let factor = if name == "radians" {
                    factor
                } else {
                    factor.recip()
                };
                let factor = Value::new(FLOAT, vec![self.float(factor)]);
                Some(self.spread(Binary::Multiply, of, &factor, of.kind.clone()))
            }
            ("length", Base::Float) => Some(self.length(of)),
            ("normalize", Base::Float) => {
                let length = self.length(of);
                Some(self.spread(Binary::Divide, of, &length, of.kind.clone()))
            }
            ("any" | "all", Base::Bool) => {
                let way = if name == "any" {
                    Binary::Or
                } else {
                    Binary::And
                };
                let mut registers = of.registers.iter().copied();
                let mut truth = registers.next()?;
                for register in registers {
                    truth = self.both(way, truth, register);
                }
                Some(Value::new(BOOL, vec![truth]))
            }
            ("dFdx" | "dFdy", Base::Float) => Some(self.slope(of, name == "dFdx")),
            ("fwidth", Base::Float) => {
                let slopes = [true, false].map(|is_across| {
                    let slope = self.slope(of, is_across);
                    self.each(Unary::Abs, &slope, of.kind.clone())
                });
                Some(self.spread(Binary::Add, &slopes[0], &slopes[1], of.kind.clone()))
            }
            _ => None,
        }
    }

    fn slope(&mut self, of: &Value, is_across: bool) -> Value {
        let registers = of.registers.iter().map(|from| {
            let (to, from) = (self.temporary(), *from);
            self.emit(Operation::Slope {
                to,
                from,
                is_across,
            });
            to
        });
        let registers = registers.collect();
        Value::new(of.kind.clone(), registers)
    }

    fn dot(&mut self, left: &Value, right: &Value) -> Value {
        let pairs = left
            .registers
            .iter()
            .copied()
            .zip(right.registers.iter().copied());
        let sum = self.summed(pairs.collect());
        Value::new(FLOAT, vec![sum])
    }

    fn length(&mut self, of: &Value) -> Value {
        let square = self.dot(of, of);
        self.each(Unary::Sqrt, &square, FLOAT)
    }

    fn of_texture(&mut self, name: &str, arguments: &[Value]) -> Option<Value> {
        let [sampler, rest @ ..] = arguments else {
            return None;
        };
        let texture = sampler.sampler?;
        let to = [(); 4].map(|()| self.temporary());
        let color = Value::new(Type::Vector(Base::Float, 4), to.to_vec());
        let kinds: Vec<Type> = rest.iter().map(|value| value.kind.clone()).collect();
        let point = &Type::Vector(Base::Float, 2);
        let texel = &Type::Vector(Base::Int, 2);
        match (name, &kinds[..]) {
            // There is one level of each texture, whatever is asked for.
            ("texture", [kind] | [kind, FLOAT]) | ("textureLod", [kind, FLOAT])
                if kind == point =>
            {
                let at = [rest[0].registers[0], rest[0].registers[1]];
                self.emit(Operation::Sample { to, texture, at });
                Some(color)
            }
            ("textureOffset", [kind, offset] | [kind, offset, FLOAT])
            | ("textureLodOffset", [kind, FLOAT, offset])
                if kind == point && offset == texel =>
            {
                let offset = &rest[if name == "textureOffset" { 1 } else { 2 }];
                let size = self.size(texture);
                let [size, offset] =
                    [&size, offset].map(|value| self.each(Unary::IntToFloat, value, point.clone()));
                let offset = self.spread(Binary::Divide, &offset, &size, point.clone());
                let at = self.spread(Binary::Add, &rest[0], &offset, point.clone());
                let at = [at.registers[0], at.registers[1]];
                self.emit(Operation::Sample { to, texture, at });
                Some(color)
            }
            ("texelFetch", [kind, INT]) if kind == texel => {
                let at = [rest[0].registers[0], rest[0].registers[1]];
                self.emit(Operation::Fetch { to, texture, at });
                Some(color)
            }
            ("textureSize", [INT]) => Some(self.size(texture)),
            _ => None,
        }
    }

    fn size(&mut self, texture: usize) -> Value {
        let to = [(); 2].map(|()| self.temporary());
        self.emit(Operation::Size { to, texture });
        Value::new(Type::Vector(Base::Int, 2), to.to_vec())
    }

    fn of_truths(&mut self, name: &str, arguments: &[Value]) -> Option<Value> {
        let [left, right] = arguments else {
            return None;
        };
        let Type::Vector(base, size) = left.kind else {
            return None;
        };
        if left.kind != right.kind || size < 2 {
            return None;
        }
        let kind = Type::Vector(Base::Bool, size);
        match name {
            "lessThan" => self.compared("<", left, right),
            "lessThanEqual" => self.compared("<=", left, right),
            "greaterThan" => self.compared(">", left, right),
            "greaterThanEqual" => self.compared(">=", left, right),
            "equal" => Some(self.spread(equal_way(base), left, right, kind)),
            "notEqual" => {
                let equal = self.spread(equal_way(base), left, right, kind.clone());
                Some(self.each(Unary::Not, &equal, kind))
            }
            _ => None,
        }
    }

    /// `min` and `max` of numbers of each kind.
    fn of_pair(&mut self, name: &str, arguments: &[Value]) -> Option<Value> {
        let [left, right] = arguments else {
            return None;
        };
        // The second one alone may be a single number.
        let is_fit = left.kind == right.kind || right.kind.is_scalar();
        let way = match (name, left.kind.base()?) {
            _ if !is_fit => return None,
            ("min", Base::Float) => Binary::Min,
            ("max", Base::Float) => Binary::Max,
            ("min", Base::Int) => Binary::MinInt,
            ("max", Base::Int) => Binary::MaxInt,
            ("min", Base::Uint) => Binary::MinUint,
            ("max", Base::Uint) => Binary::MaxUint,
            ("mod", Base::Float) => Binary::Modulo,
            ("pow", Base::Float) if left.kind == right.kind => Binary::Power,
            ("atan", Base::Float) if left.kind == right.kind => Binary::Atan2,
            _ => return None,
        };
        let kind = Self::common(left, right)?;
        Some(self.spread(way, left, right, kind))
    }

    /// `clamp` of whole numbers, and `mix` by truths.
    fn clamped(&mut self, name: &str, arguments: &[Value]) -> Option<Value> {
        let [value, low, high] = arguments else {
            return None;
        };
        match name {
            "clamp" => {
                let raised = self.of_pair("max", &[value.clone(), low.clone()])?;
                self.of_pair("min", &[raised, high.clone()])
            }
            "mix" => {
                let size = value.registers.len();
                let is_fit = value.kind == low.kind && high.kind == Type::Vector(Base::Bool, size);
                let places = (0..size).map(|at| {
                    let to = self.temporary();
                    let from = [high.registers[at], low.registers[at], value.registers[at]];
                    self.emit(Operation::Select { to, from });
                    to
                });
                is_fit.then(|| Value::new(value.kind.clone(), places.collect()))
            }
            _ => None,
        }
    }

    fn of_floats(
        &mut self,
        name: &str,
        arguments: &[Value],
        line: u32,
    ) -> Result<Option<Value>, ShaderError> {
        let one = Value::new(FLOAT, vec![self.float(1.0)]);
        let same = |of: &[&Value]| of.iter().all(|value| value.kind == of[0].kind);
        let [first, rest @ ..] = arguments else {
            return Ok(None);
        };
        let value = match (name, rest) {
            ("dot", [second]) if same(&[first, second]) => self.dot(first, second),
            ("distance", [second]) if same(&[first, second]) => {
                let between = self.binary("-", first, second, line)?;
                self.length(&between)
            }
            ("cross", [second]) if same(&[first, second]) && first.registers.len() == 3 => {
                let turned = |of: &Value, by: usize| {
                    let registers = (0..3).map(|at| of.registers[(at + by) % 3]);
                    Value::new(of.kind.clone(), registers.collect())
                };
                let plus = self.binary("*", &turned(first, 1), &turned(second, 2), line)?;
                let minus = self.binary("*", &turned(first, 2), &turned(second, 1), line)?;
                self.binary("-", &plus, &minus, line)?
            }
            ("reflect", [normal]) if same(&[first, normal]) => {
                let dot = self.dot(normal, first);
                let twice = self.binary("+", &dot, &dot, line)?;
                let part = self.binary("*", &twice, normal, line)?;
                self.binary("-", first, &part, line)?
            }
            ("refract", [normal, ratio]) if same(&[first, normal]) && ratio.kind == FLOAT => {
                self.refracted(first, normal, ratio, line)?
            }
            ("faceforward", [incident, reference]) if same(&[first, incident, reference]) => {
                let zero = Value::new(FLOAT, vec![self.float(0.0)]);
                let dot = self.dot(reference, incident);
                let truth = self.binary("<", &dot, &zero, line)?;
                let turned = self.each(Unary::Negate, first, first.kind.clone());
                self.chosen(&truth, first, &turned)
            }
            ("clamp", [low, high]) if same(&[low, high]) => {
                return Ok(self.clamped("clamp", &[first.clone(), low.clone(), high.clone()]));
            }
            ("mix", [second, share])
                if same(&[first, second]) && (share.kind == FLOAT || same(&[first, share])) =>
            {
                let between = self.binary("-", second, first, line)?;
                let part = self.binary("*", share, &between, line)?;
                self.binary("+", first, &part, line)?
            }
            ("step", [value]) if first.kind == FLOAT || same(&[first, value]) => {
                let kind = Type::Vector(Base::Bool, value.registers.len());
                let is_below = self.spread(Binary::Less, value, first, kind);
                let is_above = self.each(Unary::Not, &is_below, is_below.kind.clone());
                self.each(Unary::BoolToFloat, &is_above, value.kind.clone())
            }
            ("smoothstep", [high, value])
                if same(&[first, high]) && (first.kind == FLOAT || same(&[first, value])) =>
            {
                let above = self.binary("-", value, first, line)?;
                let range = self.binary("-", high, first, line)?;
                let share = self.binary("/", &above, &range, line)?;
                let zero = Value::new(FLOAT, vec![self.float(0.0)]);
                let Some(share) = self.clamped("clamp", &[share, zero, one]) else {
                    return Ok(None);
                };
                let [two, three] =
                    [2.0, 3.0].map(|number| Value::new(FLOAT, vec![self.float(number)]));
                let twice = self.binary("*", &two, &share, line)?;
                let rest = self.binary("-", &three, &twice, line)?;
                let square = self.binary("*", &share, &share, line)?;
                self.binary("*", &square, &rest, line)?
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    /// By one truth, the first or the second.
    fn chosen(&mut self, truth: &Value, otherwise: &Value, where_true: &Value) -> Value {
        let pairs = where_true
            .registers
            .iter()
            .copied()
            .zip(otherwise.registers.iter().copied());
        let places = pairs.map(|(chosen, other)| {
            let to = self.temporary();
            self.emit(Operation::Select {
                to,
                from: [truth.registers[0], chosen, other],
            });
            to
        });
        let places = places.collect();
        Value::new(otherwise.kind.clone(), places)
    }

    fn refracted(
        &mut self,
        incident: &Value,
        normal: &Value,
        ratio: &Value,
        line: u32,
    ) -> Result<Value, ShaderError> {
        let [zero, one] = [0.0, 1.0].map(|number| Value::new(FLOAT, vec![self.float(number)]));
        let dot = self.dot(normal, incident);
        let square = self.binary("*", &dot, &dot, line)?;
        let rest = self.binary("-", &one, &square, line)?;
        let ratios = self.binary("*", ratio, ratio, line)?;
        let part = self.binary("*", &ratios, &rest, line)?;
        let k = self.binary("-", &one, &part, line)?;
        let is_total = self.binary("<", &k, &zero, line)?;
        let root = self.each(Unary::Sqrt, &k, FLOAT);
        let along = self.binary("*", ratio, &dot, line)?;
        let factor = self.binary("+", &along, &root, line)?;
        let straight = self.binary("*", ratio, incident, line)?;
        let bent = self.binary("*", &factor, normal, line)?;
        let refracted = self.binary("-", &straight, &bent, line)?;
        let nothing = Value::new(
            refracted.kind.clone(),
            vec![zero.registers[0]; refracted.registers.len()],
        );
        Ok(self.chosen(&is_total, &refracted, &nothing))
    }
}
