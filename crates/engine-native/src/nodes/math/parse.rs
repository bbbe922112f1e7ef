//! Expressions of Python's that only compute: read into a tree.
//!
//! What stands in a row is kept as a row, so the tree is only as deep as the text nests, and that is bounded. Reading takes time
//! in proportion to the text.

use std::sync::Arc;

use num_bigint::BigInt;

use super::token::{Token, tokens};
use super::value::Number;

/// How deep an expression may nest.
const MAX_DEPTH: usize = 64;

/// An expression.
#[derive(Debug)]
pub(super) enum Expression {
    Number(Number),
    Text(Arc<str>),
    None,
    Name(String),
    /// Signs before an operand, the outermost first.
    Signed(Vec<Sign>, Box<Expression>),
    /// Operators of one rank, from left to right.
    Chain(Box<Expression>, Vec<(Operator, Expression)>),
    Power(Box<Expression>, Box<Expression>),
    Compared(Box<Expression>, Vec<(Comparison, Expression)>),
    /// `not`, if the number is odd.
    Not(usize, Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
    /// Condition, value if it is true, value if not.
    If(Box<[Expression; 3]>),
    Call(String, Vec<Expression>),
    Item(Box<Expression>, Vec<Place>),
}

/// What is taken out of a value.
#[derive(Debug)]
pub(super) enum Place {
    At(Expression),
    Part(Part),
}

/// A part that every number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Real,
    Imaginary,
    Numerator,
    Denominator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
    Invert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    ShiftLeft,
    ShiftRight,
    And,
    Xor,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// Reads the first expression of a text; what follows it on further lines is passed over, as the recorded server does.
///
/// # Errors
/// A sentence that says what stands there instead.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let tokens = tokens(text)?;
    // An assignment is read for its value.
    let rest = match &tokens[..] {
        [Token::Name(_), Token::Symbol("="), rest @ ..] => rest,
        all => all,
    };
    let mut parser = Parser {
        tokens: rest,
        at: 0,
        depth: 0,
    };
    let expression = parser.ternary()?;
    match parser.peek() {
        None | Some(Token::End) => Ok(expression),
        Some(token) => Err(format!("{token} is not expected there")),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

const RANKS: [&[(&str, Operator)]; 6] = [
    &[("|", Operator::Or)],
    &[("^", Operator::Xor)],
    &[("&", Operator::And)],
    &[("<<", Operator::ShiftLeft), (">>", Operator::ShiftRight)],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[
        ("*", Operator::Multiply),
        ("//", Operator::FloorDivide),
        ("/", Operator::Divide),
        ("%", Operator::Modulo),
    ],
];

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Symbol(found)) if *found == symbol);
        self.at += usize::from(is_it);
        is_it
    }

    fn word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Name(found)) if found == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        match self.symbol(symbol) {
            true => Ok(()),
            false => Err(format!("\"{symbol}\" is missing")),
        }
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn ternary(&mut self) -> Result<Expression, String> {
        self.deeper(|parser| {
            let value = parser.any()?;
            if !parser.word("if") {
                return Ok(value);
            }
            let condition = parser.any()?;
            if !parser.word("else") {
                return Err("\"else\" is missing".to_owned());
            }
            let otherwise = parser.ternary()?;
            Ok(Expression::If(Box::new([condition, value, otherwise])))
        })
    }

    fn any(&mut self) -> Result<Expression, String> {
        let first = self.all()?;
        let mut terms = vec![first];
        while self.word("or") {
            terms.push(self.all()?);
        }
        Ok(row(terms, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, String> {
        let first = self.not()?;
        let mut terms = vec![first];
        while self.word("and") {
            terms.push(self.not()?);
        }
        Ok(row(terms, Expression::All))
    }

    fn not(&mut self) -> Result<Expression, String> {
        let mut times = 0;
        while self.word("not") {
            times += 1;
        }
        let compared = self.compared()?;
        Ok(match times {
            0 => compared,
            _ => Expression::Not(times, Box::new(compared)),
        })
    }

    fn compared(&mut self) -> Result<Expression, String> {
        let first = self.chain(0)?;
        let mut others = Vec::new();
        while let Some(comparison) = self.comparison()? {
            others.push((comparison, self.chain(0)?));
        }
        Ok(match others.is_empty() {
            true => first,
            false => Expression::Compared(Box::new(first), others),
        })
    }

    fn comparison(&mut self) -> Result<Option<Comparison>, String> {
        let symbols = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        for (symbol, comparison) in symbols {
            if self.symbol(symbol) {
                return Ok(Some(comparison));
            }
        }
        if self.word("in") {
            return Ok(Some(Comparison::In));
        }
        if self.word("not") {
            return match self.word("in") {
                true => Ok(Some(Comparison::NotIn)),
                false => Err("\"in\" is missing after \"not\"".to_owned()),
            };
        }
        match self.word("is") {
            true => Err("\"is\" compares objects; use == instead".to_owned()),
            false => Ok(None),
        }
    }

    fn chain(&mut self, rank: usize) -> Result<Expression, String> {
        let Some(operators) = RANKS.get(rank) else {
            return self.signed();
        };
        let first = self.chain(rank + 1)?;
        let mut others = Vec::new();
        while let Some((_, operator)) = operators.iter().find(|(symbol, _)| self.symbol(symbol)) {
            others.push((*operator, self.chain(rank + 1)?));
        }
        Ok(match others.is_empty() {
            true => first,
            false => Expression::Chain(Box::new(first), others),
        })
    }

    fn signed(&mut self) -> Result<Expression, String> {
        let mut signs = Vec::new();
        loop {
            let sign = [("+", Sign::Plus), ("-", Sign::Minus), ("~", Sign::Invert)];
            match sign.iter().find(|(symbol, _)| self.symbol(symbol)) {
                Some((_, sign)) => signs.push(*sign),
                None => break,
            }
        }
        let operand = self.power()?;
        Ok(match signs.is_empty() {
            true => operand,
            false => Expression::Signed(signs, Box::new(operand)),
        })
    }

    fn power(&mut self) -> Result<Expression, String> {
        let base = self.item()?;
        if !self.symbol("**") {
            return Ok(base);
        }
        // The exponent may have a sign and a power of its own.
        let exponent = self.deeper(Self::signed)?;
        Ok(Expression::Power(Box::new(base), Box::new(exponent)))
    }

    fn item(&mut self) -> Result<Expression, String> {
        let atom = self.atom()?;
        let mut places = Vec::new();
        loop {
            if self.symbol("[") {
                places.push(Place::At(self.ternary()?));
                if self.symbol(":") {
                    return Err(
                        "slices are not supported; take single items, such as values[0]".to_owned(),
                    );
                }
                self.expect("]")?;
            } else if self.symbol(".") {
                places.push(Place::Part(self.part()?));
            } else {
                break;
            }
        }
        Ok(match places.is_empty() {
            true => atom,
            false => Expression::Item(Box::new(atom), places),
        })
    }

    fn part(&mut self) -> Result<Part, String> {
        let parts = [
            ("real", Part::Real),
            ("imag", Part::Imaginary),
            ("numerator", Part::Numerator),
            ("denominator", Part::Denominator),
        ];
        let part = parts.into_iter().find(|(name, _)| self.word(name));
        part.map(|(_, part)| part).ok_or_else(|| {
            "attributes are not supported, but real, imag, numerator and denominator".to_owned()
        })
    }

    fn atom(&mut self) -> Result<Expression, String> {
        if self.symbol("(") {
            let inner = self.ternary()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let token = self.peek().cloned();
        self.at += 1;
        match token {
            Some(Token::Int(number)) => Ok(Expression::Number(Number::Int(number))),
            Some(Token::Float(number)) => Ok(Expression::Number(Number::Float(number))),
            Some(Token::Text(text)) => Ok(Expression::Text(text)),
            Some(Token::Name(name)) => self.named(name),
            Some(Token::End) | None => Err("it ends where a value is missing".to_owned()),
            Some(token) => Err(format!("{token} stands where a value is missing")),
        }
    }

    fn named(&mut self, name: String) -> Result<Expression, String> {
        match name.as_str() {
            "True" => return Ok(Expression::Number(Number::Bool(true))),
            "False" => return Ok(Expression::Number(Number::Bool(false))),
            "None" => return Ok(Expression::None),
            "and" | "or" | "not" | "if" | "else" | "in" | "is" | "lambda" => {
                return Err(format!("{name:?} stands where a value is missing"));
            }
            _ => {}
        }
        if !self.symbol("(") {
            return Ok(Expression::Name(name));
        }
        let mut arguments = Vec::new();
        while !self.symbol(")") {
            arguments.push(self.ternary()?);
            if !self.symbol(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(Expression::Call(name, arguments))
    }
}

/// A row of one is what it holds.
fn row(mut terms: Vec<Expression>, of: fn(Vec<Expression>) -> Expression) -> Expression {
    match terms.len() {
        1 => terms.pop().unwrap_or(Expression::None),
        _ => of(terms),
    }
}

/// A whole number out of its digits; `None` if there are others or too many.
pub(super) fn whole(digits: &str, radix: u32) -> Option<BigInt> {
    const MOST_DIGITS: usize = 4300;
    let fits =
        digits.len() <= MOST_DIGITS && digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then(|| BigInt::parse_bytes(digits.as_bytes(), radix))?
}
