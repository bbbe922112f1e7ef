//! Tokens become declarations and functions.

mod expression;
mod statement;

use std::collections::HashSet;
use std::sync::Arc;

use super::ShaderError;
use super::syntax::{Declared, Expression, Function, Global, Name, Parameter, Spelled};
use super::token::{Kind, Token};

/// Most statements and expressions that stand in one another.
const DEEPEST: usize = 64;

/// The types that have a name of their own.
pub(super) const TYPES: [&str; 22] = [
    "void",
    "float",
    "int",
    "uint",
    "bool",
    "vec2",
    "vec3",
    "vec4",
    "ivec2",
    "ivec3",
    "ivec4",
    "uvec2",
    "uvec3",
    "uvec4",
    "bvec2",
    "bvec3",
    "bvec4",
    "mat2",
    "mat3",
    "mat4",
    "sampler2D",
    "struct",
];

/// Words that say how exactly a type is to be computed; here everything is `highp`.
const PRECISIONS: [&str; 3] = ["highp", "mediump", "lowp"];

/// Words that may stand before a type, and change nothing here.
const MODIFIERS: [&str; 4] = ["invariant", "flat", "smooth", "centroid"];

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The names of structures.
    structs: HashSet<Name>,
    /// What was declared outside of functions.
    globals: Vec<Global>,
}

/// What a whole source declares.
pub(super) fn unit(tokens: Vec<Token>) -> Result<Vec<Global>, ShaderError> {
    let mut parser = Parser::over(tokens);
    while parser.peek().is_some() {
        parser.global()?;
    }
    Ok(parser.globals)
}

/// A single expression, as behind `#if`.
pub(super) fn constant(tokens: Vec<Token>, line: u32) -> Result<Expression, ShaderError> {
    let mut parser = Parser::over(tokens);
    let expression = parser.expression()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(ShaderError::new(line, "there is more behind the condition")),
    }
}

