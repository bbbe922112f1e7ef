//! Functions: each is lowered once for all of its calls, and once more for other samplers.

use std::sync::Arc;

use super::super::ShaderError;
use super::super::kinds::{INT, Type};
use super::super::operation::{Function, Operation};
use super::super::syntax::{self, Expression, Name};
use super::access::Place;
use super::{
    DEEPEST, Declaration, Lowering, MOST_FUNCTIONS, MOST_REGISTERS, Value, Variable, kinds_of,
    too_deep, too_large, twice,
};

impl Lowering {
    pub(super) fn declare_function(&mut self, source: syntax::Function) -> Result<(), ShaderError> {
        let result = self.kind(&source.result, None)?;
        let source = Arc::new(source);
        let kinds = source
            .parameters
            .iter()
            .map(|parameter| self.kind(&parameter.kind, None));
        let parameters: Vec<Type> = kinds.collect::<Result<_, ShaderError>>()?;
        self.spend(self.declarations.len(), source.line)?;
        let size: usize = parameters.iter().map(Type::size).sum();
        if size > MOST_REGISTERS {
            return Err(too_large(source.line));
        }
        if parameters.contains(&Type::Void) || result == Type::Sampler {
            let message = format!(
                "'{}' has a parameter or a result of a type that is not allowed",
                source.name
            );
            return Err(ShaderError::new(source.line, message));
        }
        let known = self
            .declarations
            .iter_mut()
            .find(|known| known.source.name == source.name && known.parameters == parameters);
        match known {
            Some(known)
                if known.result != result
                    || (known.source.body.is_some() && source.body.is_some()) =>
            {
                Err(twice(&source.name, source.line))
            }
            Some(known) => {
                if source.body.is_some() {
                    known.source = source;
                }
                Ok(())
            }
            None => {
                self.declarations.push(Declaration {
                    source,
                    result,
                    parameters,
                });
                Ok(())
            }
        }
    }

    /// The lowered function of a declaration with these samplers.
    pub(super) fn instance(
        &mut self,
        at: usize,
        samplers: Vec<usize>,
        line: u32,
    ) -> Result<usize, ShaderError> {
        let key = (at, samplers);
        if let Some(lowered) = self.lowered.get(&key) {
            return Ok(*lowered);
        }
        let name = Name::clone(&self.declarations[at].source.name);
        if self.under_way.contains(&at) {
            return Err(ShaderError::new(
                line,
                format!("'{name}' calls itself, which GLSL does not have"),
            ));
        }
        if self.functions.len() == MOST_FUNCTIONS {
            return Err(ShaderError::new(
                line,
                format!("the shader has more than {MOST_FUNCTIONS} functions"),
            ));
        }
        let source = Arc::clone(&self.declarations[at].source);
        let body = source.body.as_ref().ok_or_else(|| {
            ShaderError::new(line, format!("'{name}' is declared but has no body"))
        })?;
        self.under_way.push(at);
        let before = std::mem::take(&mut self.frame);
        let result = self.declarations[at].result.clone();
        self.frame.result = self.temporaries(result.size());
        let mut zeroed = self.frame.result.clone();
        let mut scope = std::collections::HashMap::new();
        let mut samplers = key.1.iter().copied();
        for (parameter, kind) in source
            .parameters
            .iter()
            .zip(self.declarations[at].parameters.clone())
        {
            let mut value = Value::new(kind.clone(), self.temporaries(kind.size()));
            if kind == Type::Sampler {
                value.sampler = samplers.next();
            }
            if !parameter.is_in {
                zeroed.extend_from_slice(&value.registers);
            }
            let is_constant = kind == Type::Sampler;
            let variable = Variable {
                value,
                is_constant,
                whole: None,
            };
            let known = scope.insert(Name::clone(&parameter.name), variable);
            // Several may have no name.
            if known.is_some() && !parameter.name.is_empty() {
                return Err(twice(&parameter.name, source.line));
            }
        }
        self.frame.scopes.push(scope);
        let zero = self.constant(0);
        for to in zeroed {
            self.emit(Operation::Copy { to, from: zero });
        }
        let lowered = self.statements(body, &result);
        let frame = std::mem::replace(&mut self.frame, before);
        self.under_way.pop();
        lowered?;
        self.functions.push(Function {
            body: frame.operations,
            deepest: frame.deepest,
            size: frame.size,
            reach: frame.size + frame.reach,
        });
        let function = self.functions.len() - 1;
        self.lowered.insert(key, function);
        Ok(function)
    }

