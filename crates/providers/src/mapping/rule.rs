//! One rule of a mapping, as it is written in a model's file.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::definition::Pointer;

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RuleFile")]
pub(crate) enum Rule {
    /// It goes there.
    Move {
        /// Where it is.
        from: Pointer,
        /// Where it goes.
        to: Pointer,
        /// In which form.
        form: Form,
        /// What to say of a value that has none; without it such a value is dropped.
        refuse: Option<String>,
    },
    /// It is not said, and goes without saying if it is this.
    Implied {
        /// Where it is.
        from: Pointer,
        /// What it is there anyway.
        value: Value,
        /// What to say of another value; without it such a value is dropped.
        refuse: Option<String>,
    },
    /// It is not said.
    Drop {
        /// Where it is.
        from: Pointer,
        /// Why: a clause that goes on from the name of the provider.
        why: String,
    },
    /// Without it the call would be another one, so that it is not made.
    Refuse {
        /// Where it is.
        from: Pointer,
        /// Why: a clause that goes on from the name of the provider.
        why: String,
    },
    /// This is said in any case.
    Constant {
        /// Where it goes.
        to: Pointer,
        /// What is said.
        value: Value,
    },
}

/// The form in which a value is said on the other side.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// As it is.
    Same,
    /// In other words, by pairs of this side's and that side's.
    Words(Vec<(Value, Value)>),
    /// Base64 becomes a `data:` address with its media type; addresses stay as they are. A list is converted item by item.
    DataUrl,
    /// A `data:` address becomes its base64; other addresses have none.
    Base64,
    /// An address of the web stays as it is; anything else has none.
    Address,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    from: Option<Pointer>,
    to: Option<Pointer>,
    value: Option<toml::Value>,
    words: Option<Vec<(toml::Value, toml::Value)>>,
    r#as: Option<Conversion>,
    drop: Option<String>,
    refuse: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Conversion {
    DataUrl,
    Base64,
    Address,
}

impl TryFrom<RuleFile> for Rule {
    type Error = String;

    fn try_from(file: RuleFile) -> Result<Self, String> {
        let value = file.value.map(plain).transpose()?;
        let form = match (file.words, file.r#as) {
            (None, None) => Form::Same,
            (Some(words), None) => {
                let pairs = words
                    .into_iter()
                    .map(|(this, that)| Ok((plain(this)?, plain(that)?)));
                Form::Words(pairs.collect::<Result<_, String>>()?)
            }
            (None, Some(Conversion::DataUrl)) => Form::DataUrl,
            (None, Some(Conversion::Base64)) => Form::Base64,
            (None, Some(Conversion::Address)) => Form::Address,
            (Some(_), Some(_)) => return Err("a rule has `words` or `as`".to_owned()),
        };
        let is_plain = form == Form::Same;
        Ok(match (file.from, file.to, value, file.drop, file.refuse) {
            (None, Some(to), Some(value), None, None) if is_plain => Self::Constant { to, value },
            (Some(from), None, Some(value), None, refuse) if is_plain => Self::Implied {
                from,
                value,
                refuse,
            },
            (Some(from), None, None, Some(why), None) if is_plain => Self::Drop { from, why },
            (Some(from), None, None, None, Some(why)) if is_plain => Self::Refuse { from, why },
            (Some(from), to, None, None, refuse) => Self::Move {
                to: to.unwrap_or_else(|| from.clone()),
                from,
                form,
                refuse,
            },
            _ => {
                return Err(
                    "a rule is `from` with `to`, `words` or `as`; `from` with `value`, `drop` or `refuse`; or `to` with `value`"
                        .to_owned(),
                );
            }
        })
    }
}

/// A value of TOML that JSON has too.
fn plain(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::from(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(flag) => Value::from(flag),
        toml::Value::Array(items) => {
            let items = items.into_iter().map(plain);
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(members) => {
            let members = members.into_iter();
            let members = members.map(|(name, value)| Ok((name, plain(value)?)));
            Value::Object(members.collect::<Result<_, String>>()?)
        }
        toml::Value::Datetime(_) => return Err("a value of a rule is no time".to_owned()),
    })
}

impl Form {
    /// Whether it says something of the value: words are of texts, numbers and flags.
    pub(super) fn is_for(&self, value: &Value) -> bool {
        match self {
            Self::Words(_) => !matches!(value, Value::Array(_) | Value::Object(_)),
            Self::Same | Self::DataUrl | Self::Base64 | Self::Address => true,
        }
    }

    /// The value in this form; `None` if it has none.
    pub(super) fn of(&self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Same, _) => Some(value.clone()),
            (Self::Words(pairs), _) => {
                let pair = pairs.iter().find(|(this, _)| this == value);
                pair.map(|(_, that)| that.clone())
            }
            (Self::DataUrl | Self::Base64, Value::Array(items)) => {
                let items = items.iter().map(|item| self.of(item));
                items.collect::<Option<Vec<Value>>>().map(Value::Array)
            }
            (Self::DataUrl, Value::String(text)) => data_url(text).map(Value::from),
            (Self::Base64, Value::String(text)) => {
                let (head, data) = text.strip_prefix("data:")?.split_once(',')?;
                head.ends_with(";base64").then(|| Value::from(data))
            }
            (Self::Address, Value::String(text)) => is_address(text).then(|| value.clone()),
            (Self::DataUrl | Self::Base64 | Self::Address, _) => None,
        }
    }

    /// The form that undoes this one.
    #[cfg(test)]
    pub(super) fn undone(&self) -> Self {
        match self {
            Self::Same => Self::Same,
            Self::Words(pairs) => {
                let pairs = pairs.iter().cloned();
                Self::Words(pairs.map(|(this, that)| (that, this)).collect())
            }
            Self::DataUrl => Self::Base64,
            Self::Base64 => Self::DataUrl,
            Self::Address => Self::Address,
        }
    }
}

fn is_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// A picture as an address.
fn data_url(text: &str) -> Option<String> {
    if is_address(text) || text.starts_with("data:") {
        return Some(text.to_owned());
    }
    // So many characters of base64 hold the first bytes, which tell the type.
    let start = BASE64_STANDARD.decode(text.get(..16)?).ok()?;
    let media_type = match &*start {
        [0xFF, 0xD8, 0xFF, ..] => "image/jpeg",
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P'] => "image/webp",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        _ => return None,
    };
    Some(format!("data:{media_type};base64,{text}"))
}
