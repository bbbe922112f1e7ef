//! Statements.

use std::collections::HashMap;

use super::super::ShaderError;
use super::super::kinds::{BOOL, Base, Type};
use super::super::operation::{Binary, Loop, Operation};
use super::super::syntax::{Case, Condition, Declared, Expression, Looped, Statement};
use super::{Lowering, Value};

impl Lowering {
    /// Statements in a scope of their own.
    pub(super) fn statements(
        &mut self,
        statements: &[Statement],
        result: &Type,
    ) -> Result<(), ShaderError> {
        let first = self.frame.next;
        self.frame.scopes.push(HashMap::new());
        let lowered = self.deeper(|lowering| {
            let mut statements = statements.iter();
            statements.try_for_each(|statement| lowering.statement(statement, result))
        });
        self.frame.scopes.pop();
        self.release(first);
        lowered
    }

    fn statement(&mut self, statement: &Statement, result: &Type) -> Result<(), ShaderError> {
        let first = self.frame.next;
        self.check(self.line)?;
        match statement {
            Statement::Declare(all) => all.iter().try_for_each(|declared| self.declare(declared)),
            Statement::Evaluate(expression) => {
                self.value(expression)?;
                self.release(first);
                Ok(())
            }
            Statement::Block(statements) => self.statements(statements, result),
            Statement::If(condition, chosen, other) => {
                let line = condition.line;
                let condition = self.condition(condition)?;
                let inner = |lowering: &mut Self, statement: &Statement| {
                    let one = std::slice::from_ref(statement);
                    lowering.apart(|lowering| lowering.statements(one, result))
                };
                let ((), chosen) = inner(self, chosen)?;
                let other = match other {
                    Some(other) => inner(self, other)?.1,
                    None => Vec::new(),
                };
                self.emit(Operation::If {
                    condition,
                    chosen,
                    other,
                });
                self.release(first);
                self.check(line)
            }
            Statement::Loop(looped) => {
                self.frame.scopes.push(HashMap::new());
                let lowered = self.looped(looped, result);
                self.frame.scopes.pop();
                self.release(first);
                lowered
            }
            Statement::Switch(value, cases) => {
                let lowered = self.switch(value, cases, result);
                self.release(first);
                lowered
            }
            Statement::Return(line, value) => self.leave(*line, value.as_ref(), result),
            Statement::Leave(line, word) => {
                let (operation, is_known) = match *word {
                    "break" => (Operation::Break, self.frame.breaks > 0),
                    "continue" => (Operation::Continue, self.frame.loops > 0),
                    _ => (Operation::Discard, true),
                };
                if !is_known {
                    return Err(ShaderError::new(
                        *line,
                        format!("there is nothing around this '{word}' that it belongs to"),
                    ));
                }
                self.emit(operation);
                Ok(())
            }
        }
    }

    fn declare(&mut self, declared: &Declared) -> Result<(), ShaderError> {
        let line = declared.kind.line;
        // Where the type says its length, its registers come first, so that those of its value are free again behind it.
        let is_open = matches!(declared.kind.length, Some(None));
        let early = match is_open {
            true => None,
            false => {
                let kind = self.declared_kind(declared, None)?;
                let registers = self.temporaries(kind.size());
                Some(Value::new(kind, registers))
            }
        };
        let first = self.frame.next;
        let given = declared
            .value
            .as_ref()
            .map(|value| self.value(value))
            .transpose()?;
        let kind = self.declared_kind(declared, given.as_ref())?;
        let value = match early {
            Some(value) => value,
            None => {
                let registers = self.temporaries(kind.size());
                Value::new(kind, registers)
            }
        };
        match &given {
            Some(given) => self.copy(&value.registers, &given.registers),
            None => {
                let zero = self.constant(0);
                let zeros = vec![zero; value.registers.len()];
                self.copy(&value.registers, &zeros);
            }
        }
        if !is_open {
            self.release(first);
        }
        self.remember(declared, value, false)?;
        self.check(line)
    }

