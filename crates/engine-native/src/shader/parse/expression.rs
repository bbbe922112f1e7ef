//! Expressions, by the strength of their operators.

use super::super::ShaderError;
use super::super::syntax::{Expression, Form, Spelled};
use super::super::token::{Kind, Token};
use super::Parser;

/// Operators between two values, the weakest first.
const BINARY: [&[&str]; 11] = [
    &["||"],
    &["^^"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

const ASSIGNMENTS: [(&str, Option<&str>); 11] = [
    ("=", None),
    ("+=", Some("+")),
    ("-=", Some("-")),
    ("*=", Some("*")),
    ("/=", Some("/")),
    ("%=", Some("%")),
    ("&=", Some("&")),
    ("|=", Some("|")),
    ("^=", Some("^")),
    ("<<=", Some("<<")),
    (">>=", Some(">>")),
];

impl Parser {
    /// An expression, with commas.
    pub(super) fn expression(&mut self) -> Result<Expression, ShaderError> {
        let mut left = self.assignment()?;
        while self.is(",") {
            let line = self.line();
            self.at += 1;
            let right = self.assignment()?;
            left = Expression::new(line, Form::Comma(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    /// An expression without commas at its top.
    pub(super) fn assignment(&mut self) -> Result<Expression, ShaderError> {
        self.deeper(|parser| {
            let line = parser.line();
            let left = parser.selection()?;
            let found = ASSIGNMENTS.into_iter().find(|(sign, _)| parser.is(sign));
            let Some((_, operator)) = found else {
                return Ok(left);
            };
            parser.at += 1;
            let right = parser.assignment()?;
            Expression::new(
                line,
                Form::Assign(operator, Box::new(left), Box::new(right)),
            )
        })
    }

    fn selection(&mut self) -> Result<Expression, ShaderError> {
        let line = self.line();
        let condition = self.binary(0)?;
        if !self.takes("?") {
            return Ok(condition);
        }
        let chosen = self.deeper(Self::expression)?;
        self.needs(":")?;
        let other = self.assignment()?;
        Expression::new(line, Form::Select(Box::new([condition, chosen, other])))
    }

    fn binary(&mut self, level: usize) -> Result<Expression, ShaderError> {
        let Some(signs) = BINARY.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let line = self.line();
            let sign = signs.iter().find(|sign| self.is(sign));
            let Some(sign) = sign else {
                return Ok(left);
            };
            self.at += 1;
            let right = self.binary(level + 1)?;
            left = Expression::new(line, Form::Binary(sign, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Result<Expression, ShaderError> {
        let line = self.line();
        let sign = ["++", "--", "+", "-", "!", "~"];
        let sign = sign.into_iter().find(|sign| self.is(sign));
        let Some(sign) = sign else {
            return self.postfix();
        };
        self.at += 1;
        let inner = Box::new(self.deeper(Self::unary)?);
        Expression::new(
            line,
            match sign {
                "++" | "--" => Form::Step(sign, true, inner),
                _ => Form::Unary(sign, inner),
            },
        )
    }

    fn postfix(&mut self) -> Result<Expression, ShaderError> {
        let mut value = self.primary()?;
        loop {
            let line = self.line();
            let form = if self.takes("[") {
                let index = self.deeper(Self::expression)?;
                self.needs("]")?;
                Form::Index(Box::new(value), Box::new(index))
            } else if self.takes(".") {
                let name = self.name()?;
                // `a.length()` is the only call of this form.
                if self.takes("(") {
                    self.needs(")")?;
                    Form::Call(format!(".{name}").into(), vec![value])
                } else {
                    Form::Field(Box::new(value), name)
                }
            } else if self.takes("++") {
                Form::Step("++", false, Box::new(value))
            } else if self.takes("--") {
                Form::Step("--", false, Box::new(value))
            } else {
                return Ok(value);
            };
            value = Expression::new(line, form)?;
        }
    }

    fn primary(&mut self) -> Result<Expression, ShaderError> {
        let line = self.line();
        if self.takes("(") {
            let inner = self.deeper(Self::expression)?;
            self.needs(")")?;
            return Ok(inner);
        }
        if self.is_type() {
            let Spelled { line, name, length } = self.kind()?;
            let arguments = self.arguments()?;
            return Expression::new(
                line,
                match length {
                    None => Form::Call(name, arguments),
                    Some(_) => Form::Array(Spelled { line, name, length }, arguments),
                },
            );
        }
        let form = match self.peek().cloned() {
            Some(Token {
                kind: Kind::Float(number),
                ..
            }) => Form::Float(number),
            Some(Token {
                kind: Kind::Int(number),
                ..
            }) => Form::Int(number),
            Some(Token {
                kind: Kind::Uint(number),
                ..
            }) => Form::Uint(number),
            Some(Token {
                kind: Kind::Name(name),
                ..
            }) => {
                self.at += 1;
                return Expression::new(
                    line,
                    match &*name {
                        "true" => Form::Bool(true),
                        "false" => Form::Bool(false),
                        _ if self.is("(") => Form::Call(name, self.arguments()?),
                        _ => Form::Name(name),
                    },
                );
            }
            Some(Token {
                kind: Kind::Sign(_),
                ..
            })
            | None => {
                return Err(self.wrong("a value is expected"));
            }
        };
        self.at += 1;
        Expression::new(line, form)
    }

    fn arguments(&mut self) -> Result<Vec<Expression>, ShaderError> {
        self.needs("(")?;
        if self.is_word("void") {
            self.at += 1;
        }
        let mut arguments = Vec::new();
        while !self.takes(")") {
            arguments.push(self.assignment()?);
            if !self.is(")") {
                self.needs(",")?;
            }
        }
        Ok(arguments)
    }
}
