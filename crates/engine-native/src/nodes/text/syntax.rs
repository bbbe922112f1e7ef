//! Rewrites a pattern of Python's `re` for an engine with another spelling of the same things.
//!
//! What differs: `\Z`, what `\s` and `\w` hold, octal escapes, `{` that is no repetition, brackets and operators inside a
//! class, comments, and escapes that Python refuses.

use super::pattern::PatternError;

/// The pattern in the other spelling.
///
/// # Errors
/// If it holds what Python refuses and the other engine would take.
pub(super) fn rewritten(pattern: &str) -> Result<String, PatternError> {
    let mut reader = Reader {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
    };
    let mut is_after_anchor = false;
    while let Some(character) = reader.next() {
        let is_repetition =
            matches!(character, '*' | '+' | '?') || character == '{' && reader.bounds().is_some();
        if is_after_anchor && is_repetition {
            return Err(broken("nothing to repeat"));
        }
        let escaped = reader.rest.chars().next();
        is_after_anchor = matches!(character, '^' | '$')
            || character == '\\' && matches!(escaped, Some('A' | 'b' | 'B' | 'Z'));
        match character {
            '\\' => reader.escape(false)?,
            '[' => reader.class()?,
            '{' => reader.repetition(),
            '(' if reader.rest.starts_with("?#") => reader.comment()?,
            '(' if reader.rest.starts_with("?P<") => reader.group_name()?,
            '(' if reader.rest.starts_with("?(") => reader.condition(),
            '(' if reader.rest.starts_with("?:") => {
                // The other parser looks through this group and refuses to repeat what it finds; a first part that takes
                // nothing hides it.
                reader.rest = &reader.rest[2..];
                reader.out.push_str("(?:a{0}");
            }
            _ => reader.out.push(character),
        }
    }
    Ok(reader.out)
}

/// Bytes between the braces of a repetition: two numbers beyond any that can be repeated.
const MAX_BOUNDS_BYTES: usize = 48;

struct Reader<'p> {
    rest: &'p str,
    out: String,
}

impl<'p> Reader<'p> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    /// What follows a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), PatternError> {
        let Some(character) = self.next() else {
            return Err(broken("bad escape (end of pattern)"));
        };
        match character {
            's' if in_class => self.out.push_str(r"\s\x1c-\x1f"),
            's' => self.out.push_str(r"[\s\x1c-\x1f]"),
            'S' if !in_class => self.out.push_str(r"[^\s\x1c-\x1f]"),
            'w' if in_class => self.out.push_str(r"\p{L}\p{N}_"),
            'w' => self.out.push_str(r"[\p{L}\p{N}_]"),
            'W' if !in_class => self.out.push_str(r"[^\p{L}\p{N}_]"),
            'b' if in_class => self.out.push_str(r"\x08"),
            // No character follows; the other engine's `\z` is what `$` is read as.
            'Z' if !in_class => self.out.push_str(r"(?!\O)"),
            '0'..='9' => self.number(character, in_class),
            'a' | 'b' | 'B' | 'A' | 'd' | 'D' | 'S' | 'W' | 'f' | 'n' | 'r' | 't' | 'v' | 'x'
            | 'u' | 'U' => {
                let anchor = matches!(character, 'A' | 'B');
                if in_class && anchor {
                    return Err(broken(&format!("bad escape \\{character}")));
                }
                self.out.extend(['\\', character]);
            }
            _ if character.is_ascii_alphabetic() => {
                return Err(broken(&format!("bad escape \\{character}")));
            }
            // With a backslash these are boundaries of words there.
            '<' | '>' => self.out.push(character),
            _ if character.is_ascii_punctuation() => self.out.extend(['\\', character]),
            _ => self.out.push(character),
        }
        Ok(())
    }

    /// A group's number, or a character by octal digits: three of them, any after a 0, and always inside a class.
    fn number(&mut self, first: char, in_class: bool) {
        let is_octal = |byte: &u8| (b'0'..=b'7').contains(byte);
        let more = self.rest.bytes().take(2).take_while(is_octal).count();
        let octal = first <= '7' && (first == '0' || in_class || more == 2 && first <= '3');
        if !octal {
            self.out.extend(['\\', first]);
            return;
        }
        let digits = format!("{first}{}", &self.rest[..more]);
        self.rest = &self.rest[more..];
        let code = u32::from_str_radix(&digits, 8).unwrap_or(0);
        self.out.push_str(&format!("\\x{{{code:x}}}"));
    }

    /// A class: a first `]` and every `[` are themselves, and so is what the other engine takes for an operator.
    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            self.out.push('^');
        }
        if let Some(rest) = self.rest.strip_prefix(']') {
            self.rest = rest;
            self.out.push_str(r"\]");
        }
        while let Some(character) = self.next() {
            match character {
                ']' => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' | '&' | '~' => self.out.extend(['\\', character]),
                _ => self.out.push(character),
            }
        }
        Err(broken("unterminated character set"))
    }

    /// `{m}`, `{m,}`, `{,n}` and `{m,n}` repeat; any other brace is itself.
    fn repetition(&mut self) {
        let Some(inner) = self.bounds() else {
            self.out.push_str(r"\{");
            return;
        };
        let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
        let least = if least.is_empty() { "0" } else { least };
        self.out.push_str(&match inner.contains(',') {
            true => format!("{{{least},{most}}}"),
            false => format!("{{{least}}}"),
        });
        self.rest = &self.rest[inner.len() + 1..];
    }

    /// What is between the braces of a repetition, whose first one was read; `None` if it is none.
    fn bounds(&self) -> Option<&'p str> {
        // Looking further for the brace would take the square of the pattern's length.
        let mut ahead = self.rest.bytes().take(MAX_BOUNDS_BYTES);
        let inner = &self.rest[..ahead.position(|byte| byte == b'}')?];
        let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(least) && is_number(most) && !inner.is_empty()).then_some(inner)
    }

    /// A group's name is a name of Python's.
    fn group_name(&mut self) -> Result<(), PatternError> {
        let name = self.rest[3..].split('>').next().unwrap_or_default();
        let is_name = name
            .chars()
            .all(|character| character.is_alphanumeric() || character == '_');
        if !is_name || name.is_empty() || name.starts_with(char::is_numeric) {
            return Err(broken(&format!("bad character in group name {name:?}")));
        }
        self.out.push('(');
        Ok(())
    }

    /// The name of a group that decides between two branches stands in angle brackets there.
    fn condition(&mut self) {
        self.out.push_str("(?(");
        self.rest = &self.rest[2..];
        let name = self.rest.split(')').next().unwrap_or_default();
        match name.starts_with(|first: char| first.is_ascii_digit()) {
            true => self.out.push_str(name),
            false => self.out.push_str(&format!("<{name}>")),
        }
        self.rest = &self.rest[name.len()..];
        if let Some(rest) = self.rest.strip_prefix(')') {
            // Two branches that take nothing would be no condition there.
            self.rest = rest;
            self.out.push_str(")a{0}");
        }
    }

    fn comment(&mut self) -> Result<(), PatternError> {
        let (_, behind) = self
            .rest
            .split_once(')')
            .ok_or_else(|| broken("missing ), unterminated comment"))?;
        self.rest = behind;
        Ok(())
    }
}

fn broken(what: &str) -> PatternError {
    PatternError::Broken(what.to_owned())
}
