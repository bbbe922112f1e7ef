//! Rewrites a pattern of Python's `re` for an engine with another spelling of the same things.
//!
//! What differs: `\Z`, what `\s` and `\w` hold, octal escapes, `{` that is no repetition, brackets, dashes and operators inside
//! a class, comments, flags, lookarounds that repeat, and what Python refuses. The other engine knows no `(?a)`: what follows it
//! is spelled with the letters of ASCII.

use std::collections::HashSet;

use super::pattern::PatternError;

/// The pattern in the other spelling.
///
/// # Errors
/// If it holds what Python refuses and the other engine would take.
pub(super) fn rewritten(pattern: &str) -> Result<String, PatternError> {
    let mut reader = Reader {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        state: State::default(),
        open: Vec::new(),
        names: HashSet::new(),
    };
    // Nothing but flags and comments was read.
    let mut is_start = true;
    let mut is_after_anchor = false;
    while let Some(character) = reader.next() {
        if reader.state.verbose && character == '#' {
            reader.line();
            continue;
        }
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
            '(' if reader.rest.starts_with("?#") => {
                reader.comment()?;
                continue;
            }
            '(' => match reader.flags(is_start)? {
                Flags::Whole => continue,
                Flags::Group => {}
                Flags::None => reader.group()?,
            },
            ')' => reader.close(),
            _ => reader.out.push(character),
        }
        is_start = false;
    }
    Ok(reader.out)
}

/// Bytes between the braces of a repetition: two numbers beyond any that can be repeated.
const MAX_BOUNDS_BYTES: usize = 48;

/// What no engine here looks through: a first part that takes nothing hides what the other parser refuses to repeat.
const HIDING: &str = "a{0}";

/// What `\w` holds of ASCII, inside a class.
const ASCII_WORDS: &str = "a-zA-Z0-9_";

/// What `\s` holds of ASCII, inside a class.
const ASCII_SPACES: &str = r"\x20\t-\r";

struct Reader<'p> {
    rest: &'p str,
    out: String,
    state: State,
    /// The groups around.
    open: Vec<Open>,
    names: HashSet<&'p str>,
}

/// The flags that the other engine does not keep track of.
#[derive(Clone, Copy, Default)]
struct State {
    /// `\w`, `\d`, `\s` and `\b` know ASCII only.
    ascii: bool,
    /// Lines may end in comments.
    verbose: bool,
}

/// What the flags behind a bracket are for.
enum Flags {
    /// There are none.
    None,
    /// The whole pattern.
    Whole,
    /// A group, which has begun with them.
    Group,
}

