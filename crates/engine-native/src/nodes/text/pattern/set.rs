//! Sets of characters: what `\d`, a class in brackets or a letter in either case matches.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::PatternError;

/// Characters, as ranges in order.
#[derive(Debug)]
pub(super) struct CharSet {
    /// One bit for each of the first 128.
    ascii: u128,
    ranges: Box<[(char, char)]>,
}

impl CharSet {
    /// What a class or an escape of one character matches, in the spelling of the `regex` crate.
    ///
    /// # Errors
    /// If it cannot be read or matches something else than one character.
    pub(super) fn parsed(class: &str, any_case: bool) -> Result<Self, PatternError> {
        let parsed = ParserBuilder::new()
            .case_insensitive(any_case)
            .build()
            .parse(class)
            .map_err(|_| PatternError::Broken(format!("bad character set {class}")))?;
        match parsed.kind() {
            HirKind::Class(Class::Unicode(found)) if any_case => {
                let mut found = found.clone();
                // What is left out is left out in either case.
                let is_negated = class.starts_with("[^");
                if is_negated {
                    found.negate();
                }
                add_dotless(&mut found);
                if is_negated {
                    found.negate();
                }
                Ok(Self::of(&found))
            }
            HirKind::Class(Class::Unicode(class)) => Ok(Self::of(class)),
            HirKind::Class(Class::Bytes(class)) => {
                let ranges = class
                    .iter()
                    .map(|range| ClassUnicodeRange::new(range.start().into(), range.end().into()));
                Ok(Self::of(&ClassUnicode::new(ranges)))
            }
            HirKind::Literal(literal) => {
                let text = str::from_utf8(&literal.0).unwrap_or_default();
                let ranges = text.chars().map(|c| ClassUnicodeRange::new(c, c));
                let mut found = ClassUnicode::new(ranges);
                if any_case {
                    add_dotless(&mut found);
                }
                Ok(Self::of(&found))
            }
            HirKind::Empty
            | HirKind::Look(_)
            | HirKind::Repetition(_)
            | HirKind::Capture(_)
            | HirKind::Concat(_)
            | HirKind::Alternation(_) => {
                Err(PatternError::Broken(format!("bad character set {class}")))
            }
        }
    }

    /// A letter in either case; `None` if it has only one.
    pub(super) fn any_case(letter: char) -> Option<Self> {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(letter, letter)]);
        // Without tables of cases in the build a letter has one case.
        class.try_case_fold_simple().ok()?;
        add_dotless(&mut class);
        let set = Self::of(&class);
        let has_one = matches!(*set.ranges, [(first, last)] if first == last);
        (!has_one).then_some(set)
    }

    /// What `\w` matches.
    pub(super) fn words() -> Self {
        Self::parsed(r"[\p{L}\p{N}_]", false).expect("the class is well-formed")
    }

    pub(super) fn contains(&self, character: char) -> bool {
        let code = u32::from(character);
        if code < 128 {
            return self.ascii >> code & 1 == 1;
        }
        let after = self
            .ranges
            .partition_point(|&(first, _)| first <= character);
        after > 0 && character <= self.ranges[after - 1].1
    }

    fn of(class: &ClassUnicode) -> Self {
        let ranges = class.iter().map(|range| (range.start(), range.end()));
        let ranges: Box<[_]> = ranges.collect();
        let has = |&code: &u8| {
            let code = char::from(code);
            ranges
                .iter()
                .take_while(|range| range.0 <= code)
                .any(|range| code <= range.1)
        };
        let ascii = (0..128).filter(has).fold(0, |bits, code| bits | 1 << code);
        Self { ascii, ranges }
    }
}

/// To Python an `i` with a dot and one without are the same letter in either case; the tables of cases tell them apart.
fn add_dotless(class: &mut ClassUnicode) {
    const LETTERS: [char; 4] = ['I', 'i', '\u{130}', '\u{131}'];
    let has = |letter: &char| {
        let mut ranges = class.iter();
        ranges.any(|range| (range.start()..=range.end()).contains(letter))
    };
    if LETTERS.iter().any(has) {
        class.union(&ClassUnicode::new(
            LETTERS.map(|letter| ClassUnicodeRange::new(letter, letter)),
        ));
    }
}
