//! What a source says, before its types are known.

use std::sync::Arc;

use super::ShaderError;

/// Most expressions that stand in one another, of a long sum each part.
const DEEPEST: usize = 96;

pub(super) type Name = Arc<str>;

/// An expression and the line where it begins.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) line: u32,
    /// How many expressions stand in one another, this one counted.
    pub(super) depth: usize,
    /// How many expressions it is made of, this one counted.
    pub(super) size: usize,
    pub(super) form: Form,
}

#[derive(Clone, Debug)]
pub(super) enum Form {
    Float(f32),
    Int(i32),
    Uint(u32),
    Bool(bool),
    Name(Name),
    /// A function or the constructor of a type without array.
    Call(Name, Vec<Expression>),
    /// The constructor of an array.
    Array(Spelled, Vec<Expression>),
    Index(Box<Expression>, Box<Expression>),
    Field(Box<Expression>, Name),
    Unary(&'static str, Box<Expression>),
    /// `++` or `--` before (`true`) or behind.
    Step(&'static str, bool, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `=`, or the operator of one such as `+=`.
    Assign(Option<&'static str>, Box<Expression>, Box<Expression>),
    Select(Box<[Expression; 3]>),
    Comma(Box<Expression>, Box<Expression>),
}

/// A type as it is spelled: its name and, for an array, its length, if that is said.
#[derive(Clone, Debug)]
pub(super) struct Spelled {
    pub(super) line: u32,
    pub(super) name: Name,
    pub(super) length: Option<Option<Arc<Expression>>>,
}

#[derive(Clone, Debug)]
pub(super) enum Statement {
    Declare(Vec<Declared>),
    Evaluate(Expression),
    Block(Vec<Statement>),
    If(Expression, Box<Statement>, Option<Box<Statement>>),
    Loop(Box<Looped>),
    Switch(Expression, Vec<Case>),
    Return(u32, Option<Expression>),
    /// `break`, `continue` or `discard`.
    Leave(u32, &'static str),
}

/// A loop of any of the three kinds.
#[derive(Clone, Debug)]
pub(super) struct Looped {
    pub(super) line: u32,
    pub(super) first: Option<Statement>,
    pub(super) condition: Option<Condition>,
    pub(super) step: Option<Expression>,
    pub(super) body: Statement,
    /// Whether the body runs before the condition is asked for the first time.
    pub(super) body_first: bool,
}

/// The condition of a loop, which may declare a variable.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Is(Expression),
    Declares(Declared),
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The values that lead here; `None` is `default`.
    pub(super) labels: Vec<Option<Expression>>,
    pub(super) body: Vec<Statement>,
}

/// A variable.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) kind: Spelled,
    pub(super) name: Name,
    pub(super) value: Option<Expression>,
    pub(super) is_constant: bool,
}

/// What stands outside of functions.
#[derive(Clone, Debug)]
pub(super) enum Global {
    Variable(Declared),
    Uniform(Declared),
    Input(Declared),
    Output(Declared, Option<Arc<Expression>>),
    Struct(Name, Vec<(Spelled, Name)>, u32),
    Function(Function),
}

#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) line: u32,
    pub(super) result: Spelled,
    pub(super) name: Name,
    pub(super) parameters: Vec<Parameter>,
    /// `None` for one that is only declared.
    pub(super) body: Option<Vec<Statement>>,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) kind: Spelled,
    pub(super) name: Name,
    pub(super) is_in: bool,
    pub(super) is_out: bool,
}

impl Form {
    /// Expressions in it.
    fn parts(&self) -> Vec<&Expression> {
        match self {
            Self::Float(_) | Self::Int(_) | Self::Uint(_) | Self::Bool(_) | Self::Name(_) => {
                Vec::new()
            }
            Self::Call(_, parts) | Self::Array(_, parts) => parts.iter().collect(),
            Self::Field(inner, _) | Self::Unary(_, inner) | Self::Step(_, _, inner) => vec![inner],
            Self::Index(left, right)
            | Self::Binary(_, left, right)
            | Self::Assign(_, left, right)
            | Self::Comma(left, right) => vec![left, right],
            Self::Select(parts) => parts.iter().collect(),
        }
    }
}

impl Expression {
    /// An expression, if not too many stand in one another.
    pub(super) fn new(line: u32, form: Form) -> Result<Self, ShaderError> {
        let parts = form.parts();
        let depth = parts.iter().map(|part| part.depth).max().unwrap_or(0) + 1;
        let size = parts.iter().map(|part| part.size).sum::<usize>() + 1;
        match depth <= DEEPEST {
            true => Ok(Self {
                line,
                depth,
                size,
                form,
            }),
            false => Err(ShaderError::new(
                line,
                format!(
                    "more than {DEEPEST} operations stand in one another; store a part in a variable"
                ),
            )),
        }
    }

    /// The value of a constant of whole numbers, where it is one; `known` tells those of names.
    pub(super) fn whole(&self, known: &dyn Fn(&str) -> Option<i32>) -> Option<i32> {
        match &self.form {
            Form::Int(number) => Some(*number),
            Form::Uint(number) => Some(number.cast_signed()),
            Form::Name(name) => known(name),
            Form::Call(name, arguments) if matches!(&**name, "int" | "uint") => {
                let [argument] = &arguments[..] else {
                    return None;
                };
                argument.whole(known)
            }
            Form::Unary(sign, inner) => {
                let value = inner.whole(known)?;
                Some(match *sign {
                    "-" => value.wrapping_neg(),
                    "~" => !value,
                    "!" => i32::from(value == 0),
                    _ => value,
                })
            }
            Form::Binary(sign, left, right) => match (*sign, left.whole(known)?) {
                // The right side may name what only the left one makes sure of.
                ("&&", 0) => Some(0),
                ("||", left) if left != 0 => Some(1),
                (sign, left) => whole_of(sign, left, right.whole(known)?),
            },
            Form::Float(_)
            | Form::Bool(_)
            | Form::Call(..)
            | Form::Array(..)
            | Form::Index(..)
            | Form::Field(..)
            | Form::Step(..)
            | Form::Assign(..)
            | Form::Select(_)
            | Form::Comma(..) => None,
        }
    }
}

fn whole_of(sign: &str, left: i32, right: i32) -> Option<i32> {
    Some(match sign {
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        "<<" => left.wrapping_shl(right.cast_unsigned()),
        ">>" => left.wrapping_shr(right.cast_unsigned()),
        "&" => left & right,
        "|" => left | right,
        "^" => left ^ right,
        "&&" => i32::from(left != 0 && right != 0),
        "||" => i32::from(left != 0 || right != 0),
        "==" => i32::from(left == right),
        "!=" => i32::from(left != right),
        "<" => i32::from(left < right),
        ">" => i32::from(left > right),
        "<=" => i32::from(left <= right),
        ">=" => i32::from(left >= right),
        _ => return None,
    })
}