    fn looped(&mut self, looped: &Looped, result: &Type) -> Result<(), ShaderError> {
        if let Some(first) = &looped.first {
            self.statement(first, result)?;
        }
        self.frame.breaks += 1;
        self.frame.loops += 1;
        let (goes_on, condition) = self.apart(|lowering| match &looped.condition {
            None => Ok(None),
            Some(Condition::Is(expression)) => lowering.condition(expression).map(Some),
            Some(Condition::Declares(declared)) => {
                lowering.declare(declared)?;
                let truth = lowering
                    .find(&declared.name)
                    .map(|variable| variable.value.clone());
                let truth = truth.filter(|value| value.kind == BOOL);
                truth.map(|value| Some(value.registers[0])).ok_or_else(|| {
                    ShaderError::new(looped.line, "the condition of a loop must be bool")
                })
            }
        })?;
        let body = std::slice::from_ref(&looped.body);
        let ((), body) = self.apart(|lowering| lowering.statements(body, result))?;
        let (_, step) = self.apart(|lowering| {
            looped
                .step
                .as_ref()
                .map(|step| lowering.value(step))
                .transpose()
        })?;
        self.frame.breaks -= 1;
        self.frame.loops -= 1;
        let body_first = looped.body_first;
        self.emit(Operation::Loop(Box::new(Loop {
            condition,
            goes_on,
            body,
            step,
            body_first,
        })));
        self.check(looped.line)
    }

    /// Every case runs for those that it is meant for, and for those that come from the one before it.
    fn switch(
        &mut self,
        value: &Expression,
        cases: &[Case],
        result: &Type,
    ) -> Result<(), ShaderError> {
        let line = value.line;
        let value = self.value(value)?;
        if !matches!(value.kind, Type::Vector(Base::Int | Base::Uint, 1)) {
            return Err(ShaderError::new(line, "a switch needs a whole number"));
        }
        let (value, zero) = (self.kept(&value.registers)[0], self.constant(0));
        let reached = self.kept(&[zero])[0];
        let last = cases.len().saturating_sub(1);
        self.frame.breaks += 1;
        let ((), operations) = self.apart(|lowering| {
            for (at, case) in cases.iter().enumerate() {
                for label in &case.labels {
                    let is_reached = match label {
                        Some(label) => {
                            let label = lowering.value(label)?;
                            if !label.kind.is_scalar() {
                                return Err(ShaderError::new(
                                    line,
                                    "a case must be a whole number",
                                ));
                            }
                            lowering.both(Binary::EqualBits, value, label.registers[0])
                        }
                        None if at == last => lowering.constant(1),
                        None => {
                            return Err(ShaderError::new(
                                line,
                                "'default' must be the last case here",
                            ));
                        }
                    };
                    let from = lowering.both(Binary::Or, reached, is_reached);
                    lowering.emit(Operation::Copy { to: reached, from });
                }
                let ((), chosen) =
                    lowering.apart(|lowering| lowering.statements(&case.body, result))?;
                lowering.emit(Operation::If {
                    condition: reached,
                    chosen,
                    other: Vec::new(),
                });
            }
            Ok(())
        })?;
        self.frame.breaks -= 1;
        self.emit(Operation::Switch(operations));
        self.check(line)
    }

    fn leave(
        &mut self,
        line: u32,
        value: Option<&Expression>,
        result: &Type,
    ) -> Result<(), ShaderError> {
        let value = value.map(|value| self.value(value)).transpose()?;
        let kind = value
            .as_ref()
            .map_or(Type::Void, |value| value.kind.clone());
        if kind != *result {
            let message = format!("the function returns {result}, but this is {kind}");
            return Err(ShaderError::new(line, message));
        }
        if let Some(value) = value {
            let to = self.frame.result.clone();
            self.copy(&to, &value.registers);
        }
        self.emit(Operation::Return);
        Ok(())
    }
}
