//! From the validating library's errors to the contract's vocabulary: `missing`, `string_type`, `less_than_equal` and so on.
//!
//! Bounds are told, inputs never: what a caller sent does not come back in an error.

use std::collections::HashMap;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Value};

use crate::{Violation, ViolationStep};

/// Most violations that are told of one body. A long array of wrong items has one each, and an answer is to stay readable.
const MAX_VIOLATIONS: usize = 1_000;

/// The violation of a body that is JSON and no object.
pub(super) fn not_an_object() -> Violation {
    type_violation(Vec::new(), JsonType::Object)
}

/// The violations behind the library's errors, in the order in which the body has the fields; what is missing comes last
/// among the fields of its object.
pub(super) fn of<'a>(
    errors: impl Iterator<Item = ValidationError<'a>>,
    body: &Value,
) -> Vec<Violation> {
    let mut all = Vec::new();
    for error in errors.take(MAX_VIOLATIONS) {
        tell(&error, body, &mut all);
    }
    all.truncate(MAX_VIOLATIONS);
    let mut orders = Orders::default();
    all.sort_by_cached_key(|violation| orders.position(&violation.location, body));
    all
}

/// Where the fields of objects stand, looked up once for each object, however many of its fields are wrong.
#[derive(Default)]
struct Orders<'a>(HashMap<*const Map<String, Value>, HashMap<&'a str, usize>>);

impl<'a> Orders<'a> {
    /// Where a location is in a body: the index of each step among its siblings.
    fn position(&mut self, location: &[ViolationStep], body: &'a Value) -> Vec<usize> {
        let mut here = Some(body);
        let index = |step: &ViolationStep| match step {
            ViolationStep::Index(index) => {
                here = here.and_then(|value| value.get(index));
                *index
            }
            ViolationStep::Field(name) => {
                let Some(object) = here.and_then(Value::as_object) else {
                    return usize::MAX;
                };
                here = object.get(name);
                let order = self.0.entry(object).or_insert_with(|| {
                    let names = object.keys().map(String::as_str);
                    names.zip(0..).collect()
                });
                order.get(name.as_str()).copied().unwrap_or(usize::MAX)
            }
        };
        location.iter().map(index).collect()
    }
}

fn tell(error: &ValidationError<'_>, body: &Value, all: &mut Vec<Violation>) {
    let location =
        || -> Vec<ViolationStep> { error.instance_path().segments().map(step).collect() };
    let below = |name: &str| {
        let mut location = location();
        location.push(ViolationStep::Field(name.to_owned()));
        location
    };
    let one = |kind, message: String, context| Violation {
        location: location(),
        message,
        kind,
        context,
    };
    let violation = match error.kind() {
        ValidationErrorKind::Required { property } => Violation {
            location: below(property.as_str().unwrap_or_default()),
            message: "Field required".to_owned(),
            kind: "missing",
            context: None,
        },
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let names = unexpected.iter().take(MAX_VIOLATIONS);
            all.extend(names.map(|name| forbidden(below(name))));
            return;
        }
        ValidationErrorKind::FalseSchema => match closed_object(error, body) {
            Some(object) => {
                let names = object.keys().take(MAX_VIOLATIONS);
                all.extend(names.map(|name| forbidden(below(name))));
                return;
            }
            None => forbidden(location()),
        },
        ValidationErrorKind::Type { kind } => match kind {
            TypeKind::Single(expected) => type_violation(location(), *expected),
            TypeKind::Multiple(expected) => {
                let mut named = expected.iter().filter(|kind| *kind != JsonType::Null);
                match (named.next(), named.next()) {
                    (Some(only), None) => type_violation(location(), only),
                    (Some(_) | None, _) => {
                        let names: Vec<&str> = expected.iter().map(type_name).collect();
                        let names = names.join(", ");
                        let message = format!("Input should be one of these types: {names}");
                        one("type_error", message, Some(("expected", names.into())))
                    }
                }
            }
        },
        ValidationErrorKind::Enum { options } => {
            let expected = choices(options);
            let message = format!("Input should be {expected}");
            one("enum", message, Some(("expected", expected.into())))
        }
        ValidationErrorKind::Constant { expected_value } => {
            let message = format!("Input should be {expected_value}");
            let expected = (**expected_value).clone();
            one("literal_error", message, Some(("expected", expected)))
        }
        ValidationErrorKind::Minimum { limit } => {
            let message = format!("Input should be greater than or equal to {limit}");
            one("greater_than_equal", message, Some(("ge", limit.clone())))
        }
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            let message = format!("Input should be greater than {limit}");
            one("greater_than", message, Some(("gt", limit.clone())))
        }
        ValidationErrorKind::Maximum { limit } => {
            let message = format!("Input should be less than or equal to {limit}");
            one("less_than_equal", message, Some(("le", limit.clone())))
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            let message = format!("Input should be less than {limit}");
            one("less_than", message, Some(("lt", limit.clone())))
        }
        ValidationErrorKind::MultipleOf { multiple_of } => {
            let message = format!("Input should be a multiple of {multiple_of}");
            let bound = ("multiple_of", (*multiple_of).into());
            one("multiple_of", message, Some(bound))
        }
        ValidationErrorKind::MinLength { limit } => {
            let message = format!("String should have at least {limit} characters");
            let bound = ("min_length", (*limit).into());
            one("string_too_short", message, Some(bound))
        }
        ValidationErrorKind::MaxLength { limit } => {
            let message = format!("String should have at most {limit} characters");
            let bound = ("max_length", (*limit).into());
            one("string_too_long", message, Some(bound))
        }
        ValidationErrorKind::Pattern { pattern } => {
            let message = format!("String should match pattern '{pattern}'");
            let bound = ("pattern", pattern.as_str().into());
            one("string_pattern_mismatch", message, Some(bound))
        }
        ValidationErrorKind::MinItems { limit } | ValidationErrorKind::MinProperties { limit } => {
            let message = format!("Input should have at least {limit} items");
            one("too_short", message, Some(("min_length", (*limit).into())))
        }
        ValidationErrorKind::MaxItems { limit } | ValidationErrorKind::MaxProperties { limit } => {
            let message = format!("Input should have at most {limit} items");
            one("too_long", message, Some(("max_length", (*limit).into())))
        }
        ValidationErrorKind::AdditionalItems { limit } => {
            let message = format!("Input should have at most {limit} items");
            one("too_long", message, Some(("max_length", (*limit).into())))
        }
        ValidationErrorKind::UnevaluatedItems { .. } => {
            one("too_long", "Input has items too many".to_owned(), None)
        }
        ValidationErrorKind::UniqueItems => {
            let message = "Input should have no two equal items".to_owned();
            one("unique_items", message, None)
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            return alternatives(error, context, body, all);
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            let message = "Input should fit exactly one of the alternatives".to_owned();
            one("one_of", message, None)
        }
        ValidationErrorKind::PropertyNames { .. } => {
            let message = "Input has a field whose name is not allowed".to_owned();
            one("invalid_key", message, None)
        }
        ValidationErrorKind::Format { format } => {
            let message = format!("Input should be a valid {format}");
            let bound = ("format", format.as_str().into());
            one("value_error", message, Some(bound))
        }
        ValidationErrorKind::Contains
        | ValidationErrorKind::ContentEncoding { .. }
        | ValidationErrorKind::ContentMediaType { .. }
        | ValidationErrorKind::FromUtf8 { .. }
        | ValidationErrorKind::Not { .. }
        | ValidationErrorKind::Custom { .. }
        | ValidationErrorKind::BacktrackLimitExceeded { .. }
        | ValidationErrorKind::RegexEngineFailure { .. }
        | ValidationErrorKind::Referencing(_) => {
            let message = format!("Input breaks `{}` of the schema", error.kind().keyword());
            one("value_error", message, None)
        }
    };
    all.push(violation);
}

