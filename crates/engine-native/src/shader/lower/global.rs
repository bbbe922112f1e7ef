//! What stands outside of functions: variables, and what comes from outside and goes there.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::kinds::{Base, INT, Struct, Type};
use super::super::operation::Register;
use super::super::syntax::{Declared, Expression, Global, Name, Spelled};
use super::super::{ShaderError, Uniform};
use super::{
    Lowering, MOST_OUTPUTS, MOST_REGISTERS, MOST_SAMPLERS, Value, Variable, too_large, twice,
};

/// Most structures that stand in one another.
const DEEPEST_STRUCT: usize = 32;

impl Lowering {
    pub(super) fn declare_global(
        &mut self,
        global: Global,
        coordinate: &[Register],
    ) -> Result<(), ShaderError> {
        if let Global::Variable(declared)
        | Global::Uniform(declared)
        | Global::Input(declared)
        | Global::Output(declared, _) = &global
            && self.globals.contains_key(&declared.name)
        {
            return Err(twice(&declared.name, declared.kind.line));
        }
        match global {
            Global::Variable(declared) => self.global_variable(&declared),
            Global::Uniform(declared) => self.uniform(&declared),
            Global::Input(declared) => {
                let kind = self.kind(&declared.kind, None)?;
                if &*declared.name != "v_texCoord" || kind != Type::Vector(Base::Float, 2) {
                    let message = "the only input of a shader is 'in vec2 v_texCoord'";
                    return Err(ShaderError::new(declared.kind.line, message));
                }
                let value = Value::new(kind, coordinate.to_vec());
                self.know(declared.name, value, true);
                Ok(())
            }
            Global::Output(declared, location) => self.output(declared, location.as_deref()),
            Global::Struct(name, fields, line) => self.structure(name, fields, line),
            Global::Function(function) => self.declare_function(function),
        }
    }

    fn structure(
        &mut self,
        name: Name,
        spelled: Vec<(Spelled, Name)>,
        line: u32,
    ) -> Result<(), ShaderError> {
        if self.structs.contains_key(&name) || Type::named(&name).is_some() {
            return Err(twice(&name, line));
        }
        let (mut size, mut depth) = (0, 0);
        let mut fields = Vec::new();
        let mut names = HashSet::new();
        for (kind, field) in spelled {
            let kind = self.kind(&kind, None)?;
            if kind.size() == 0 {
                let message = format!("'{field}' of '{name}' cannot be of the type {kind}");
                return Err(ShaderError::new(line, message));
            }
            if !names.insert(Name::clone(&field)) {
                return Err(twice(&field, line));
            }
            size += kind.size();
            depth = depth.max(kind.depth());
            fields.push((field, kind));
        }
        if size == 0 {
            return Err(ShaderError::new(line, format!("'{name}' needs a field")));
        }
        if size > MOST_REGISTERS {
            return Err(too_large(line));
        }
        if depth == DEEPEST_STRUCT {
            let message = format!("structures are nested more than {DEEPEST_STRUCT} deep");
            return Err(ShaderError::new(line, message));
        }
        let of = Struct {
            name: Name::clone(&name),
            fields,
            size,
            depth: depth + 1,
        };
        self.structs.insert(name, Arc::new(of));
        Ok(())
    }

    fn global_variable(&mut self, declared: &Declared) -> Result<(), ShaderError> {
        let line = declared.kind.line;
        let given = declared
            .value
            .as_ref()
            .map(|value| self.value(value))
            .transpose()?;
        let kind = self.declared_kind(declared, given.as_ref())?;
        let value = self.global(kind);
        // A group of pixels has the registers of the one before.
        let from = match given {
            Some(given) => given.registers,
            None => vec![self.constant(0); value.registers.len()],
        };
        self.copy(&value.registers, &from);
        self.release(0);
        self.remember(declared, value, true)?;
        self.check(line)
    }

