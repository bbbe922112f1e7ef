//! A calculation over widgets and links, written as the page reads it: an expression of JSONata, and what it depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use router_core::{Function, Operator, Term};
use serde_json::{Value, json};

/// What a badge says of a price that nobody knows before the run.
pub(super) const AFTERWARDS: &str = "price known after the run";

/// What the page sees of a member of the body.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seen {
    /// It counts as this, whatever is filled in.
    Always(Option<f64>),
    /// What its words count as, in small letters.
    Word(String, BTreeMap<String, f64>),
    /// It counts as itself.
    Number(String),
    /// What yes and no count as.
    Truth(String, Option<f64>, Option<f64>),
    /// What something linked and nothing linked count as.
    Link(String, Option<f64>, Option<f64>),
}

/// A calculation of a price, and what the page has to look at for it.
#[derive(Debug)]
pub(super) struct Badge {
    pub(super) term: Term<Seen>,
    pub(super) watched: Watched,
}

/// What an expression looks at.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Widgets and their types.
    pub(super) widgets: BTreeMap<String, &'static str>,
    pub(super) inputs: BTreeSet<String>,
    /// Inputs, and what is true when they leave the price open.
    pub(super) open: BTreeMap<String, String>,
    /// What is true when an input may hold more than the page sees.
    pub(super) vague: BTreeSet<String>,
}

impl Watched {
    /// A widget, whose value the page knows unless something is linked to it.
    pub(super) fn widget(&mut self, name: &str, io_type: &'static str) {
        self.widgets.insert(name.to_owned(), io_type);
        self.unless_linked(name);
    }

    /// An input that leaves the price open when something is linked to it.
    pub(super) fn unless_linked(&mut self, name: &str) {
        self.inputs.insert(name.to_owned());
        self.open.insert(name.to_owned(), is_linked(name));
    }

    /// A widget that leaves the price open when it holds anything but this.
    pub(super) fn unless_preset(&mut self, name: &str, io_type: &'static str, preset: &Value) {
        self.widget(name, io_type);
        // The page asks in small letters.
        let text = preset.as_str().map(|text| text.trim().to_lowercase());
        let preset = text.map_or_else(|| preset.clone(), Value::from);
        let condition = format!("{} or {} != {preset}", is_linked(name), widget(name));
        self.open.insert(name.to_owned(), condition);
    }

    /// An input of pictures; of several the page does not know how many.
    pub(super) fn pictures(&mut self, name: &str, are_several: bool) {
        self.inputs.insert(name.to_owned());
        if are_several {
            self.vague.insert(is_linked(name));
        }
    }
}

impl Badge {
    /// As the page reads it. What is not final is marked as about right.
    pub(super) fn as_info(&self, is_final: bool) -> Value {
        let Watched {
            widgets,
            inputs,
            open,
            vague,
        } = &self.watched;
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut cents = String::new();
        write_term(&self.term, &mut cents, &mut known);
        known.insert("$exists($cents)".to_owned());
        let about = match is_final {
            true if vague.is_empty() => "false".to_owned(),
            true => joined(vague, " or "),
            false => "true".to_owned(),
        };
        let mut expression = format!("($cents := {cents}; $about := {about}; ");
        for (name, condition) in open {
            let said = text(&Value::from(format!("price depends on {name}")).to_string());
            let _ = write!(expression, "{condition} ? {said} : ");
        }
        let amount = r#"($about ? "~" : "") & "$" & $formatNumber($cents / 100, "0.00") & "/Run""#;
        let afterwards = text(&Value::from(AFTERWARDS).to_string());
        let known = joined(&known, " and ");
        let _ = write!(expression, "{known} ? {} : {afterwards})", text(amount));
        let widgets = widgets.iter();
        let widgets = widgets.map(|(name, io_type)| json!({"name": name, "type": io_type}));
        info(&expression, &widgets.collect::<Vec<_>>(), inputs)
    }
}

