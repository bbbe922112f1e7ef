//! Expressions.

use super::super::ShaderError;
use super::super::kinds::{BOOL, Base, FLOAT, INT, Type};
use super::super::operation::{self, Operation, Register, Unary};
use super::super::syntax::{Expression, Form};
use super::{Lowering, Value};

impl Lowering {
    pub(super) fn value(&mut self, expression: &Expression) -> Result<Value, ShaderError> {
        self.line = expression.line;
        let value = self.deeper(|lowering| lowering.inner(expression))?;
        self.spend(value.registers.len(), expression.line)?;
        Ok(value)
    }

    fn inner(&mut self, expression: &Expression) -> Result<Value, ShaderError> {
        let line = expression.line;
        self.check(line)?;
        let known = |kind, register| Ok(Value::new(kind, vec![register]));
        match &expression.form {
            Form::Float(number) => known(FLOAT, self.float(*number)),
            Form::Int(number) => known(INT, self.constant(number.cast_unsigned())),
            Form::Uint(number) => known(Type::Vector(Base::Uint, 1), self.constant(*number)),
            Form::Bool(truth) => known(BOOL, self.constant(u32::from(*truth))),
            Form::Name(name) => {
                self.spend(self.look_up(), line)?;
                let variable = self.find(name);
                let variable = variable
                    .ok_or_else(|| ShaderError::new(line, format!("'{name}' is not declared")))?;
                Ok(variable.value.clone())
            }
            Form::Index(..) | Form::Field(..) => self.part(expression),
            Form::Call(name, arguments) => self.call(name, arguments, line),
            Form::Array(kind, arguments) => self.array(kind, arguments),
            Form::Unary(sign, inner) => {
                let inner = self.value(inner)?;
                self.unary(sign, inner, line)
            }
            Form::Step(sign, is_before, inner) => {
                let place = self.target(inner)?;
                let old = self.read(&place);
                let one = match old.kind.base() {
                    Some(Base::Float) => Value::new(FLOAT, vec![self.float(1.0)]),
                    Some(base) => Value::new(Type::Vector(base, 1), vec![self.constant(1)]),
                    None => {
                        return Err(ShaderError::new(
                            line,
                            format!("{} cannot be counted", old.kind),
                        ));
                    }
                };
                let kept = Value::new(old.kind.clone(), self.kept(&old.registers));
                let new = self.binary(&sign[..1], &old, &one, line)?;
                self.write(&place, &new, line)?;
                Ok(if *is_before { new } else { kept })
            }
            Form::Binary(sign @ ("&&" | "||"), left, right) => self.shortcut(sign, left, right),
            Form::Binary(sign, left, right) => {
                let values = self.values(&[left, right])?;
                self.binary(sign, &values[0], &values[1], line)
            }
            Form::Assign(operator, left, right) => {
                let place = self.target(left)?;
                let mut value = self.value(right)?;
                if let Some(sign) = operator {
                    let old = self.read(&place);
                    value = self.binary(sign, &old, &value, line)?;
                }
                self.write(&place, &value, line)?;
                Ok(self.read(&place))
            }
            Form::Select(parts) => {
                let [condition, chosen, other] = &**parts;
                self.select(condition, chosen, other, line)
            }
            Form::Comma(left, right) => {
                self.value(left)?;
                self.value(right)
            }
        }
    }