/// A group that has not ended.
struct Open {
    /// The flags before it.
    state: State,
    /// Where it begins in what was written.
    at: usize,
    is_lookaround: bool,
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
            'w' | 'W' | 'd' | 'D' | 's' | 'S' if self.state.ascii => {
                self.ascii_set(character, in_class)
            }
            'b' | 'B' if self.state.ascii && !in_class => self.ascii_boundary(character == 'b'),
            'N' if self.rest.starts_with('{') => return Err(PatternError::NamedCharacter),
            's' if in_class => self.out.push_str(r"\s\x1c-\x1f"),
            's' => self.out.push_str(r"[\s\x1c-\x1f]"),
            'S' if !in_class => self.out.push_str(r"[^\s\x1c-\x1f]"),
            'w' if in_class => self.out.push_str(r"\p{L}\p{N}_"),
            'w' => self.out.push_str(r"[\p{L}\p{N}_]"),
            'W' if !in_class => self.out.push_str(r"[^\p{L}\p{N}_]"),
            'b' if in_class => self.out.push_str(r"\x08"),
            // No character follows; the other engine's `\z` is what `$` is read as.
            'Z' if !in_class => self.out.push_str(r"(?!\O)"),
            '0'..='9' => self.number(character, in_class)?,
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
            // Between lines with comments a blank that stands for itself would be none.
            _ if character.is_whitespace() => self
                .out
                .push_str(&format!("\\x{{{:x}}}", u32::from(character))),
            _ => self.out.push(character),
        }
        Ok(())
    }

    fn ascii_set(&mut self, escape: char, in_class: bool) {
        let set = match escape.to_ascii_lowercase() {
            'w' => ASCII_WORDS,
            's' => ASCII_SPACES,
            _ => "0-9",
        };
        // In either case it would hold two letters beyond ASCII.
        self.out
            .push_str(&match (escape.is_ascii_uppercase(), in_class) {
                (false, false) => format!("(?-i:[{set}])"),
                (false, true) => set.to_owned(),
                (true, false) => format!("(?-i:[^{set}])"),
                (true, true) => format!("[^{set}]"),
            });
    }

    fn ascii_boundary(&mut self, is_boundary: bool) {
        let (ahead, not_ahead) = (
            format!("(?=[{ASCII_WORDS}])"),
            format!("(?![{ASCII_WORDS}])"),
        );
        let (behind, not_behind) = (
            format!("(?<=[{ASCII_WORDS}])"),
            format!("(?<![{ASCII_WORDS}])"),
        );
        self.out.push_str(&match is_boundary {
            true => format!("(?-i:{behind}{not_ahead}|{not_behind}{ahead})"),
            false => format!("(?-i:{behind}{ahead}|{not_behind}{not_ahead})"),
        });
    }

    /// A group's number, or a character by octal digits: three of them, any after a 0, and always inside a class.
    fn number(&mut self, first: char, in_class: bool) -> Result<(), PatternError> {
        let is_octal = |byte: &u8| (b'0'..=b'7').contains(byte);
        let more = self.rest.bytes().take(2).take_while(is_octal).count();
        let octal = first <= '7' && (first == '0' || in_class || more == 2);
        if !octal {
            self.out.extend(['\\', first]);
            return Ok(());
        }
        let digits = format!("{first}{}", &self.rest[..more]);
        self.rest = &self.rest[more..];
        let code = u32::from_str_radix(&digits, 8).unwrap_or(0);
        if code > 0o377 {
            return Err(broken("octal escape value outside of range 0-0o377"));
        }
        self.out.push_str(&format!("\\x{{{code:x}}}"));
        Ok(())
    }

    /// A class: a first `]` and every `[` are themselves, and so is what the other engine takes for an operator. A dash stands
    /// for itself behind a range, and at either end.
    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            self.out.push('^');
        }
        loop {
            let is_set = self.item()?;
            let range = self.rest.strip_prefix('-');
            if let Some(rest) = range.filter(|rest| !rest.starts_with(']')) {
                self.rest = rest;
                self.out.push('-');
                if self.item()? || is_set {
                    return Err(broken("bad character range"));
                }
            }
            if let Some(rest) = self.rest.strip_prefix(']') {
                self.rest = rest;
                self.out.push(']');
                return Ok(());
            }
        }
    }

    /// A character in a class, or a set; whether it is a set.
    fn item(&mut self) -> Result<bool, PatternError> {
        let character = self.next();
        let character = character.ok_or_else(|| broken("unterminated character set"))?;
        match character {
            '\\' => {
                let is_set = self.rest.starts_with(['d', 'D', 's', 'S', 'w', 'W']);
                self.escape(true)?;
                return Ok(is_set);
            }
            '[' | ']' | '&' | '~' | '-' | '^' => self.out.extend(['\\', character]),
            _ => self.out.push(character),
        }
        Ok(false)
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

    /// Flags, behind an opening bracket: `(?on)` for the whole pattern, which is no part of it, and `(?on-off:` for a group.
    fn flags(&mut self, is_start: bool) -> Result<Flags, PatternError> {
        let is_flag =
            |character: char| character.is_ascii_lowercase() || matches!(character, 'L' | '-');
        let Some(inner) = self
            .rest
            .strip_prefix('?')
            .filter(|rest| rest.starts_with(is_flag))
        else {
            return Ok(Flags::None);
        };
        let letters = inner
            .split(|character| !is_flag(character))
            .next()
            .unwrap_or_default();
        let behind = &inner[letters.len()..];
        let (on, off) = match letters.split_once('-') {
            Some((on, off)) => (on, Some(off)),
            None => (letters, None),
        };
        let all_are = |text: &str, known: &str| text.chars().all(|flag| known.contains(flag));
        let off_is_well = off.is_none_or(|off| {
            !off.is_empty() && all_are(off, "imsx") && !off.chars().any(|flag| on.contains(flag))
        });
        let has_two_types = on.contains('a') && on.contains('u');
        if !all_are(on, "aimsux") || has_two_types || !off_is_well {
            return Err(broken("bad inline flags"));
        }
        let (at, before) = (self.out.len(), self.state);
        self.state.ascii = on.contains('a') || self.state.ascii && !on.contains('u');
        self.state.verbose =
            on.contains('x') || self.state.verbose && !off.is_some_and(|off| off.contains('x'));
        let kept: String = on
            .chars()
            .filter(|flag| !matches!(flag, 'a' | 'u'))
            .collect();
        if let (Some(behind), None) = (behind.strip_prefix(')'), off) {
            if !is_start {
                return Err(broken("global flags not at the start of the expression"));
            }
            if !kept.is_empty() {
                self.out.push_str(&format!("(?{kept})"));
            }
            self.rest = behind;
            return Ok(Flags::Whole);
        }
        let behind = behind
            .strip_prefix(':')
            .ok_or_else(|| broken("missing :"))?;
        self.rest = behind;
        self.open.push(Open {
            state: before,
            at,
            is_lookaround: false,
        });
        let off = off.map(|off| format!("-{off}")).unwrap_or_default();
        self.out.push_str(&format!("(?{kept}{off}:{HIDING}"));
        Ok(Flags::Group)
    }

    /// A group without flags, whose bracket was read.
    fn group(&mut self) -> Result<(), PatternError> {
        let kinds = ["?=", "?!", "?<=", "?<!"];
        self.open.push(Open {
            state: self.state,
            at: self.out.len(),
            is_lookaround: kinds.iter().any(|kind| self.rest.starts_with(kind)),
        });
        match self.rest.strip_prefix('?') {
            Some(inner) if inner.starts_with("P<") => self.group_name()?,
            Some(inner) if inner.starts_with('(') => self.condition(),
            Some(inner) if inner.starts_with(':') => {
                self.rest = &inner[1..];
                self.out.push_str("(?:");
                self.out.push_str(HIDING);
            }
            Some(inner)
                if !["=", "!", "<=", "<!", ">", "P="]
                    .iter()
                    .any(|kind| inner.starts_with(kind)) =>
            {
                return Err(broken("unknown extension"));
            }
            _ => self.out.push('('),
        }
        Ok(())
    }

    /// The end of a group.
    fn close(&mut self) {
        self.out.push(')');
        let Some(open) = self.open.pop() else {
            return;
        };
        self.state = open.state;
        let next = self.rest.chars().next();
        // The other parser refuses to repeat a lookaround.
        if open.is_lookaround && matches!(next, Some('*' | '+' | '?' | '{')) {
            self.out.insert_str(open.at, &format!("(?:{HIDING}"));
            self.out.push(')');
        }
    }

    /// A comment up to the end of its line.
    fn line(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    /// A group's name is a name of Python's, and no other group has it.
    fn group_name(&mut self) -> Result<(), PatternError> {
        let name = self.rest[3..].split('>').next().unwrap_or_default();
        let is_name = name
            .chars()
            .all(|character| character.is_alphanumeric() || character == '_');
        if !is_name || name.is_empty() || name.starts_with(char::is_numeric) {
            return Err(broken(&format!("bad character in group name {name:?}")));
        }
        if !self.names.insert(name) {
            return Err(broken(&format!("redefinition of group name {name:?}")));
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
