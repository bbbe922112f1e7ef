//! Fragment shaders in GLSL ES 3.00 on the CPU: a source is checked and lowered once, then run for 64 pixels at a time.
//!
//! Nothing of it is unbounded: sources, tokens after macros, nesting, registers and the steps of a pixel have limits, and a run
//! asks whether it is to stop.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod kinds;
mod lower;
mod operation;
mod parse;
mod preprocess;
mod run;
mod syntax;
mod texture;
mod token;

#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use run::{MOST_STEPS, Run};
pub(crate) use texture::Texture;

use kinds::Type;
use operation::{Function, Register};

/// Longest source, in bytes.
const MOST_SOURCE: usize = 1 << 16;

/// Why a source is no shader that runs here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShaderError {
    line: u32,
    message: String,
}

impl ShaderError {
    fn new(line: u32, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { line, message }
    }
}

impl fmt::Display for ShaderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.message)
    }
}

/// A value that is set from outside, the same for all pixels.
#[derive(Clone, Debug)]
pub(crate) struct Uniform {
    pub(crate) name: String,
    kind: Type,
    registers: Vec<Register>,
}

/// A shader that can run.
#[derive(Debug)]
pub(crate) struct Program {
    functions: Vec<Function>,
    /// What runs before `main`, as the last of the functions do: the values of global variables.
    start: Function,
    main: usize,
    /// Registers of constants and what they hold.
    constants: Vec<(Register, u32)>,
    uniforms: Vec<Uniform>,
    /// The names of samplers; operations know them by number.
    samplers: Vec<String>,
    /// Registers of the outputs by location.
    outputs: Vec<(usize, Vec<Register>)>,
    position: Vec<Register>,
    coordinate: Vec<Register>,
    front: Vec<Register>,
    globals: usize,
    /// Most registers that a chain of calls takes, with the globals.
    registers: usize,
}

impl Program {
    /// Checks and lowers a source.
    pub(crate) fn new(source: &str) -> Result<Self, ShaderError> {
        if source.len() > MOST_SOURCE {
            let message = format!("the source is longer than {MOST_SOURCE} bytes");
            return Err(ShaderError::new(1, message));
        }
        let tokens = preprocess::tokens(source)?;
        lower::program(parse::unit(tokens)?)
    }

    /// The values that are set from outside, samplers apart.
    pub(crate) fn uniforms(&self) -> &[Uniform] {
        &self.uniforms
    }

    /// The names of the samplers, in the order in which a [`Run`] takes their textures.
    pub(crate) fn samplers(&self) -> &[String] {
        &self.samplers
    }
}

impl Uniform {
    /// The bits of its components for numbers, if it has as many and takes such ones.
    pub(crate) fn bits(&self, numbers: &[Number]) -> Option<Vec<(Register, u32)>> {
        let Type::Vector(base, size) = self.kind else {
            return None;
        };
        let bits = numbers.iter().map(|number| number.bits(base));
        let bits: Option<Vec<u32>> = bits.collect();
        let bits = bits.filter(|bits| bits.len() == size)?;
        Some(self.registers.iter().copied().zip(bits).collect())
    }

    /// Its type as a source spells it.
    pub(crate) fn kind(&self) -> String {
        self.kind.to_string()
    }
}

/// A number that a uniform is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Float(f32),
    Int(i32),
    Bool(bool),
}

impl Number {
    fn bits(self, base: kinds::Base) -> Option<u32> {
        use kinds::Base;
        Some(match (self, base) {
            (Self::Float(number), Base::Float) => number.to_bits(),
            (Self::Float(number), Base::Bool) => u32::from(number != 0.0),
            (Self::Int(number), Base::Int) => number.cast_unsigned(),
            (Self::Int(number), Base::Bool) => u32::from(number != 0),
            (Self::Bool(truth), Base::Bool | Base::Int) => u32::from(truth),
            (Self::Float(_) | Self::Int(_) | Self::Bool(_), _) => return None,
        })
    }
}