/// The object that may have no field at all: without `properties`, the library tells `additionalProperties: false` as one
/// error of the object.
fn closed_object<'a>(
    error: &ValidationError<'_>,
    body: &'a Value,
) -> Option<&'a Map<String, Value>> {
    let path = error.schema_path().as_str();
    let keyword = path.strip_suffix("/additionalProperties")?;
    // A field of that name is none.
    if keyword.ends_with("/properties") {
        return None;
    }
    body.pointer(error.instance_path().as_str())?.as_object()
}

/// Tells what is wrong with an input that fits none of several alternatives: if only one of them takes its type at all, what
/// that one says; otherwise that none fits.
fn alternatives(
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'static>>],
    body: &Value,
    all: &mut Vec<Violation>,
) {
    let here = error.instance_path();
    let takes_its_type = |branch: &&Vec<ValidationError<'_>>| {
        !branch.iter().any(|error| {
            error.instance_path() == here
                && matches!(error.kind(), ValidationErrorKind::Type { .. })
        })
    };
    let not_null = |branch: &&Vec<ValidationError<'_>>| {
        !branch.iter().any(|error| {
            matches!(
                error.kind(),
                ValidationErrorKind::Type {
                    kind: TypeKind::Single(JsonType::Null)
                }
            )
        })
    };
    let chosen = only(branches.iter().filter(takes_its_type))
        .or_else(|| only(branches.iter().filter(not_null)));
    match chosen {
        Some(errors) => errors.iter().for_each(|error| tell(error, body, all)),
        None => all.push(Violation {
            location: here.segments().map(step).collect(),
            message: "Input fits none of the alternatives".to_owned(),
            kind: "no_match",
            context: None,
        }),
    }
}

fn only<T>(mut some: impl Iterator<Item = T>) -> Option<T> {
    let first = some.next();
    first.filter(|_| some.next().is_none())
}

fn forbidden(location: Vec<ViolationStep>) -> Violation {
    Violation {
        location,
        message: "Extra inputs are not permitted".to_owned(),
        kind: "extra_forbidden",
        context: None,
    }
}

fn type_violation(location: Vec<ViolationStep>, expected: JsonType) -> Violation {
    let (kind, noun) = match expected {
        JsonType::Array => ("list_type", "a valid list"),
        JsonType::Boolean => ("bool_type", "a valid boolean"),
        JsonType::Integer => ("int_type", "a valid integer"),
        JsonType::Null => ("none_required", "null"),
        JsonType::Number => ("float_type", "a valid number"),
        JsonType::Object => ("dict_type", "a valid object"),
        JsonType::String => ("string_type", "a valid string"),
    };
    Violation {
        location,
        message: format!("Input should be {noun}"),
        kind,
        context: None,
    }
}

fn type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "array",
        JsonType::Boolean => "boolean",
        JsonType::Integer => "integer",
        JsonType::Null => "null",
        JsonType::Number => "number",
        JsonType::Object => "object",
        JsonType::String => "string",
    }
}

/// The values of an enumeration in words: `'a', 'b' or 3`.
fn choices(options: &Value) -> String {
    let quoted = |value: &Value| match value {
        Value::String(text) => format!("'{text}'"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    let options: Vec<String> = options
        .as_array()
        .into_iter()
        .flatten()
        .map(quoted)
        .collect();
    match options.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn step(segment: LocationSegment<'_>) -> ViolationStep {
    match segment {
        LocationSegment::Property(name) => ViolationStep::Field(name.into_owned()),
        LocationSegment::Index(index) => ViolationStep::Index(index),
    }
}
