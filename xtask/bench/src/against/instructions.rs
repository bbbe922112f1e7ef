//! Instructions, in all and by function, as callgrind writes them.

use std::collections::{BTreeMap, HashMap};

/// The longest name of a function that is told: the rest of a longer one is what its types are made of.
const MOST_NAME: usize = 160;

/// Instructions of a piece of work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instructions {
    /// Those of everything.
    pub total: f64,
    /// Those of each function itself, without what it calls; empty where the counter does not tell.
    pub functions: BTreeMap<String, f64>,
}

impl Instructions {
    /// So many, of functions that nobody told.
    #[must_use]
    pub fn of(total: f64) -> Self {
        Self {
            total,
            functions: BTreeMap::new(),
        }
    }

    /// What a file of callgrind says; `None` when it says no total.
    #[must_use]
    pub fn read(dump: &str) -> Option<Self> {
        let mut total = None;
        let mut functions = BTreeMap::new();
        // A name is spelled once and has a number from then on.
        let mut names: HashMap<&str, String> = HashMap::new();
        let mut current = None;
        let mut is_of_callee = false;
        for line in dump.lines() {
            if let Some(text) = line.strip_prefix("totals: ") {
                total = text.trim().parse().ok();
            } else if let Some(spelled) = line.strip_prefix("fn=") {
                current = Some(name(&mut names, spelled));
            } else if let Some(spelled) = line.strip_prefix("cfn=") {
                name(&mut names, spelled);
            } else if line.starts_with("calls=") {
                is_of_callee = true;
            } else if line
                .starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            {
                let cost = line
                    .split(' ')
                    .nth(1)
                    .and_then(|cost| cost.parse::<f64>().ok());
                if let (false, Some(cost), Some(current)) = (is_of_callee, cost, &current) {
                    *functions.entry(current.clone()).or_default() += cost;
                }
                is_of_callee = false;
            }
        }
        total.map(|total| Self { total, functions })
    }

    /// The share of one piece of so many.
    #[must_use]
    pub fn each(self, pieces: u64) -> Self {
        let pieces = pieces as f64;
        let functions = self.functions.into_iter();
        Self {
            total: self.total / pieces,
            functions: functions
                .map(|(name, cost)| (name, cost / pieces))
                .collect(),
        }
    }
}

/// The function that is spelled `(7) its_name`, or `(7)` when it was spelled before.
fn name<'a>(names: &mut HashMap<&'a str, String>, spelled: &'a str) -> String {
    let (number, text) = spelled.split_once(' ').unwrap_or((spelled, ""));
    if !text.is_empty() {
        names.insert(number, without_hash(text));
    }
    names.get(number).cloned().unwrap_or_default()
}

/// A name without what the compiler adds to it: that changes with every change of the crate.
fn without_hash(name: &str) -> String {
    let is_hash =
        |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let known = match name.rsplit_once("::h") {
        Some((before, hash)) if is_hash(hash) => before,
        Some(_) | None => name,
    };
    known.chars().take(MOST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_own_instructions_without_those_of_others() {
        let dump = "version: 1\nevents: Ir\n\nfl=(1) a.rs\nfn=(1) easel::serve::h0123456789abcdef\n3 5\n+1 2\ncfn=(2) memcpy\n\
                    calls=4 0\n* 900\n-2 1\n\nfn=(2)\n0 900\n\ntotals: 908\n";
        let read = Instructions::read(dump).expect("a total");
        let functions = [
            ("easel::serve".to_owned(), 8.0),
            ("memcpy".to_owned(), 900.0),
        ];
        assert_eq!(
            read,
            Instructions {
                total: 908.0,
                functions: BTreeMap::from(functions)
            }
        );
        assert_eq!(read.each(4).functions["memcpy"], 225.0);
    }

    #[test]
    fn the_total_is_that_of_the_file() {
        let dump = "version: 1\nevents: Ir\nsummary: 134965\n\nfn=(1)\n1 5\ntotals: 138414\n";
        assert_eq!(
            Instructions::read(dump).map(|read| read.total),
            Some(138_414.0)
        );
        assert_eq!(Instructions::read("version: 1\n"), None);
    }
}