    /// A call of a function, or a value of a type.
    pub(super) fn call(
        &mut self,
        name: &str,
        arguments: &[Expression],
        line: u32,
    ) -> Result<Value, ShaderError> {
        if let Some(kind) = self
            .structs
            .get(name)
            .map(|of| Type::Struct(of.clone()))
            .or_else(|| Type::named(name))
        {
            let expressions: Vec<&Expression> = arguments.iter().collect();
            let values = self.values(&expressions)?;
            return self.made(&kind, &values, line);
        }
        self.spend(self.declarations.len(), line)?;
        let is_own = self
            .declarations
            .iter()
            .any(|known| &*known.source.name == name);
        if is_own {
            return self.own(name, arguments, line);
        }
        let expressions: Vec<&Expression> = arguments.iter().collect();
        let values = self.values(&expressions)?;
        if let (
            ".length",
            [
                Value {
                    kind: Type::Array(_, length),
                    ..
                },
            ],
        ) = (name, &values[..])
        {
            return Ok(Value::new(INT, vec![self.constant(*length as u32)]));
        }
        let found = self.builtin(name, &values, line)?;
        found.ok_or_else(|| unknown(name, &values, line))
    }

    fn own(
        &mut self,
        name: &str,
        arguments: &[Expression],
        line: u32,
    ) -> Result<Value, ShaderError> {
        // An argument that the function changes needs a place; its type is read from there, too.
        let known = self.declarations.iter().filter(|known| {
            &*known.source.name == name && known.parameters.len() == arguments.len()
        });
        let outs = known.map(|known| {
            known
                .source
                .parameters
                .iter()
                .map(|parameter| parameter.is_out)
        });
        let mut changed = vec![false; arguments.len()];
        for outs in outs {
            for (changed, out) in changed.iter_mut().zip(outs) {
                *changed |= out;
            }
        }
        let mut places: Vec<Option<Place>> = Vec::new();
        for (argument, changed) in arguments.iter().zip(changed) {
            if !changed {
                places.push(None);
                continue;
            }
            let (place, operations) = self.apart(|lowering| lowering.changeable(argument))?;
            if operations.iter().any(|operation| !operation.is_pure()) {
                let message = "an index of what a function changes must change nothing itself; store it in a variable";
                return Err(ShaderError::new(line, message));
            }
            self.frame.operations.extend(operations);
            places.push(place);
        }
        let expressions: Vec<&Expression> = arguments.iter().collect();
        let values = self.values(&expressions)?;
        let kinds: Vec<&Type> = values.iter().map(|value| &value.kind).collect();
        let found = self.declarations.iter().position(|known| {
            &*known.source.name == name && known.parameters.iter().eq(kinds.iter().copied())
        });
        let at = found.ok_or_else(|| unknown(name, &values, line))?;
        let samplers = values.iter().filter_map(|value| value.sampler).collect();
        let function = self.instance(at, samplers, line)?;
        self.frame.reach = self.frame.reach.max(self.functions[function].reach);
        let level = self.frame.level + 1 + self.functions[function].deepest;
        self.frame.deepest = self.frame.deepest.max(level);
        if level > DEEPEST {
            return Err(too_deep(line));
        }
        let source = Arc::clone(&self.declarations[at].source);
        let parameters = &source.parameters;
        let result = self.declarations[at].result.clone();
        let mut first = result.size();
        let firsts: Vec<usize> = values
            .iter()
            .map(|value| {
                let at = first;
                first += value.registers.len();
                at
            })
            .collect();
        for ((value, parameter), first) in values.iter().zip(parameters).zip(&firsts) {
            for (at, from) in value.registers.iter().copied().enumerate() {
                if parameter.is_in {
                    self.emit(Operation::Pass {
                        to: (first + at) as u32,
                        from,
                    });
                }
            }
        }
        self.emit(Operation::Call { function });
        let fetched = |lowering: &mut Self, from: usize, kind: Type| {
            let registers = lowering.temporaries(kind.size());
            for (at, to) in registers.iter().copied().enumerate() {
                lowering.emit(Operation::Returned {
                    to,
                    from: (from + at) as u32,
                });
            }
            Value::new(kind, registers)
        };
        let value = fetched(self, 0, result);
        let mut given = Vec::new();
        for (at, parameter) in parameters.iter().enumerate() {
            if parameter.is_out {
                given.push((at, fetched(self, firsts[at], values[at].kind.clone())));
            }
        }
        for (at, value) in given {
            let place = places[at].take().ok_or_else(|| {
                ShaderError::new(
                    line,
                    format!(
                        "argument {} of '{name}' must be a variable: it is changed",
                        at + 1
                    ),
                )
            })?;
            self.write(&place, &value, line)?;
        }
        Ok(value)
    }
}

fn unknown(name: &str, values: &[Value], line: u32) -> ShaderError {
    let kinds = kinds_of(values);
    ShaderError::new(line, format!("there is no function '{name}({kinds})'"))
}
