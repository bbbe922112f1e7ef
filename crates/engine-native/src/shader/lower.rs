//! From what a source says to operations: names and types are settled here, once.

mod access;
mod arithmetic;
mod builtin;
mod construct;
mod expression;
mod function;
mod global;
mod matrix;
mod statement;

use std::collections::HashMap;
use std::sync::Arc;

use super::kinds::{Base, Struct, Type};
use super::operation::{Function, GLOBAL, Operation, Register};
use super::syntax::{self, Expression, Global, Name, Spelled};
use super::{Program, ShaderError, Uniform};

/// Most registers of a chain of calls, and of the global variables.
const MOST_REGISTERS: usize = 1 << 13;

/// Most operations of a shader, and registers that they name.
const MOST_OPERATIONS: usize = 1 << 20;

/// Most work to lower a shader: every expression and declaration is so much of it, and besides every register that one names.
const MOST_WORK: usize = 1 << 24;
const STEP: usize = 64;

/// Work to look for a name in one scope.
const LOOK: usize = 8;

/// Most functions, each counted as often as it is called with other samplers.
const MOST_FUNCTIONS: usize = 256;

/// Most statements and expressions that stand in one another through all calls, so that a thread's stack holds them.
const DEEPEST: usize = 200;

/// Types that a message lists.
const MOST_SHOWN: usize = 16;

/// Most samplers and outputs, as devices have them.
const MOST_SAMPLERS: usize = 16;
const MOST_OUTPUTS: usize = 4;

/// A value in registers.
#[derive(Clone, Debug)]
struct Value {
    kind: Type,
    registers: Vec<Register>,
    /// Which one it is, for a sampler.
    sampler: Option<usize>,
}

impl Value {
    fn new(kind: Type, registers: Vec<Register>) -> Self {
        let sampler = None;
        Self {
            kind,
            registers,
            sampler,
        }
    }
}

/// A variable, as a scope knows it.
#[derive(Clone, Debug)]
struct Variable {
    value: Value,
    is_constant: bool,
    /// What it is, for a constant whole number.
    whole: Option<i32>,
}

/// The function that is lowered now.
#[derive(Debug, Default)]
struct Frame {
    operations: Vec<Operation>,
    scopes: Vec<HashMap<Name, Variable>>,
    /// The next register that nobody uses.
    next: usize,
    size: usize,
    /// Of the functions that it calls, the largest.
    reach: usize,
    result: Vec<Register>,
    /// Blocks that stand around what is lowered now, and the most that ever stand around something, calls counted.
    level: usize,
    deepest: usize,
    /// What may be left by `break` and by `continue` here.
    breaks: usize,
    loops: usize,
}

#[derive(Debug)]
struct Declaration {
    source: Arc<syntax::Function>,
    result: Type,
    parameters: Vec<Type>,
}

#[derive(Debug, Default)]
struct Lowering {
    structs: HashMap<Name, Arc<Struct>>,
    globals: HashMap<Name, Variable>,
    declarations: Vec<Declaration>,
    /// Lowered functions by declaration and the samplers that they are called with.
    lowered: HashMap<(usize, Vec<usize>), usize>,
    under_way: Vec<usize>,
    functions: Vec<Function>,
    constants: HashMap<u32, Register>,
    uniforms: Vec<Uniform>,
    samplers: Vec<String>,
    outputs: Vec<(usize, Vec<Register>)>,
    unplaced: usize,
    /// Global registers that are in use.
    used: usize,
    /// Operations and the registers that they name.
    emitted: usize,
    /// As [`MOST_WORK`] counts it.
    work: usize,
    /// Statements and expressions that are being lowered, each inside of the one before, in all functions.
    depth: usize,
    /// Where the expression stands that is lowered now.
    line: u32,
    frame: Frame,
}

