//! Columns of a part that lie together in one column as JSON.

use asset_store::BlobHash;
use installation::transfer::{Column, Kind, Value};
use serde_json::{Map, Number, Value as Json};
use uuid::Uuid;

use crate::DatabaseError;
use crate::columns::unreadable;

/// A field of another form.
#[derive(Debug, thiserror::Error)]
#[error("the field {0} of a document cannot be read")]
struct WrongField(&'static str);

/// The document of these columns; what is nothing has no field.
pub(super) fn pack(columns: &[Column], values: &[Value]) -> Result<String, DatabaseError> {
    let mut document = Map::new();
    for (column, value) in columns.iter().zip(values) {
        let wrong = || unreadable(WrongField(column.name));
        let json = match (column.kind, value) {
            (_, Value::Null) => continue,
            (Kind::Flag, Value::Int(flag)) => Json::Bool(*flag != 0),
            (_, Value::Int(number)) => Json::Number((*number).into()),
            (_, Value::Real(number)) => Json::Number(Number::from_f64(*number).ok_or_else(wrong)?),
            (_, Value::Text(text)) => Json::String(text.clone()),
            (Kind::Id, Value::Bytes(id)) => {
                Json::String(Uuid::from_slice(id).map_err(unreadable)?.to_string())
            }
            (_, Value::Bytes(hash)) => {
                let hash = <[u8; 32]>::try_from(&hash[..]).map_err(unreadable)?;
                Json::String(BlobHash::from_bytes(hash).to_hex())
            }
        };
        document.insert(column.name.to_owned(), json);
    }
    Ok(Json::Object(document).to_string())
}

/// The columns of a document.
pub(super) fn unpack(columns: &[Column], text: &str) -> Result<Vec<Value>, DatabaseError> {
    let document: Map<String, Json> = serde_json::from_str(text).map_err(unreadable)?;
    let values = columns.iter().map(|column| {
        let wrong = || unreadable(WrongField(column.name));
        Ok(match (column.kind, document.get(column.name)) {
            (_, None | Some(Json::Null)) => Value::Null,
            (Kind::Flag, Some(Json::Bool(flag))) => Value::Int((*flag).into()),
            (Kind::Real, Some(Json::Number(number))) => {
                Value::Real(number.as_f64().ok_or_else(wrong)?)
            }
            (_, Some(Json::Number(number))) => Value::Int(number.as_i64().ok_or_else(wrong)?),
            (Kind::Text, Some(Json::String(text))) => Value::Text(text.clone()),
            (Kind::Id, Some(Json::String(text))) => {
                let id: Uuid = text.parse().map_err(unreadable)?;
                Value::Bytes(id.as_bytes().to_vec())
            }
            (Kind::Bytes, Some(Json::String(text))) => {
                let hash = BlobHash::from_hex(text).map_err(unreadable)?;
                Value::Bytes(hash.as_bytes().to_vec())
            }
            _ => return Err(wrong()),
        })
    });
    values.collect()
}
