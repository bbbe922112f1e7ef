//! Operators between two values.

use super::super::ShaderError;
use super::super::kinds::{BOOL, Base, Type};
use super::super::operation::{Binary, Register};
use super::{Lowering, Value};

impl Lowering {
    pub(super) fn binary(
        &mut self,
        sign: &str,
        left: &Value,
        right: &Value,
        line: u32,
    ) -> Result<Value, ShaderError> {
        let found = match sign {
            "==" => return self.equal(left, right, line),
            "!=" => {
                let equal = self.equal(left, right, line)?;
                return Ok(self.each(super::super::operation::Unary::Not, &equal, BOOL));
            }
            "^^" => (left.kind == BOOL && right.kind == BOOL)
                .then(|| self.spread(Binary::Xor, left, right, BOOL)),
            "<" | ">" | "<=" | ">=" => self.ordered(sign, left, right),
            "<<" | ">>" => self.shifted(sign, left, right),
            "*" if matches!(left.kind, Type::Matrix(_))
                || matches!(right.kind, Type::Matrix(_)) =>
            {
                self.multiplied(left, right)
            }
            _ => self.computed(sign, left, right),
        };
        found.ok_or_else(|| {
            let message = format!(
                "'{sign}' does not work on {} and {}; types are never converted by themselves, write float(…) or the like",
                left.kind, right.kind
            );
            ShaderError::new(line, message)
        })
    }

    /// Component by component; a single one goes with each of the other.
    pub(super) fn spread(&mut self, way: Binary, left: &Value, right: &Value, kind: Type) -> Value {
        let size = left.registers.len().max(right.registers.len());
        let at = |value: &Value, at: usize| -> Register {
            value.registers[if value.registers.len() == 1 { 0 } else { at }]
        };
        let registers = (0..size).map(|place| self.both(way, at(left, place), at(right, place)));
        let registers = registers.collect();
        Value::new(kind, registers)
    }

    /// The type of an operation on components: that of both, or of the one that is no single number.
    pub(super) fn common(left: &Value, right: &Value) -> Option<Type> {
        let same_base = left.kind.base()? == right.kind.base()?;
        let kind = match (&left.kind, &right.kind) {
            (one, other) if one == other => one,
            (_, other) if left.kind.is_scalar() => other,
            (one, _) if right.kind.is_scalar() => one,
            _ => return None,
        };
        same_base.then(|| kind.clone())
    }

    fn computed(&mut self, sign: &str, left: &Value, right: &Value) -> Option<Value> {
        let kind = Self::common(left, right)?;
        let way = match (sign, kind.base()?) {
            ("+", Base::Float) => Binary::Add,
            ("-", Base::Float) => Binary::Subtract,
            ("*", Base::Float) => Binary::Multiply,
            ("/", Base::Float) => Binary::Divide,
            ("+", Base::Int | Base::Uint) => Binary::AddInt,
            ("-", Base::Int | Base::Uint) => Binary::SubtractInt,
            ("*", Base::Int | Base::Uint) => Binary::MultiplyInt,
            ("/", Base::Int) => Binary::DivideInt,
            ("/", Base::Uint) => Binary::DivideUint,
            ("%", Base::Int) => Binary::RemainderInt,
            ("%", Base::Uint) => Binary::RemainderUint,
            ("&", Base::Int | Base::Uint) => Binary::And,
            ("|", Base::Int | Base::Uint) => Binary::Or,
            ("^", Base::Int | Base::Uint) => Binary::Xor,
            _ => return None,
        };
        Some(self.spread(way, left, right, kind))
    }

    fn shifted(&mut self, sign: &str, left: &Value, right: &Value) -> Option<Value> {
        let is_fit = right.kind.is_scalar() || left.registers.len() == right.registers.len();
        let way = match (sign, left.kind.base()?, right.kind.base()?) {
            _ if !is_fit => return None,
            ("<<", Base::Int | Base::Uint, Base::Int | Base::Uint) => Binary::ShiftLeft,
            (_, Base::Int, Base::Int | Base::Uint) => Binary::ShiftRightInt,
            (_, Base::Uint, Base::Int | Base::Uint) => Binary::ShiftRightUint,
            _ => return None,
        };
        Some(self.spread(way, left, right, left.kind.clone()))
    }

    fn ordered(&mut self, sign: &str, left: &Value, right: &Value) -> Option<Value> {
        let is_fit = left.kind == right.kind && left.kind.is_scalar();
        is_fit.then(|| self.compared(sign, left, right)).flatten()
    }

    /// Component by component, one truth for each.
    pub(super) fn compared(&mut self, sign: &str, left: &Value, right: &Value) -> Option<Value> {
        let base = left.kind.base()?;
        let is_strict = matches!(sign, "<" | ">");
        let way = match (is_strict, base) {
            (true, Base::Float) => Binary::Less,
            (true, Base::Int) => Binary::LessInt,
            (true, Base::Uint) => Binary::LessUint,
            (false, Base::Float) => Binary::LessEqual,
            (false, Base::Int) => Binary::LessEqualInt,
            (false, Base::Uint) => Binary::LessEqualUint,
            (_, Base::Bool) => return None,
        };
        let kind = Type::Vector(Base::Bool, left.registers.len());
        Some(match sign.starts_with('<') {
            true => self.spread(way, left, right, kind),
            false => self.spread(way, right, left, kind),
        })
    }

    fn equal(&mut self, left: &Value, right: &Value, line: u32) -> Result<Value, ShaderError> {
        if left.kind != right.kind || left.kind.size() == 0 {
            let message = format!("{} and {} cannot be compared", left.kind, right.kind);
            return Err(ShaderError::new(line, message));
        }
        let mut bases = Vec::new();
        bases_of(&left.kind, &mut bases);
        let mut all = None;
        for (at, base) in bases.into_iter().enumerate() {
            let truth = self.both(equal_way(base), left.registers[at], right.registers[at]);
            all = Some(match all {
                None => truth,
                Some(before) => self.both(Binary::And, before, truth),
            });
        }
        Ok(Value::new(BOOL, all.into_iter().collect()))
    }
}

pub(super) fn equal_way(base: Base) -> Binary {
    match base {
        Base::Float => Binary::Equal,
        Base::Int | Base::Uint | Base::Bool => Binary::EqualBits,
    }
}

/// What every component of a type is.
fn bases_of(kind: &Type, into: &mut Vec<Base>) {
    match kind {
        Type::Void | Type::Sampler => {}
        Type::Vector(base, size) => into.extend(std::iter::repeat_n(*base, *size)),
        Type::Matrix(size) => into.extend(std::iter::repeat_n(Base::Float, size * size)),
        Type::Array(of, length) => (0..*length).for_each(|_| bases_of(of, into)),
        Type::Struct(of) => of.fields.iter().for_each(|(_, kind)| bases_of(kind, into)),
    }
}