/// The program of what a source declares.
pub(super) fn program(globals: Vec<Global>) -> Result<Program, ShaderError> {
    let mut lowering = Lowering::default();
    let [position, coordinate, front] = [
        ("gl_FragCoord", 4),
        ("v_texCoord", 2),
        ("gl_FrontFacing", 1),
    ]
    .map(|(name, size)| {
        let base = if size == 1 { Base::Bool } else { Base::Float };
        let value = lowering.global(Type::Vector(base, size));
        let registers = value.registers.clone();
        // The coordinate is known once the source declares it.
        if name.starts_with("gl_") {
            lowering.know(name.into(), value, true);
        }
        registers
    });
    for global in globals {
        lowering.declare_global(global, &coordinate)?;
    }
    let main = lowering.declarations.iter().position(|declaration| {
        &*declaration.source.name == "main" && declaration.source.body.is_some()
    });
    let main = main.ok_or_else(|| ShaderError::new(1, "there is no 'void main()'"))?;
    let start = std::mem::take(&mut lowering.frame);
    let start = Function {
        body: start.operations,
        deepest: start.deepest,
        size: start.size,
        reach: start.size + start.reach,
    };
    let main = lowering.instance(main, Vec::new(), 1)?;
    let reach = lowering.functions[main].reach.max(start.reach);
    let registers = lowering.used + reach;
    if registers > MOST_REGISTERS {
        return Err(too_large(1));
    }
    if lowering.unplaced > 0 && lowering.outputs.len() > 1 {
        let message = "with several outputs each needs a layout(location = …)";
        return Err(ShaderError::new(1, message));
    }
    Ok(Program {
        functions: lowering.functions,
        start,
        main,
        constants: lowering
            .constants
            .into_iter()
            .map(|(bits, register)| (register, bits))
            .collect(),
        uniforms: lowering.uniforms,
        samplers: lowering.samplers,
        outputs: lowering.outputs,
        position,
        coordinate,
        front,
        globals: lowering.used,
        registers,
    })
}

fn too_large(line: u32) -> ShaderError {
    let message =
        format!("the shader needs more than {MOST_REGISTERS} values at once; use smaller arrays");
    ShaderError::new(line, message)
}

fn twice(name: &str, line: u32) -> ShaderError {
    ShaderError::new(line, format!("'{name}' is declared twice"))
}

/// The types of some values, as a message shows them.
fn kinds_of(values: &[Value]) -> String {
    let mut kinds: Vec<String> = values
        .iter()
        .take(MOST_SHOWN)
        .map(|value| value.kind.to_string())
        .collect();
    if values.len() > MOST_SHOWN {
        kinds.push("…".to_owned());
    }
    kinds.join(", ")
}

fn too_deep(line: u32) -> ShaderError {
    ShaderError::new(
        line,
        "functions call one another too deeply; write some of them into their callers",
    )
}

impl Lowering {
    /// Registers for a global variable.
    fn global(&mut self, kind: Type) -> Value {
        let first = self.used;
        self.used += kind.size();
        let registers = (first..self.used).map(|at| at as Register | GLOBAL);
        let registers = registers.collect();
        Value::new(kind, registers)
    }

    fn know(&mut self, name: Name, value: Value, is_constant: bool) {
        let whole = None;
        self.globals.insert(
            name,
            Variable {
                value,
                is_constant,
                whole,
            },
        );
    }

    /// A register that always holds these bits.
    fn constant(&mut self, bits: u32) -> Register {
        if let Some(register) = self.constants.get(&bits) {
            return *register;
        }
        let register = self.used as Register | GLOBAL;
        self.used += 1;
        self.constants.insert(bits, register);
        register
    }

    fn float(&mut self, number: f32) -> Register {
        self.constant(number.to_bits())
    }

    /// A register of the frame until [`Lowering::release`].
    fn temporary(&mut self) -> Register {
        let register = self.frame.next;
        self.frame.next += 1;
        self.frame.size = self.frame.size.max(self.frame.next);
        register as Register
    }

    fn temporaries(&mut self, count: usize) -> Vec<Register> {
        (0..count).map(|_| self.temporary()).collect()
    }

    /// Gives back all registers of the frame from one on.
    fn release(&mut self, from: usize) {
        self.frame.next = from;
    }

    fn emit(&mut self, operation: Operation) {
        self.emitted += 1 + match &operation {
            Operation::LoadAt { from, .. } => from.len(),
            Operation::StoreAt { to, .. } => to.len(),
            Operation::Copy { .. }
            | Operation::Unary { .. }
            | Operation::Binary { .. }
            | Operation::Select { .. }
            | Operation::Sample { .. }
            | Operation::Fetch { .. }
            | Operation::Size { .. }
            | Operation::Slope { .. }
            | Operation::If { .. }
            | Operation::Loop(_)
            | Operation::Switch(_)
            | Operation::Call { .. }
            | Operation::Pass { .. }
            | Operation::Returned { .. }
            | Operation::Break
            | Operation::Continue
            | Operation::Return
            | Operation::Discard => 0,
        };
        self.frame.operations.push(operation);
    }

