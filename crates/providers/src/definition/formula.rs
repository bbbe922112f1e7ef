//! Small formulas over numbers: `ceil(seconds) * 5 + 2`.
//!
//! Nothing but arithmetic: no text, no condition, no loop. A formula is bounded in length and depth, so what a catalog
//! holds can neither hang nor overflow the router.

use router_core::{Function, Operator, Term};
use serde::Deserialize;

/// Longest formula, in bytes: several lines of arithmetic.
const MAX_BYTES: usize = 512;

/// Most parentheses within parentheses.
const MAX_DEPTH: usize = 16;

/// A formula over named numbers. It knows `+ - * /`, parentheses, and `min`, `max`, `ceil`, `floor`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Formula(pub(crate) Term<String>);

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

// === impl Formula ===

impl TryFrom<String> for Formula {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("a formula has at most {MAX_BYTES} bytes"));
        }
        let mut parser = Parser {
            rest: text.trim_start(),
            depth: 0,
        };
        let node = parser.sum()?;
        if parser.rest.is_empty() {
            Ok(Self(node))
        } else {
            Err(format!("`{}` is not understood in a formula", parser.rest))
        }
    }
}

// === impl Parser ===

impl Parser<'_> {
    fn sum(&mut self) -> Result<Term<String>, String> {
        let mut left = self.product()?;
        loop {
            let operator = match self.rest.as_bytes().first() {
                Some(b'+') => Operator::Add,
                Some(b'-') => Operator::Subtract,
                _ => return Ok(left),
            };
            self.step(1);
            left = Term::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Term<String>, String> {
        let mut left = self.atom()?;
        loop {
            let operator = match self.rest.as_bytes().first() {
                Some(b'*') => Operator::Multiply,
                Some(b'/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.step(1);
            left = Term::Binary(operator, Box::new(left), Box::new(self.atom()?));
        }
    }

    fn atom(&mut self) -> Result<Term<String>, String> {
        match self.rest.as_bytes().first() {
            Some(b'(') => {
                self.open()?;
                let inner = self.sum()?;
                self.close()?;
                Ok(inner)
            }
            Some(byte) if byte.is_ascii_digit() => self.number(),
            Some(byte) if byte.is_ascii_lowercase() => {
                let name = self.word();
                if self.rest.starts_with('(') {
                    self.call(&name)
                } else {
                    Ok(Term::Read(name))
                }
            }
            _ => Err("a number, a name or a parenthesis is missing in a formula".to_owned()),
        }
    }

    fn call(&mut self, name: &str) -> Result<Term<String>, String> {
        let function = match name {
            "min" => Function::Min,
            "max" => Function::Max,
            "ceil" => Function::Ceil,
            "floor" => Function::Floor,
            _ => {
                return Err(format!(
                    "`{name}` is no function; there are min, max, ceil, floor"
                ));
            }
        };
        self.open()?;
        let mut arguments = vec![self.sum()?];
        while self.rest.starts_with(',') {
            self.step(1);
            arguments.push(self.sum()?);
        }
        self.close()?;
        let takes_one = matches!(function, Function::Ceil | Function::Floor);
        if takes_one && arguments.len() > 1 {
            return Err(format!("`{name}` takes one number"));
        }
        Ok(Term::Call(function, arguments))
    }

    fn open(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("a formula has too many parentheses".to_owned());
        }
        self.step(1);
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        if !self.rest.starts_with(')') {
            return Err("a `)` is missing in a formula".to_owned());
        }
        self.depth -= 1;
        self.step(1);
        Ok(())
    }

    fn number(&mut self) -> Result<Term<String>, String> {
        let is_part = |character: char| character.is_ascii_digit() || character == '.';
        let end = self.rest.find(|character| !is_part(character));
        let digits = &self.rest[..end.unwrap_or(self.rest.len())];
        let number = digits
            .parse()
            .map_err(|_| format!("`{digits}` is no number"))?;
        self.step(digits.len());
        Ok(Term::Number(number))
    }

    fn word(&mut self) -> String {
        let is_part = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_'
        };
        let end = self.rest.find(|character| !is_part(character));
        let word = self.rest[..end.unwrap_or(self.rest.len())].to_owned();
        self.step(word.len());
        word
    }

    /// Goes on behind so many bytes of ASCII, and the space behind them.
    fn step(&mut self, bytes: usize) {
        self.rest = self.rest[bytes..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn result(text: &str) -> Option<f64> {
        let formula = Formula::try_from(text.to_owned()).expect(text);
        formula.0.calculate(&|name| match name.as_str() {
            "seconds" => Some(5.0),
            "n" => Some(2.0),
            _ => None,
        })
    }

    #[test]
    fn it_calculates() {
        for (text, expected) in [
            ("1", 1.0),
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("8 / 2 / 2", 2.0),
            ("8 - 2 - 2", 4.0),
            ("seconds * 5", 25.0),
            ("ceil(seconds / n) * 10", 30.0),
            ("floor( seconds/n )", 2.0),
            ("min(seconds, n, 1)", 1.0),
            ("max(2.5, n) * n", 5.0),
        ] {
            assert_eq!(result(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_has_no_result() {
        assert_eq!(result("width * 2"), None);
        assert_eq!(result("1 / (n - 2)"), None);
    }

    #[test]
    fn what_is_no_formula_is_refused() {
        let deep = format!("{}1{}", "(".repeat(17), ")".repeat(17));
        let long = "1+".repeat(256) + "1";
        for text in [
            "",
            "1 +",
            "(1",
            "1)",
            "1 2",
            "-1",
            "A",
            "pow(1, 2)",
            "ceil(1, 2)",
            "1.2.3",
            "1 % 2",
            "n()",
            "\"a\"",
            &deep,
            &long,
        ] {
            assert!(Formula::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-z+*/(), .-]{0,60}") {
            if let Ok(formula) = Formula::try_from(text) {
                let finite = formula.0.calculate(&|_| Some(3.0)).is_none_or(f64::is_finite);
                prop_assert!(finite);
            }
        }
    }
}
