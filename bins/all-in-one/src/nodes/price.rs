//! What a node will cost, for people who fill it in: as a badge that the page calculates from the widgets, and in words for the
//! values that a new node has.
//!
//! Both follow from the calculation that the router estimates calls by. The page knows values of widgets and which inputs are
//! linked; where that is not enough, the badge says what the price depends on.

mod expression;

use std::collections::BTreeMap;
use std::sync::Arc;

use router_core::{Model, Price, PricedMember, Term};
use serde_json::{Map, Value, json};

use super::fields::{UNSET, label, preset};
use super::schema::{Field, Form, Kind, Several, put};
use expression::{Badge, Seen, Watched};

/// The longest list of values of a whole number that a badge holds, where the price is not calculated from the number itself.
const MOST_TOLD: i64 = 64;

/// The badge of a class, as the page reads it.
pub(super) fn badge(model: &Model, form: &Form) -> Value {
    let price = model.provider().price(&preset_body(form));
    // An expression has no way to write such a name.
    let is_odd = |field: &Field| field.name.contains(|c: char| c == '`' || c.is_control());
    let calculation = model.provider().priced_by();
    match calculation.filter(|_| !form.fields.iter().any(is_odd)) {
        Some(calculation) => {
            let is_final = !matches!(price, Price::Estimated { .. });
            seen_by_page(&calculation, form).as_info(is_final)
        }
        None => expression::saying(&short(price)),
    }
}

/// What a run costs with the values that a new node has.
pub(super) fn words(model: &Model, form: &Form) -> String {
    let price = model.provider().price(&preset_body(form));
    match price {
        Price::Exact { .. } | Price::Estimated { .. } => {
            format!("Price with the values of a new node: {}.", short(price))
        }
        Price::Unknown { hold_cents } => {
            let hold = dollars(hold_cents);
            format!("The price is known after the run; {hold} is held until then.")
        }
    }
}

fn short(price: Price) -> String {
    match price {
        Price::Exact { cents } => format!("{}/Run", dollars(cents)),
        Price::Estimated {
            min_cents,
            max_cents,
        } if min_cents == max_cents => format!("~{}/Run", dollars(max_cents)),
        Price::Estimated {
            min_cents,
            max_cents,
        } => format!("{}-{}/Run", dollars(min_cents), dollars(max_cents)),
        Price::Unknown { .. } => expression::AFTERWARDS.to_owned(),
    }
}

fn dollars(cents: u64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// The body of a new node in which people filled in nothing.
fn preset_body(form: &Form) -> Value {
    let mut body = fixed(form);
    for field in &form.fields {
        if let Some(value) = preset(field) {
            put(&mut body, &field.path, value);
        }
    }
    body.into()
}

/// The members that nobody is asked for.
fn fixed(form: &Form) -> Map<String, Value> {
    let mut body = Map::new();
    for (path, value) in &form.fixed {
        put(&mut body, path, value.clone());
    }
    body
}

/// The calculation over what the page sees.
fn seen_by_page(calculation: &Term<Arc<dyn PricedMember>>, form: &Form) -> Badge {
    let mut watched = Watched::default();
    let term = calculation.map(&mut |member| seen(&**member, form, &mut watched));
    Badge { term, watched }
}

/// What the page sees of a member.
fn seen(member: &dyn PricedMember, form: &Form, watched: &mut Watched) -> Seen {
    let absent = member.read(&fixed(form).into());
    // A text of JSON or a picture holds what is below it.
    let mut fields = form.fields.iter();
    let Some(field) = fields.find(|field| member.path().starts_with(&field.path)) else {
        return Seen::Always(absent);
    };
    let with = |value: Value| {
        let mut body = fixed(form);
        put(&mut body, &field.path, value);
        member.read(&body.into())
    };
    let name = field.name.clone();
    match &field.kind {
        Kind::Choice { values, .. } => {
            if let Some(words) = choice(field, values, absent, &with) {
                watched.widget(&name, "COMBO");
                return Seen::Word(name, words);
            }
            let shown = preset(field).map_or_else(|| UNSET.to_owned(), |value| label(&value));
            watched.unless_preset(&name, "COMBO", &shown.into());
        }
        Kind::Picture(_, several) => {
            let one = match several {
                Several::Always => json!(["picture"]),
                Several::Maybe | Several::Never => json!("picture"),
            };
            watched.pictures(&name, *several != Several::Never);
            return Seen::Link(name, with(one), absent);
        }
        Kind::Text { .. } => {
            let shown = preset(field).unwrap_or_else(|| "".into());
            watched.unless_preset(&name, "STRING", &shown);
        }
        Kind::Json => {
            let shown = if field.path.is_empty() { "{}" } else { "" };
            watched.unless_preset(&name, "STRING", &shown.into());
        }
        Kind::Whole { .. } | Kind::Number { .. } | Kind::Truth { .. } => {
            let Some(shown) = preset(field) else {
                watched.unless_linked(&name);
                return Seen::Always(absent);
            };
            let (io_type, seen) = counted(field, &with);
            if let Some(seen) = seen {
                watched.widget(&name, io_type);
                return seen;
            }
            watched.unless_preset(&name, io_type, &shown);
        }
    }
    Seen::Always(preset(field).map_or(absent, with))
}

/// What the words of a list of choices count as; `None` if two that the page cannot tell apart count as different things.
fn choice(
    field: &Field,
    values: &[Value],
    absent: Option<f64>,
    with: &dyn Fn(Value) -> Option<f64>,
) -> Option<BTreeMap<String, f64>> {
    let mut words = BTreeMap::new();
    if preset(field).is_none() {
        words.insert(UNSET.to_owned(), absent);
    }
    for value in values {
        // The page asks in small letters.
        let word = label(value).trim().to_lowercase();
        let counts_as = with(value.clone());
        let before = words.insert(word, counts_as);
        if before.is_some_and(|before| before != counts_as) {
            return None;
        }
    }
    let words = words.into_iter();
    Some(
        words
            .filter_map(|(word, counts_as)| Some((word, counts_as?)))
            .collect(),
    )
}

/// The type of a widget of numbers or of yes and no, and what its values count as, if the page can say that.
fn counted(field: &Field, with: &dyn Fn(Value) -> Option<f64>) -> (&'static str, Option<Seen>) {
    let name = field.name.clone();
    let is_itself = |number: &f64| with(json!(*number)) == Some(*number);
    match &field.kind {
        Kind::Truth { .. } => {
            let seen = Seen::Truth(name, with(true.into()), with(false.into()));
            ("BOOLEAN", Some(seen))
        }
        Kind::Number { .. } => {
            let itself = [1.0, 2.5].iter().all(is_itself);
            ("FLOAT", itself.then_some(Seen::Number(name)))
        }
        Kind::Whole { min, max, .. } => {
            if [1.0, 2.0, 7.0].iter().all(is_itself) {
                return ("INT", Some(Seen::Number(name)));
            }
            let bounds = min.zip(*max);
            let bounds = bounds.filter(|(min, max)| max.saturating_sub(*min) < MOST_TOLD);
            let told = bounds.map(|(min, max)| {
                let words = (min..=max)
                    .filter_map(|number| Some((number.to_string(), with(number.into())?)));
                Seen::Word(name, words.collect())
            });
            ("INT", told)
        }
        Kind::Picture(..) | Kind::Text { .. } | Kind::Choice { .. } | Kind::Json => ("", None),
    }
}

#[cfg(test)]
pub(super) mod tests;
