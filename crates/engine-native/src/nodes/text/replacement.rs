//! Replacements of Python's `re.sub`: `\1`, `\g<1>`, `\g<name>`, `\n` and the like.

use super::pattern::PatternError;

/// A replacement, read.
pub(super) struct Replacement(Vec<Piece>);

enum Piece {
    Text(String),
    Group(usize),
}

impl Replacement {
    /// Reads a replacement for a pattern with these groups, group 0 included; `None` stands for one without a name.
    ///
    /// # Errors
    /// If it names a group that is not there, or holds an escape that Python does not know.
    pub(super) fn new(template: &str, groups: &[Option<&str>]) -> Result<Self, PatternError> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some(at) = rest.find('\\') {
            pieces.push(Piece::Text(rest[..at].to_owned()));
            let (piece, behind) = escape(&rest[at + 1..])?;
            pieces.push(match piece {
                Escape::Text(character) => Piece::Text(character.to_string()),
                Escape::Number(number) => Piece::Group(known(number, groups)?),
                Escape::Name(name) => Piece::Group(named(name, groups)?),
            });
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// Appends the replacement of one match to `out`.
    ///
    /// # Errors
    /// If `out` would be longer than `most_bytes`.
    pub(super) fn write<'t>(
        &self,
        out: &mut String,
        most_bytes: usize,
        group: impl Fn(usize) -> &'t str,
    ) -> Result<(), PatternError> {
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => text,
                Piece::Group(number) => group(*number),
            };
            if out.len() + text.len() > most_bytes {
                return Err(PatternError::ResultTooLong(most_bytes));
            }
            out.push_str(text);
        }
        Ok(())
    }
}

enum Escape<'t> {
    Text(char),
    Number(usize),
    Name(&'t str),
}

/// Reads what follows a backslash; answers it and what is behind it.
fn escape(rest: &str) -> Result<(Escape<'_>, &str), PatternError> {
    let broken = |what: &str| PatternError::Template(what.to_owned());
    let Some(first) = rest.chars().next() else {
        return Err(broken("bad escape (end of pattern)"));
    };
    let behind = &rest[first.len_utf8()..];
    if first == 'g' {
        let name = behind
            .strip_prefix('<')
            .ok_or_else(|| broken("missing <"))?;
        let (name, behind) = name
            .split_once('>')
            .ok_or_else(|| broken("missing >, unterminated name"))?;
        return Ok((Escape::Name(name), behind));
    }
    if first.is_ascii_digit() {
        return number(rest);
    }
    let character = match first {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        _ if first.is_ascii_alphabetic() => {
            return Err(PatternError::Template(format!("bad escape \\{first}")));
        }
        '\\' => '\\',
        _ => {
            // Anything else keeps its backslash, so the backslash alone is what was read.
            return Ok((Escape::Text('\\'), rest));
        }
    };
    Ok((Escape::Text(character), behind))
}

/// A group's number of one or two digits, or a character by octal digits: three of them, or any after a 0.
fn number(rest: &str) -> Result<(Escape<'_>, &str), PatternError> {
    let digits = |most: usize, octal: bool| {
        let is_digit = |byte: &u8| {
            if octal {
                (b'0'..=b'7').contains(byte)
            } else {
                byte.is_ascii_digit()
            }
        };
        rest.bytes()
            .take(most)
            .take_while(|byte| is_digit(byte))
            .count()
    };
    let octal = digits(3, true);
    let value =
        |length: usize, radix: u32| u32::from_str_radix(&rest[..length], radix).unwrap_or(0);
    if octal == 3 || rest.starts_with('0') {
        let code = u8::try_from(value(octal, 8)).map_err(|_| {
            let what = "octal escape value outside of range 0-0o377";
            PatternError::Template(what.to_owned())
        })?;
        return Ok((Escape::Text(code.into()), &rest[octal..]));
    }
    let length = digits(2, false);
    Ok((Escape::Number(value(length, 10) as usize), &rest[length..]))
}

fn named(name: &str, groups: &[Option<&str>]) -> Result<usize, PatternError> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return known(name.parse().unwrap_or(usize::MAX), groups);
    }
    let number = groups.iter().position(|group| *group == Some(name));
    number.ok_or_else(|| PatternError::Template(format!("unknown group name {name:?}")))
}

fn known(number: usize, groups: &[Option<&str>]) -> Result<usize, PatternError> {
    match number < groups.len() {
        true => Ok(number),
        false => Err(PatternError::Template(format!(
            "invalid group reference {number}"
        ))),
    }
}
