//! Directives and macros: what is left of a source before it is parsed.

use std::collections::HashMap;
use std::sync::Arc;

use super::token::{self, Kind, Token};
use super::{ShaderError, parse};

/// Most tokens that replacing the macros of a source may read and make, those of the source counted.
const MOST_TOKENS: usize = 1 << 17;

/// Most macros that stand in one another.
const DEEPEST: usize = 32;

struct Macro {
    parameters: Option<Vec<Arc<str>>>,
    body: Vec<Token>,
}

#[derive(Default)]
struct Preprocessor {
    macros: HashMap<Arc<str>, Macro>,
    /// For every `#if` around: whether its lines count, and whether one of its parts did.
    conditions: Vec<(bool, bool)>,
    pending: Vec<Token>,
    tokens: Vec<Token>,
    made: usize,
    /// Arguments that are being replaced, each inside of the one before.
    depth: usize,
}

/// The tokens of a source with its macros replaced.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, ShaderError> {
    let source = without_comments(source);
    let mut all = Preprocessor::default();
    for (name, value) in [
        ("GL_ES", 1),
        ("__VERSION__", 300),
        ("GL_FRAGMENT_PRECISION_HIGH", 1),
    ] {
        let kind = Kind::Int(value);
        let body = vec![Token::new(kind, 0)];
        all.macros.insert(
            name.into(),
            Macro {
                parameters: None,
                body,
            },
        );
    }
    let mut has_version = false;
    let mut line = 0;
    let mut lines = source.lines();
    while let Some(first) = lines.next() {
        line += 1;
        let begin = line;
        let mut text = first.to_owned();
        while text.ends_with('\\') {
            text.pop();
            text += lines.next().unwrap_or_default();
            line += 1;
        }
        let Some(directive) = text.trim_start().strip_prefix('#') else {
            if all.counts() {
                token::of_line(&text, begin, &mut all.pending)?;
            }
            continue;
        };
        all.flush()?;
        let directive = directive.trim();
        if let Some(version) = directive.strip_prefix("version") {
            let is_known = version.split_whitespace().eq(["300", "es"]);
            has_version = is_known && all.tokens.is_empty();
            if !has_version {
                break;
            }
        } else {
            all.directive(directive, begin)?;
        }
    }
    if !has_version {
        let message = "a shader must begin with the line '#version 300 es'; others do not run here";
        return Err(ShaderError::new(1, message));
    }
    all.flush()?;
    match all.conditions.is_empty() {
        true => Ok(all.tokens),
        false => Err(ShaderError::new(line, "an #if has no #endif")),
    }
}

/// The source with a space in place of every comment, and all its line ends.
fn without_comments(source: &str) -> String {
    let source = source.replace("\r\n", "\n");
    let mut kept = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(at) = rest.find('/') {
        kept += &rest[..at];
        rest = &rest[at..];
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").unwrap_or(comment.len());
            kept.push(' ');
            kept.extend(comment[..end].chars().filter(|c| *c == '\n'));
            rest = comment[end..].strip_prefix("*/").unwrap_or_default();
        } else {
            kept.push('/');
            rest = &rest[1..];
        }
    }
    kept + rest
}

impl Preprocessor {
    /// Whether the lines count that are read now.
    fn counts(&self) -> bool {
        self.conditions.iter().all(|(counts, _)| *counts)
    }

    /// Replaces the macros of the lines since the last directive: a call may go over several lines.
    fn flush(&mut self) -> Result<(), ShaderError> {
        let pending = std::mem::take(&mut self.pending);
        let mut tokens = std::mem::take(&mut self.tokens);
        self.expand(&pending, &mut Vec::new(), &mut tokens)?;
        self.tokens = tokens;
        Ok(())
    }

    fn directive(&mut self, text: &str, line: u32) -> Result<(), ShaderError> {
        let end = text.find(|c: char| !c.is_ascii_alphabetic());
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        let rest = rest.trim();
        let wrong = |message: &str| Err(ShaderError::new(line, message));
        match name {
            "if" | "ifdef" | "ifndef" => {
                let is_true = self.counts()
                    && match name {
                        "if" => self.holds(rest, line)?,
                        _ => self.macros.contains_key(rest) == (name == "ifdef"),
                    };
                self.conditions.push((is_true, is_true));
            }
            "elif" | "else" => {
                let Some((_, done)) = self.conditions.pop() else {
                    return wrong("there is no #if before this");
                };
                let counts =
                    !done && self.counts() && (name == "else" || self.holds(rest, line)?);
                self.conditions.push((counts, done || counts));
            }
            "endif" if self.conditions.pop().is_none() => {
                return wrong("there is no #if before this");
            }
            _ if !self.counts() => {}
            "define" => self.define(rest, line)?,
            "undef" => {
                self.macros.remove(rest);
            }
            "error" => return wrong(&format!("#error {rest}")),
            "extension" if rest.ends_with("require") => {
                return wrong(
                    "no extension of GLSL runs here; take the line away if the shader can do without",
                );
            }
            "" | "endif" | "pragma" | "extension" | "line" => {}
            _ => return wrong(&format!("the directive '#{name}' is unknown")),
        }
        Ok(())
    }