impl Parser {
    fn over(tokens: Vec<Token>) -> Self {
        Self {
            tokens,
            at: 0,
            depth: 0,
            structs: HashSet::new(),
            globals: Vec::new(),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn line(&self) -> u32 {
        let token = self.peek().or(self.tokens.last());
        token.map_or(1, |token| token.line)
    }

    fn is(&self, sign: &str) -> bool {
        self.peek().is_some_and(|token| token.is(sign))
    }

    fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    /// The name that stands here.
    fn word(&self) -> Option<&str> {
        self.peek().and_then(Token::name)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is = self.is(sign);
        self.at += usize::from(is);
        is
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }

    fn needs(&mut self, sign: &str) -> Result<(), ShaderError> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("'{sign}' is expected"))),
        }
    }

    fn wrong(&self, message: &str) -> ShaderError {
        let found = match self.peek() {
            Some(token) => format!("{message}, and {} stands here", token.shown()),
            None => format!("{message}, and the shader ends here"),
        };
        ShaderError::new(self.line(), found)
    }

    fn name(&mut self) -> Result<Name, ShaderError> {
        let token = self.peek().cloned();
        let Some(Token {
            kind: Kind::Name(name),
            ..
        }) = token
        else {
            return Err(self.wrong("a name is expected"));
        };
        self.at += 1;
        Ok(name)
    }

    /// One level deeper, for as long as `parse` runs.
    fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, ShaderError>,
    ) -> Result<T, ShaderError> {
        if self.depth == DEEPEST {
            return Err(self.wrong(&format!(
                "more than {DEEPEST} levels of brackets and blocks stand in one another"
            )));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Whether a type begins here.
    fn is_type(&self) -> bool {
        self.word().is_some_and(|word| {
            TYPES.contains(&word) || self.structs.contains(word) || PRECISIONS.contains(&word)
        })
    }

    fn kind(&mut self) -> Result<Spelled, ShaderError> {
        let line = self.line();
        while self.word().is_some_and(|word| PRECISIONS.contains(&word)) {
            self.at += 1;
        }
        let name = self.name()?;
        if !TYPES.contains(&&*name) && !self.structs.contains(&name) {
            let message = format!("the type '{name}' is unknown here");
            return Err(ShaderError::new(line, message));
        }
        let length = self.length()?;
        Ok(Spelled { line, name, length })
    }

    /// The brackets of an array, if there are any.
    fn length(&mut self) -> Result<Option<Option<Arc<Expression>>>, ShaderError> {
        if !self.takes("[") {
            return Ok(None);
        }
        if self.takes("]") {
            return Ok(Some(None));
        }
        let length = self.expression()?;
        self.needs("]")?;
        Ok(Some(Some(Arc::new(length))))
    }

    /// The length of an array behind a name, which counts like one behind the type.
    fn arrayed(&mut self, kind: &Spelled) -> Result<Spelled, ShaderError> {
        let length = self.length()?;
        if length.is_some() && kind.length.is_some() {
            return Err(self.wrong("GLSL ES 3.00 has no arrays of arrays"));
        }
        Ok(Spelled {
            length: length.or_else(|| kind.length.clone()),
            ..kind.clone()
        })
    }

    fn global(&mut self) -> Result<(), ShaderError> {
        if self.takes(";") {
            return Ok(());
        }
        if self.takes_word("precision") {
            self.kind()?;
            return self.needs(";");
        }
        let mut location = None;
        if self.takes_word("layout") {
            self.needs("(")?;
            if !self.takes_word("location") {
                return Err(self.wrong("'location' is the only layout of a shader like this"));
            }
            self.needs("=")?;
            location = Some(Arc::new(self.expression()?));
            self.needs(")")?;
        }
        let mut role = "";
        loop {
            match self.word() {
                Some(word) if MODIFIERS.contains(&word) => {}
                Some("uniform") => role = "uniform",
                Some("const") => role = "const",
                Some("in") => role = "in",
                Some("out") => role = "out",
                Some(_) | None => break,
            }
            self.at += 1;
        }
        if self.is_word("struct") {
            return self.structure();
        }
        let kind = self.kind()?;
        if role.is_empty()
            && self
                .tokens
                .get(self.at + 1)
                .is_some_and(|token| token.is("("))
        {
            return self.function(kind);
        }
        for declared in self.declarations(&kind, role == "const")? {
            self.globals.push(match role {
                "uniform" => Global::Uniform(declared),
                "in" => Global::Input(declared),
                "out" => Global::Output(declared, location.clone()),
                _ => Global::Variable(declared),
            });
        }
        Ok(())
    }

    /// Variables of one type, up to the semicolon.
    fn declarations(
        &mut self,
        kind: &Spelled,
        is_constant: bool,
    ) -> Result<Vec<Declared>, ShaderError> {
        let mut all = Vec::new();
        loop {
            let name = self.name()?;
            let kind = self.arrayed(kind)?;
            let value = match self.takes("=") {
                true => Some(self.assignment()?),
                false => None,
            };
            all.push(Declared {
                kind,
                name,
                value,
                is_constant,
            });
            if !self.takes(",") {
                self.needs(";")?;
                return Ok(all);
            }
        }
    }

    fn structure(&mut self) -> Result<(), ShaderError> {
        let line = self.line();
        self.at += 1;
        let name = self.name()?;
        self.needs("{")?;
        let mut fields = Vec::new();
        while !self.takes("}") {
            let kind = self.kind()?;
            loop {
                let name = self.name()?;
                fields.push((self.arrayed(&kind)?, name));
                if !self.takes(",") {
                    break;
                }
            }
            self.needs(";")?;
        }
        self.structs.insert(Name::clone(&name));
        self.globals
            .push(Global::Struct(Name::clone(&name), fields, line));
        if self.takes(";") {
            return Ok(());
        }
        let kind = Spelled {
            line,
            name,
            length: None,
        };
        let declared = self.declarations(&kind, false)?;
        self.globals
            .extend(declared.into_iter().map(Global::Variable));
        Ok(())
    }

    fn function(&mut self, result: Spelled) -> Result<(), ShaderError> {
        let line = self.line();
        let name = self.name()?;
        self.needs("(")?;
        let mut parameters = Vec::new();
        if self.is_word("void")
            && self
                .tokens
                .get(self.at + 1)
                .is_some_and(|token| token.is(")"))
        {
            self.at += 1;
        }
        while !self.takes(")") {
            parameters.push(self.parameter()?);
            if !self.is(")") {
                self.needs(",")?;
            }
        }
        let body = match self.takes(";") {
            true => None,
            false => Some(self.block()?),
        };
        self.globals.push(Global::Function(Function {
            line,
            result,
            name,
            parameters,
            body,
        }));
        Ok(())
    }

    fn parameter(&mut self) -> Result<Parameter, ShaderError> {
        let (mut is_in, mut is_out) = (true, false);
        loop {
            match self.word() {
                Some("const" | "in") => {}
                Some("out") => (is_in, is_out) = (false, true),
                Some("inout") => (is_in, is_out) = (true, true),
                Some(_) | None => break,
            }
            self.at += 1;
        }
        let kind = self.kind()?;
        // A parameter that is not used needs no name.
        let name = match self.word() {
            Some(_) => self.name()?,
            None => Name::from(""),
        };
        let kind = self.arrayed(&kind)?;
        Ok(Parameter {
            kind,
            name,
            is_in,
            is_out,
        })
    }
}