    /// Values in order; one that a later one changes is kept as it was.
    pub(super) fn values(
        &mut self,
        expressions: &[&Expression],
    ) -> Result<Vec<Value>, ShaderError> {
        let mut values: Vec<Value> = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let (value, operations) = self.apart(|lowering| lowering.value(expression))?;
            if operations.iter().any(|operation| !operation.is_pure()) {
                for value in &mut values {
                    value.registers = self.kept(&value.registers);
                    self.check(expression.line)?;
                }
            }
            self.frame.operations.extend(operations);
            values.push(value);
        }
        Ok(values)
    }

    /// The register of a condition.
    pub(super) fn condition(&mut self, expression: &Expression) -> Result<Register, ShaderError> {
        let value = self.value(expression)?;
        match value.kind == BOOL {
            true => Ok(value.registers[0]),
            false => {
                let message = format!("a condition must be bool, and this is {}", value.kind);
                Err(ShaderError::new(expression.line, message))
            }
        }
    }

    fn shortcut(
        &mut self,
        sign: &str,
        left: &Expression,
        right: &Expression,
    ) -> Result<Value, ShaderError> {
        let left = self.condition(left)?;
        let (right, operations) = self.apart(|lowering| lowering.condition(right))?;
        let is_and = sign == "&&";
        if operations.iter().all(Operation::is_pure) {
            self.frame.operations.extend(operations);
            let way = if is_and {
                operation::Binary::And
            } else {
                operation::Binary::Or
            };
            let truth = self.both(way, left, right);
            return Ok(Value::new(BOOL, vec![truth]));
        }
        let truth = self.kept(&[left]);
        let mut chosen = operations;
        chosen.push(Operation::Copy {
            to: truth[0],
            from: right,
        });
        let (chosen, other) = if is_and {
            (chosen, Vec::new())
        } else {
            (Vec::new(), chosen)
        };
        self.emit(Operation::If {
            condition: truth[0],
            chosen,
            other,
        });
        Ok(Value::new(BOOL, truth))
    }

    fn select(
        &mut self,
        condition: &Expression,
        chosen: &Expression,
        other: &Expression,
        line: u32,
    ) -> Result<Value, ShaderError> {
        let condition = self.condition(condition)?;
        let (first, chosen) = self.apart(|lowering| lowering.value(chosen))?;
        let (second, other) = self.apart(|lowering| lowering.value(other))?;
        if first.kind != second.kind || first.kind.size() == 0 {
            let message = format!(
                "one side of '?' is {}, and the other is {}",
                first.kind, second.kind
            );
            return Err(ShaderError::new(line, message));
        }
        let to = self.temporaries(first.kind.size());
        let pairs = first.registers.into_iter().zip(second.registers);
        if chosen.iter().chain(&other).all(Operation::is_pure) {
            self.frame.operations.extend(chosen);
            self.frame.operations.extend(other);
            for (to, (first, second)) in to.iter().copied().zip(pairs) {
                self.emit(Operation::Select {
                    to,
                    from: [condition, first, second],
                });
            }
        } else {
            self.emitted += 2 * to.len();
            self.check(line)?;
            let (mut chosen, mut other) = (chosen, other);
            for (to, (first, second)) in to.iter().copied().zip(pairs) {
                chosen.push(Operation::Copy { to, from: first });
                other.push(Operation::Copy { to, from: second });
            }
            self.emit(Operation::If {
                condition,
                chosen,
                other,
            });
        }
        Ok(Value::new(first.kind, to))
    }

    fn unary(&mut self, sign: &str, value: Value, line: u32) -> Result<Value, ShaderError> {
        let way = match (sign, value.kind.base()) {
            ("+", Some(Base::Float | Base::Int | Base::Uint)) => return Ok(value),
            ("-", Some(Base::Float)) => Unary::Negate,
            ("-", Some(Base::Int | Base::Uint)) => Unary::NegateInt,
            ("~", Some(Base::Int | Base::Uint)) => Unary::Complement,
            ("!", Some(Base::Bool)) if value.kind.is_scalar() => Unary::Not,
            _ => {
                let message = format!("'{sign}' does not work on {}", value.kind);
                return Err(ShaderError::new(line, message));
            }
        };
        Ok(self.each(way, &value, value.kind.clone()))
    }

    /// An operation on every component.
    pub(super) fn each(&mut self, way: Unary, value: &Value, kind: Type) -> Value {
        let registers = value.registers.iter().map(|from| self.single(way, *from));
        let registers = registers.collect();
        Value::new(kind, registers)
    }

    pub(super) fn single(&mut self, way: Unary, from: Register) -> Register {
        let to = self.temporary();
        self.emit(Operation::Unary { way, to, from });
        to
    }

    pub(super) fn both(
        &mut self,
        way: operation::Binary,
        left: Register,
        right: Register,
    ) -> Register {
        let to = self.temporary();
        self.emit(Operation::Binary {
            way,
            to,
            from: [left, right],
        });
        to
    }
}
