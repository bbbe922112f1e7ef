//! Statements of a function.

use super::super::ShaderError;
use super::super::syntax::{Case, Condition, Declared, Looped, Statement};
use super::Parser;

impl Parser {
    /// Statements between braces.
    pub(super) fn block(&mut self) -> Result<Vec<Statement>, ShaderError> {
        self.needs("{")?;
        self.deeper(|parser| {
            let mut statements = Vec::new();
            while !parser.takes("}") {
                statements.push(parser.statement()?);
            }
            Ok(statements)
        })
    }

    fn statement(&mut self) -> Result<Statement, ShaderError> {
        if self.is("{") {
            return Ok(Statement::Block(self.block()?));
        }
        if self.takes(";") {
            return Ok(Statement::Block(Vec::new()));
        }
        let line = self.line();
        let word = self.word().unwrap_or_default().to_owned();
        match &*word {
            "if" => self.deeper(Self::condition),
            "for" | "while" | "do" => self.deeper(|parser| parser.repeated(&word)),
            "switch" => self.deeper(Self::switch),
            "return" => {
                self.at += 1;
                let value = match self.is(";") {
                    true => None,
                    false => Some(self.expression()?),
                };
                self.needs(";")?;
                Ok(Statement::Return(line, value))
            }
            "break" | "continue" | "discard" => {
                self.at += 1;
                self.needs(";")?;
                let words = ["break", "continue", "discard"];
                let word = words.into_iter().find(|known| *known == word);
                Ok(Statement::Leave(line, word.unwrap_or("break")))
            }
            "else" | "case" | "default" => Err(self.wrong("a statement is expected")),
            "struct" => Err(self.wrong("structures are declared outside of functions here")),
            _ => self.simple(),
        }
    }

    /// A declaration or an expression, with its semicolon.
    fn simple(&mut self) -> Result<Statement, ShaderError> {
        let is_constant = self.takes_word("const");
        // A type with a bracket behind it makes a value.
        let begin = self.at;
        if is_constant || self.is_type() {
            let kind = self.kind()?;
            if !self.is("(") {
                return Ok(Statement::Declare(self.declarations(&kind, is_constant)?));
            }
            self.at = begin;
        }
        let expression = self.expression()?;
        self.needs(";")?;
        Ok(Statement::Evaluate(expression))
    }

    fn condition(&mut self) -> Result<Statement, ShaderError> {
        self.at += 1;
        self.needs("(")?;
        let condition = self.expression()?;
        self.needs(")")?;
        let chosen = Box::new(self.statement()?);
        let other = match self.takes_word("else") {
            true => Some(Box::new(self.deeper(Self::statement)?)),
            false => None,
        };
        Ok(Statement::If(condition, chosen, other))
    }

    fn repeated(&mut self, word: &str) -> Result<Statement, ShaderError> {
        let line = self.line();
        self.at += 1;
        let mut looped = Looped {
            line,
            first: None,
            condition: None,
            step: None,
            body: Statement::Block(Vec::new()),
            body_first: word == "do",
        };
        if word == "do" {
            looped.body = self.statement()?;
            if !self.takes_word("while") {
                return Err(self.wrong("'while' is expected"));
            }
            self.needs("(")?;
            looped.condition = Some(Condition::Is(self.expression()?));
            self.needs(")")?;
            self.needs(";")?;
            return Ok(Statement::Loop(Box::new(looped)));
        }
        self.needs("(")?;
        if word == "for" {
            if !self.takes(";") {
                looped.first = Some(self.simple()?);
            }
            if !self.is(";") {
                looped.condition = Some(self.asked()?);
            }
            self.needs(";")?;
            if !self.is(")") {
                looped.step = Some(self.expression()?);
            }
        } else {
            looped.condition = Some(self.asked()?);
        }
        self.needs(")")?;
        looped.body = self.statement()?;
        Ok(Statement::Loop(Box::new(looped)))
    }

    fn asked(&mut self) -> Result<Condition, ShaderError> {
        let begin = self.at;
        if self.is_type() {
            let kind = self.kind()?;
            if !self.is("(") {
                let name = self.name()?;
                self.needs("=")?;
                let value = Some(self.assignment()?);
                let is_constant = false;
                return Ok(Condition::Declares(Declared {
                    kind,
                    name,
                    value,
                    is_constant,
                }));
            }
            self.at = begin;
        }
        Ok(Condition::Is(self.expression()?))
    }

    fn switch(&mut self) -> Result<Statement, ShaderError> {
        self.at += 1;
        self.needs("(")?;
        let value = self.expression()?;
        self.needs(")")?;
        self.needs("{")?;
        let mut cases: Vec<Case> = Vec::new();
        while !self.takes("}") {
            let label = if self.takes_word("case") {
                Some(self.expression()?)
            } else if self.takes_word("default") {
                None
            } else {
                let Some(case) = cases.last_mut() else {
                    return Err(self.wrong("'case' is expected"));
                };
                let mut body = std::mem::take(&mut case.body);
                body.push(self.statement()?);
                if let Some(case) = cases.last_mut() {
                    case.body = body;
                }
                continue;
            };
            self.needs(":")?;
            match cases.last_mut() {
                Some(case) if case.body.is_empty() => case.labels.push(label),
                Some(_) | None => cases.push(Case {
                    labels: vec![label],
                    body: Vec::new(),
                }),
            }
        }
        Ok(Statement::Switch(value, cases))
    }
}