    fn define(&mut self, text: &str, line: u32) -> Result<(), ShaderError> {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        if name.is_empty() {
            return Err(ShaderError::new(line, "#define needs a name"));
        }
        // Only a bracket right behind the name begins parameters.
        let (parameters, body) = match rest.strip_prefix('(') {
            None => (None, rest),
            Some(rest) => {
                let (names, body) = rest.split_once(')').ok_or_else(|| {
                    ShaderError::new(line, "the parameters of a macro need a ')'")
                })?;
                let names = names
                    .split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty());
                (Some(names.map(Arc::from).collect()), body)
            }
        };
        let mut tokens = Vec::new();
        token::of_line(body, line, &mut tokens)?;
        let body = tokens;
        self.macros.insert(name.into(), Macro { parameters, body });
        Ok(())
    }

    /// Whether the condition of an `#if` holds.
    fn holds(&mut self, text: &str, line: u32) -> Result<bool, ShaderError> {
        let mut tokens = Vec::new();
        token::of_line(text, line, &mut tokens)?;
        let mut known = Vec::new();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            if token.name() != Some("defined") {
                known.push(token);
                continue;
            }
            let is_bracketed = tokens.next_if(|token| token.is("(")).is_some();
            let name = tokens.next();
            let name = name.as_ref().and_then(Token::name).unwrap_or_default();
            let kind = Kind::Int(i32::from(self.macros.contains_key(name)));
            known.push(Token::new(kind, line));
            if is_bracketed {
                tokens.next_if(|token| token.is(")"));
            }
        }
        let mut expanded = Vec::new();
        self.expand(&known, &mut Vec::new(), &mut expanded)?;
        let value = parse::constant(expanded, line)?.whole(&|_| None);
        let wrong = "the condition of #if must be of whole numbers and macros";
        let value = value.ok_or_else(|| ShaderError::new(line, wrong))?;
        Ok(value != 0)
    }

    /// Counts tokens that are read or made.
    fn count(&mut self, tokens: usize, line: u32) -> Result<(), ShaderError> {
        self.made += tokens;
        match self.made > MOST_TOKENS {
            true => Err(too_many(line)),
            false => Ok(()),
        }
    }

    fn expand(
        &mut self,
        tokens: &[Token],
        within: &mut Vec<Arc<str>>,
        into: &mut Vec<Token>,
    ) -> Result<(), ShaderError> {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            self.count(1, token.line)?;
            let name = match &token.kind {
                Kind::Name(name) if within.contains(name) => {
                    let mut token = token.clone();
                    token.is_final = true;
                    into.push(token);
                    continue;
                }
                Kind::Name(name) if !token.is_final => name,
                Kind::Name(_) | Kind::Float(_) | Kind::Int(_) | Kind::Uint(_) | Kind::Sign(_) => {
                    into.push(token.clone());
                    continue;
                }
            };
            let Some(found) = self.macros.get(name) else {
                into.push(token.clone());
                continue;
            };
            if within.len() == DEEPEST {
                return Err(too_deep(token.line));
            }
            let mut body = Vec::new();
            match &found.parameters {
                None => {
                    body.extend_from_slice(&found.body);
                    self.count(body.len(), token.line)?;
                }
                Some(_) if !tokens.get(at).is_some_and(|token| token.is("(")) => {
                    into.push(token.clone());
                    continue;
                }
                Some(parameters) => {
                    let (arguments, end) = arguments(tokens, at + 1).ok_or_else(|| {
                        ShaderError::new(token.line, format!("'{name}(' needs a ')'"))
                    })?;
                    at = end;
                    let is_empty = parameters.is_empty() && arguments == [&[]];
                    if !is_empty && arguments.len() != parameters.len() {
                        let message =
                            format!("the macro '{name}' takes {} arguments", parameters.len());
                        return Err(ShaderError::new(token.line, message));
                    }
                    let body_of_macro = found.body.clone();
                    let names = parameters.clone();
                    // Arguments are replaced on their own first: one may call the same macro.
                    let mut replaced = HashMap::new();
                    for (name, argument) in names.iter().zip(arguments) {
                        if self.depth == DEEPEST {
                            return Err(too_deep(token.line));
                        }
                        let mut tokens = Vec::new();
                        self.depth += 1;
                        self.expand(argument, within, &mut tokens)?;
                        self.depth -= 1;
                        replaced.insert(&**name, tokens);
                    }
                    for part in body_of_macro {
                        let argument = part.name().and_then(|name| replaced.get(name));
                        // A part that an empty argument stands for is work, too.
                        self.count(1 + argument.map_or(0, Vec::len), token.line)?;
                        match argument {
                            Some(argument) => body.extend_from_slice(argument),
                            None => body.push(part),
                        }
                    }
                }
            }
            // Errors name the line of the call, not the line of the macro.
            body.iter_mut().for_each(|part| part.line = token.line);
            within.push(Arc::clone(name));
            self.expand(&body, within, into)?;
            within.pop();
        }
        Ok(())
    }
}

/// The arguments of a call that begin at a token, and where the call ends.
fn arguments(tokens: &[Token], begin: usize) -> Option<(Vec<&[Token]>, usize)> {
    let mut arguments = Vec::new();
    let (mut depth, mut first) = (0, begin);
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        if depth == 0 && (token.is(",") || token.is(")")) {
            arguments.push(&tokens[first..at]);
            first = at + 1;
            if token.is(")") {
                return Some((arguments, first));
            }
        } else if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth -= 1;
        }
    }
    None
}

fn too_deep(line: u32) -> ShaderError {
    let message = format!("macros are nested more than {DEEPEST} deep");
    ShaderError::new(line, message)
}

fn too_many(line: u32) -> ShaderError {
    let message = format!("with its macros the shader has more than {MOST_TOKENS} tokens");
    ShaderError::new(line, message)
}