    /// The type of a variable, which is that of its value if it has one.
    pub(super) fn declared_kind(
        &mut self,
        declared: &Declared,
        given: Option<&Value>,
    ) -> Result<Type, ShaderError> {
        let line = declared.kind.line;
        let length = given
            .and_then(|given| given.kind.element())
            .map(|(_, length)| length);
        let kind = self.kind(&declared.kind, length)?;
        let name = &declared.name;
        if kind.size() == 0 {
            return Err(ShaderError::new(
                line,
                format!("'{name}' cannot be of the type {kind}"),
            ));
        }
        match given {
            Some(given) if given.kind != kind => {
                let message = format!("'{name}' is {kind}, and its value is {}", given.kind);
                Err(ShaderError::new(line, message))
            }
            Some(_) | None => Ok(kind),
        }
    }

    /// Makes a variable known in the innermost scope.
    pub(super) fn remember(
        &mut self,
        declared: &Declared,
        value: Value,
        is_global: bool,
    ) -> Result<(), ShaderError> {
        let is_whole = value.kind == INT || value.kind == Type::Vector(Base::Uint, 1);
        let given = declared
            .value
            .as_ref()
            .filter(|_| declared.is_constant && is_whole);
        let whole = match given {
            Some(given) => self.whole(given)?,
            None => None,
        };
        let variable = Variable {
            value,
            is_constant: declared.is_constant,
            whole,
        };
        let name = Name::clone(&declared.name);
        let known = match self.frame.scopes.last_mut() {
            Some(scope) if !is_global => scope.insert(name, variable),
            Some(_) | None => self.globals.insert(name, variable),
        };
        match known {
            Some(_) => Err(twice(&declared.name, declared.kind.line)),
            None => Ok(()),
        }
    }

    fn uniform(&mut self, declared: &Declared) -> Result<(), ShaderError> {
        let line = declared.kind.line;
        let kind = self.kind(&declared.kind, None)?;
        let name = Name::clone(&declared.name);
        if kind == Type::Sampler {
            if self.samplers.len() == MOST_SAMPLERS {
                let message = format!("a shader has at most {MOST_SAMPLERS} samplers");
                return Err(ShaderError::new(line, message));
            }
            let mut value = Value::new(kind, Vec::new());
            value.sampler = Some(self.samplers.len());
            self.samplers.push(name.to_string());
            self.know(name, value, true);
            return Ok(());
        }
        if kind.size() == 0 {
            return Err(ShaderError::new(
                line,
                format!("'{name}' cannot be of the type {kind}"),
            ));
        }
        let value = self.global(kind.clone());
        self.uniforms.push(Uniform {
            name: name.to_string(),
            kind,
            registers: value.registers.clone(),
        });
        self.know(name, value, true);
        self.check(line)
    }

    fn output(
        &mut self,
        declared: Declared,
        location: Option<&Expression>,
    ) -> Result<(), ShaderError> {
        let line = declared.kind.line;
        let kind = self.kind(&declared.kind, None)?;
        if kind != Type::Vector(Base::Float, 4) {
            let message = format!("the output '{}' must be a vec4 here", declared.name);
            return Err(ShaderError::new(line, message));
        }
        let at = match location {
            None => {
                self.unplaced += 1;
                Some(0)
            }
            Some(location) => {
                let at = self.whole(location)?;
                at.and_then(|at| usize::try_from(at).ok())
            }
        };
        let at =
            at.filter(|at| *at < MOST_OUTPUTS && self.outputs.iter().all(|(known, _)| known != at));
        let Some(at) = at.or(location.is_none().then_some(0)) else {
            let message = format!(
                "the location of an output must be one of 0 to {}, each once",
                MOST_OUTPUTS - 1
            );
            return Err(ShaderError::new(line, message));
        };
        let value = self.global(kind);
        self.outputs.push((at, value.registers.clone()));
        self.know(declared.name, value, false);
        self.check(line)
    }
}
