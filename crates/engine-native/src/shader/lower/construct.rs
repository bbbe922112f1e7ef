//! Values that are made of others: `vec3(…)`, `float[](…)`, `int(…)`.

use super::super::ShaderError;
use super::super::kinds::{Base, Type};
use super::super::operation::{Binary, Register, Unary};
use super::super::syntax::{Expression, Spelled};
use super::{Lowering, Value, kinds_of};

impl Lowering {
    /// A value of a type, made of arguments.
    pub(super) fn made(
        &mut self,
        kind: &Type,
        arguments: &[Value],
        line: u32,
    ) -> Result<Value, ShaderError> {
        let made = match kind {
            Type::Struct(of) => {
                let kinds = of.fields.iter().map(|(_, kind)| kind);
                kinds
                    .eq(arguments.iter().map(|value| &value.kind))
                    .then(|| {
                        arguments
                            .iter()
                            .flat_map(|value| value.registers.iter().copied())
                            .collect()
                    })
            }
            Type::Vector(base, size) => self.vector(*base, *size, arguments),
            Type::Matrix(size) => self.matrix(*size, arguments),
            Type::Void | Type::Sampler | Type::Array(..) => None,
        };
        let registers = made.ok_or_else(|| {
            let message = format!("{kind} cannot be made of ({})", kinds_of(arguments));
            ShaderError::new(line, message)
        })?;
        Ok(Value::new(kind.clone(), registers))
    }

    fn vector(&mut self, base: Base, size: usize, arguments: &[Value]) -> Option<Vec<Register>> {
        let mut parts = Vec::new();
        for argument in arguments {
            // An argument of which nothing is needed is a mistake.
            if parts.len() >= size {
                return None;
            }
            let from = argument.kind.base()?;
            for register in argument.registers.iter().copied() {
                parts.push(self.converted(from, base, register));
            }
        }
        match (arguments, parts.len()) {
            ([_], 1) => Some(vec![parts[0]; size]),
            (_, found) if found >= size => {
                parts.truncate(size);
                Some(parts)
            }
            _ => None,
        }
    }

    fn matrix(&mut self, size: usize, arguments: &[Value]) -> Option<Vec<Register>> {
        let (zero, one) = (self.float(0.0), self.float(1.0));
        if let [argument] = arguments {
            if let Type::Matrix(other) = argument.kind {
                let cell = |at: usize| {
                    let (column, row) = (at / size, at % size);
                    match column < other && row < other {
                        true => argument.registers[column * other + row],
                        false if column == row => one,
                        false => zero,
                    }
                };
                return Some((0..size * size).map(cell).collect());
            }
            if argument.kind.is_scalar() {
                let number =
                    self.converted(argument.kind.base()?, Base::Float, argument.registers[0]);
                let cell = |at: usize| if at / size == at % size { number } else { zero };
                return Some((0..size * size).map(cell).collect());
            }
        }
        if arguments
            .iter()
            .any(|argument| matches!(argument.kind, Type::Matrix(_)))
        {
            return None;
        }
        let count: usize = arguments
            .iter()
            .map(|argument| argument.registers.len())
            .sum();
        (count == size * size)
            .then(|| self.vector(Base::Float, count, arguments))
            .flatten()
    }

    fn converted(&mut self, from: Base, to: Base, register: Register) -> Register {
        let way = match (from, to) {
            (Base::Float, Base::Float)
            | (Base::Bool, Base::Bool | Base::Int | Base::Uint)
            | (Base::Int | Base::Uint, Base::Int | Base::Uint) => return register,
            (Base::Float, Base::Int) => Unary::FloatToInt,
            (Base::Float, Base::Uint) => Unary::FloatToUint,
            (Base::Float, Base::Bool) => Unary::FloatToBool,
            (Base::Int, Base::Float) => Unary::IntToFloat,
            (Base::Uint, Base::Float) => Unary::UintToFloat,
            (Base::Bool, Base::Float) => Unary::BoolToFloat,
            (Base::Int | Base::Uint, Base::Bool) => {
                let zero = self.constant(0);
                let is_zero = self.both(Binary::EqualBits, register, zero);
                return self.single(Unary::Not, is_zero);
            }
        };
        self.single(way, register)
    }

    pub(super) fn array(
        &mut self,
        kind: &Spelled,
        arguments: &[Expression],
    ) -> Result<Value, ShaderError> {
        let kind = self.kind(kind, Some(arguments.len()))?;
        let expressions: Vec<&Expression> = arguments.iter().collect();
        let values = self.values(&expressions)?;
        let line = arguments.first().map_or(1, |argument| argument.line);
        let is_fit = kind.element().is_some_and(|(element, length)| {
            length == values.len() && values.iter().all(|value| value.kind == element)
        });
        if !is_fit {
            let message = format!("{kind} cannot be made of these {} values", values.len());
            return Err(ShaderError::new(line, message));
        }
        let registers = values.into_iter().flat_map(|value| value.registers);
        Ok(Value::new(kind, registers.collect()))
    }
}
