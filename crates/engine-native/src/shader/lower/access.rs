//! Variables and their parts: read, written, and named by an index that is known only when a shader runs.

use super::super::kinds::{Base, Type};
use super::super::operation::{Operation, Register};
use super::super::syntax::{Expression, Form};
use super::super::{ShaderError, operation};
use super::{Lowering, Value};

/// Work to make a list of registers, which takes as much memory as so many of them.
const LIST: usize = 16;

/// What may be assigned to: registers, or one of several lists of them.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) kind: Type,
    index: Option<Register>,
    /// The registers by index; without an index the only ones.
    options: Vec<Vec<Register>>,
    is_constant: bool,
}

impl Lowering {
    /// The value of a variable, of a part of it, or of a part of another value.
    pub(super) fn part(&mut self, expression: &Expression) -> Result<Value, ShaderError> {
        let place = self.place(expression)?;
        Ok(self.read(&place))
    }

    /// What may be assigned to.
    pub(super) fn target(&mut self, expression: &Expression) -> Result<Place, ShaderError> {
        let place = self.place(expression)?;
        match place.is_constant {
            true => Err(ShaderError::new(
                expression.line,
                "this cannot be assigned to",
            )),
            false => Ok(place),
        }
    }

    /// The place of an argument that a function may change, if it is a variable or a part of one.
    pub(super) fn changeable(
        &mut self,
        expression: &Expression,
    ) -> Result<Option<Place>, ShaderError> {
        let mut root = expression;
        while let Form::Index(of, _) | Form::Field(of, _) = &root.form {
            root = of;
        }
        if !matches!(root.form, Form::Name(_)) {
            return Ok(None);
        }
        let place = self.place(expression)?;
        Ok((!place.is_constant).then_some(place))
    }

    fn place(&mut self, expression: &Expression) -> Result<Place, ShaderError> {
        let line = expression.line;
        match &expression.form {
            Form::Name(name) => {
                self.spend(self.look_up(), line)?;
                let variable = self.find(name).cloned();
                let variable = variable
                    .ok_or_else(|| ShaderError::new(line, format!("'{name}' is not declared")))?;
                self.spend(variable.value.registers.len(), line)?;
                Ok(Place {
                    kind: variable.value.kind,
                    index: None,
                    options: vec![variable.value.registers],
                    is_constant: variable.is_constant,
                })
            }
            Form::Index(of, index) => {
                let of = self.container(of)?;
                self.indexed(&of, index)
            }
            Form::Field(of, name) => {
                let of = self.container(of)?;
                field(&of, name, line)
            }
            Form::Float(_)
            | Form::Int(_)
            | Form::Uint(_)
            | Form::Bool(_)
            | Form::Call(..)
            | Form::Array(..)
            | Form::Unary(..)
            | Form::Step(..)
            | Form::Binary(..)
            | Form::Assign(..)
            | Form::Select(_)
            | Form::Comma(..) => {
                let value = self.value(expression)?;
                Ok(Place {
                    kind: value.kind,
                    index: None,
                    options: vec![value.registers],
                    is_constant: true,
                })
            }
        }
    }

    /// What a part is taken of.
    fn container(&mut self, expression: &Expression) -> Result<Place, ShaderError> {
        let place = self.deeper(|lowering| lowering.place(expression))?;
        self.spend(place.options.len() * LIST, expression.line)?;
        Ok(place)
    }

    fn indexed(&mut self, of: &Place, index: &Expression) -> Result<Place, ShaderError> {
        let line = index.line;
        let Some((kind, length)) = of.kind.element() else {
            return Err(ShaderError::new(
                line,
                format!("{} has no elements", of.kind),
            ));
        };
        let size = kind.size();
        if let Some(at) = self.whole(index)? {
            let at = usize::try_from(at).ok().filter(|at| *at < length);
            let at = at.ok_or_else(|| {
                ShaderError::new(
                    line,
                    format!("the index must be one of 0 to {}", length - 1),
                )
            })?;
            let options = of
                .options
                .iter()
                .map(|option| option[at * size..(at + 1) * size].to_vec());
            let options = options.collect();
            return Ok(Place {
                kind,
                options,
                index: of.index,
                is_constant: of.is_constant,
            });
        }
        self.spend(of.options.len() * length * LIST, line)?;
        let index = self.value(index)?;
        if !matches!(index.kind, Type::Vector(Base::Int | Base::Uint, 1)) {
            let message = format!(
                "an index must be a whole number, and this is {}",
                index.kind
            );
            return Err(ShaderError::new(line, message));
        }
        // Held within the elements, so that one index tells of two.
        let last = self.constant(length as u32 - 1);
        let index = self.both(operation::Binary::MinUint, index.registers[0], last);
        let index = match of.index {
            None => index,
            Some(outer) => {
                let count = self.constant(length as u32);
                let outer = self.both(operation::Binary::MultiplyInt, outer, count);
                self.both(operation::Binary::AddInt, outer, index)
            }
        };
        Ok(Place {
            kind,
            index: Some(index),
            options: of
                .options
                .iter()
                .flat_map(|option| option.chunks(size).map(<[Register]>::to_vec))
                .collect(),
            is_constant: of.is_constant,
        })
    }