    /// What `lower` emits, as a list of its own.
    fn apart<T>(
        &mut self,
        lower: impl FnOnce(&mut Self) -> Result<T, ShaderError>,
    ) -> Result<(T, Vec<Operation>), ShaderError> {
        let before = std::mem::take(&mut self.frame.operations);
        self.frame.level += 1;
        self.frame.deepest = self.frame.deepest.max(self.frame.level);
        let lowered = lower(self);
        self.frame.level -= 1;
        let operations = std::mem::replace(&mut self.frame.operations, before);
        Ok((lowered?, operations))
    }

    /// One level deeper, for as long as `lower` runs.
    fn deeper<T>(
        &mut self,
        lower: impl FnOnce(&mut Self) -> Result<T, ShaderError>,
    ) -> Result<T, ShaderError> {
        if self.depth == DEEPEST {
            return Err(too_deep(self.line));
        }
        self.depth += 1;
        let lowered = lower(self);
        self.depth -= 1;
        lowered
    }

    /// Counts work, and refuses a shader that takes too much of it.
    fn spend(&mut self, work: usize, line: u32) -> Result<(), ShaderError> {
        self.work += work;
        match self.work > MOST_WORK {
            true => Err(ShaderError::new(
                line,
                "the shader takes too much work before it runs; use fewer expressions and smaller arrays",
            )),
            false => Ok(()),
        }
    }

    /// Counts a step, and refuses a shader that has become too large.
    fn check(&mut self, line: u32) -> Result<(), ShaderError> {
        self.spend(STEP, line)?;
        if self.emitted > MOST_OPERATIONS {
            return Err(ShaderError::new(
                line,
                "the shader has too many operations; make it shorter",
            ));
        }
        match self.frame.size > MOST_REGISTERS || self.used > MOST_REGISTERS {
            true => Err(too_large(line)),
            false => Ok(()),
        }
    }

    fn find(&self, name: &str) -> Option<&Variable> {
        let mut scopes = self.frame.scopes.iter().rev();
        let inner = scopes.find_map(|scope| scope.get(name));
        inner.or_else(|| self.globals.get(name))
    }

    /// The work of looking a name up: it may be in each scope.
    fn look_up(&self) -> usize {
        LOOK * (1 + self.frame.scopes.len())
    }

    /// The whole number that an expression is, if it is constant.
    fn whole(&mut self, expression: &Expression) -> Result<Option<i32>, ShaderError> {
        // Each of its names is looked up, and many declarations may share a long one.
        let work = expression.size.saturating_mul(self.look_up());
        self.spend(work, expression.line)?;
        Ok(expression.whole(&|name| self.find(name)?.whole))
    }

    /// The type of a spelling; `length` where an array leaves its own out.
    fn kind(&mut self, spelled: &Spelled, length: Option<usize>) -> Result<Type, ShaderError> {
        let line = spelled.line;
        let one = match self.structs.get(&spelled.name) {
            Some(of) => Type::Struct(Arc::clone(of)),
            None => Type::named(&spelled.name).ok_or_else(|| {
                ShaderError::new(line, format!("the type '{}' is unknown here", spelled.name))
            })?,
        };
        let kind = match &spelled.length {
            None => one,
            Some(_) if one.size() == 0 => {
                return Err(ShaderError::new(
                    line,
                    format!("there are no arrays of {one} here"),
                ));
            }
            Some(None) => {
                let length = length.filter(|length| *length > 0);
                let length =
                    length.ok_or_else(|| ShaderError::new(line, "an array needs a length"))?;
                Type::Array(Box::new(one), length)
            }
            Some(Some(length)) => {
                let length = self.whole(length)?;
                let length = length.and_then(|length| usize::try_from(length).ok());
                let length = length.filter(|length| *length > 0);
                let message = "the length of an array must be a constant whole number above 0";
                let length = length.ok_or_else(|| ShaderError::new(line, message))?;
                Type::Array(Box::new(one), length)
            }
        };
        match kind.size() > MOST_REGISTERS {
            true => Err(too_large(line)),
            false => Ok(kind),
        }
    }
}