/// A badge that always says this.
pub(super) fn saying(words: &str) -> Value {
    let expression = text(&Value::from(words).to_string());
    info(&expression, &[], &BTreeSet::new())
}

fn info(expression: &str, widgets: &[Value], inputs: &BTreeSet<String>) -> Value {
    json!({
        "engine": "jsonata",
        "depends_on": {"widgets": widgets, "inputs": inputs, "input_groups": []},
        "expr": expression,
    })
}

fn text(expression: &str) -> String {
    format!(r#"{{"type": "text", "text": {expression}}}"#)
}

fn joined(conditions: &BTreeSet<String>, operator: &str) -> String {
    let conditions: Vec<&str> = conditions.iter().map(String::as_str).collect();
    conditions.join(operator)
}

fn widget(name: &str) -> String {
    format!("widgets.`{name}`")
}

fn is_linked(name: &str) -> String {
    format!("inputs.`{name}`.connected")
}

/// Writes a calculation, and gathers the conditions under which all that it reads has a value: functions of the page overlook
/// what has none.
fn write_term(term: &Term<Seen>, out: &mut String, known: &mut BTreeSet<String>) {
    match term {
        Term::Number(number) => *out += &number.to_string(),
        Term::Read(seen) => {
            let read = seen.to_string();
            if seen.may_be_unknown() {
                known.insert(format!("$exists({read})"));
            }
            *out += &read;
        }
        Term::Binary(operator, left, right) => {
            *out += "(";
            write_term(left, out, known);
            *out += match operator {
                Operator::Add => " + ",
                Operator::Subtract => " - ",
                Operator::Multiply => " * ",
                Operator::Divide => " / ",
            };
            write_term(right, out, known);
            *out += ")";
        }
        Term::Call(function, arguments) => {
            let (name, end) = match function {
                Function::Min => ("$min([", "])"),
                Function::Max => ("$max([", "])"),
                Function::Ceil => ("$ceil(", ")"),
                Function::Floor => ("$floor(", ")"),
            };
            *out += name;
            for (index, argument) in arguments.iter().enumerate() {
                if index > 0 {
                    *out += ", ";
                }
                write_term(argument, out, known);
            }
            *out += end;
        }
        Term::FirstOf(rows) => {
            *out += "(";
            for (index, (members, number)) in rows.iter().enumerate() {
                if index > 0 {
                    *out += " : ";
                }
                let members = members.iter().map(|seen| format!("{seen} > 0"));
                let fits: Vec<String> = members.collect();
                match fits.is_empty() {
                    true => *out += "true",
                    false => *out += &fits.join(" and "),
                }
                let _ = write!(out, " ? {number}");
            }
            *out += ")";
        }
    }
}

impl Seen {
    fn may_be_unknown(&self) -> bool {
        match self {
            Self::Always(counted) => counted.is_none(),
            Self::Word(..) => true,
            Self::Number(_) => false,
            Self::Truth(_, one, other) | Self::Link(_, one, other) => {
                one.is_none() || other.is_none()
            }
        }
    }
}

/// The expression that reads it.
impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A variable that nothing was assigned to has no value.
        let number = |counted: &Option<f64>| {
            counted.map_or_else(|| "$unknown".to_owned(), |number| number.to_string())
        };
        match self {
            Self::Always(counted) => f.write_str(&number(counted)),
            Self::Word(name, counted) => {
                let counted =
                    Value::from_iter(counted.iter().map(|(word, number)| (word.clone(), *number)));
                write!(f, "$lookup({counted}, $string({}))", widget(name))
            }
            Self::Number(name) => f.write_str(&widget(name)),
            Self::Truth(name, yes, no) => {
                write!(f, "({} ? {} : {})", widget(name), number(yes), number(no))
            }
            Self::Link(name, linked, free) => {
                write!(
                    f,
                    "({} ? {} : {})",
                    is_linked(name),
                    number(linked),
                    number(free)
                )
            }
        }
    }
}