    pub(super) fn read(&mut self, place: &Place) -> Value {
        let kind = place.kind.clone();
        let Some(index) = place.index else {
            return Value::new(kind, place.options[0].clone());
        };
        let registers = (0..kind.size()).map(|at| {
            let from = place.options.iter().map(|option| option[at]).collect();
            let to = self.temporary();
            self.emit(Operation::LoadAt { to, index, from });
            to
        });
        let registers = registers.collect();
        Value::new(kind, registers)
    }

    pub(super) fn write(
        &mut self,
        place: &Place,
        value: &Value,
        line: u32,
    ) -> Result<(), ShaderError> {
        if place.kind != value.kind {
            let message = format!("{} cannot be assigned to {}", value.kind, place.kind);
            return Err(ShaderError::new(line, message));
        }
        let Some(index) = place.index else {
            self.copy(&place.options[0], &value.registers);
            return Ok(());
        };
        for (at, from) in value.registers.iter().copied().enumerate() {
            let to = place.options.iter().map(|option| option[at]).collect();
            self.emit(Operation::StoreAt { to, index, from });
        }
        Ok(())
    }

    /// Copies registers, also where they overlap.
    pub(super) fn copy(&mut self, to: &[Register], from: &[Register]) {
        let overlaps = to.iter().any(|register| from.contains(register));
        let from = match overlaps {
            true => self.kept(from),
            false => from.to_vec(),
        };
        for (to, from) in to.iter().copied().zip(from) {
            self.emit(Operation::Copy { to, from });
        }
    }

    /// Copies of registers that may change.
    pub(super) fn kept(&mut self, registers: &[Register]) -> Vec<Register> {
        let kept = self.temporaries(registers.len());
        for (to, from) in kept.iter().copied().zip(registers.iter().copied()) {
            self.emit(Operation::Copy { to, from });
        }
        kept
    }
}

fn field(of: &Place, name: &str, line: u32) -> Result<Place, ShaderError> {
    let unknown = || ShaderError::new(line, format!("{} has no '{name}'", of.kind));
    if let Type::Struct(fields) = &of.kind {
        let mut first = 0;
        for (known, kind) in &fields.fields {
            if &**known == name {
                let options = of
                    .options
                    .iter()
                    .map(|all| all[first..first + kind.size()].to_vec());
                let options = options.collect();
                return Ok(Place {
                    kind: kind.clone(),
                    options,
                    index: of.index,
                    is_constant: of.is_constant,
                });
            }
            first += kind.size();
        }
        return Err(unknown());
    }
    let Type::Vector(base, size) = of.kind else {
        return Err(unknown());
    };
    let sets = ["xyzw", "rgba", "stpq"];
    let places = sets.iter().find_map(|set| {
        let places = name.chars().map(|c| set.find(c).filter(|at| *at < size));
        places.collect::<Option<Vec<usize>>>()
    });
    let places = places.filter(|places| (1..=4).contains(&places.len()));
    let places = places.ok_or_else(unknown)?;
    // The same component twice has no one value to be assigned.
    let is_twice = (1..places.len()).any(|at| places[..at].contains(&places[at]));
    let chosen = |option: &Vec<Register>| places.iter().map(|at| option[*at]).collect();
    Ok(Place {
        kind: Type::Vector(base, places.len()),
        options: of.options.iter().map(chosen).collect(),
        is_constant: of.is_constant || is_twice,
        index: of.index,
    })
}
