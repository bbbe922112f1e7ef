//! Reading and writing rows by the description of what an installation consists of.

use ::installation::transfer::{Kind, PAGE_BYTES, Part, Row, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params};

use super::mappings::Mapping;
use crate::columns::{Id, unreadable};
use crate::{installation_id, link_keys};

/// A row of another form than its part has.
#[derive(Debug, thiserror::Error)]
#[error("the column {column} of {part} holds something else than it should")]
struct WrongValue {
    part: &'static str,
    column: &'static str,
}

/// A value as a parameter.
struct Parameter<'v>(&'v Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let Self(value) = self;
        Ok(ToSqlOutput::Borrowed(match value {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// How many rows a part has, about.
pub(super) fn count(rows: &Connection, part: &Part) -> rusqlite::Result<u64> {
    let count: i64 = rows.query_row(&Mapping::of(part).count, [], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// The next rows of a part.
pub(super) fn read(
    rows: &Connection,
    part: &'static Part,
    after: Option<&[Value]>,
) -> rusqlite::Result<Vec<Row>> {
    let sql = Mapping::of(part).page(part, after.is_some());
    let mut statement = rows.prepare_cached(&sql)?;
    let after = after.unwrap_or_default().iter().map(Parameter);
    let mut found = statement.query(rusqlite::params_from_iter(after))?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let columns = part.columns.iter().enumerate();
        let values = columns.map(|(place, column)| {
            let value = value(row.get_ref(place)?, column.kind);
            value.ok_or_else(|| {
                unreadable(WrongValue {
                    part: part.name,
                    column: column.name,
                })
            })
        });
        let values = values.collect::<rusqlite::Result<Row>>()?;
        bytes += values.iter().map(Value::size).sum::<usize>();
        page.push(values);
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}

fn value(found: ValueRef<'_>, kind: Kind) -> Option<Value> {
    Some(match (kind, found) {
        (_, ValueRef::Null) => Value::Null,
        (Kind::Int | Kind::Small | Kind::Flag, ValueRef::Integer(number)) => Value::Int(number),
        // JSON has no larger numbers; this one is a bound without end.
        (Kind::Int, ValueRef::Real(_)) => Value::Int(i64::MAX),
        (Kind::Real, ValueRef::Real(number)) => Value::Real(number),
        (Kind::Text, ValueRef::Text(text)) => Value::Text(String::from_utf8(text.to_vec()).ok()?),
        (Kind::Bytes, ValueRef::Blob(bytes) | ValueRef::Text(bytes)) => {
            Value::Bytes(bytes.to_vec())
        }
        (Kind::Id, ValueRef::Blob(bytes)) => Value::Bytes(bytes.to_vec()),
        _ => return None,
    })
}

/// Adds rows of a part.
pub(super) fn write(rows: &Connection, part: &'static Part, new: &[Row]) -> rusqlite::Result<()> {
    for sql in &Mapping::of(part).writes {
        let mut statement = rows.prepare_cached(sql)?;
        let columns = part.columns.iter().enumerate();
        let bound = columns.map(|(place, column)| {
            let parameter = statement.parameter_index(&format!(":{}", column.name))?;
            Ok(parameter.map(|parameter| (parameter, place)))
        });
        let bound = bound.collect::<rusqlite::Result<Vec<_>>>()?;
        for row in new {
            for (parameter, place) in bound.iter().flatten() {
                statement.raw_bind_parameter(*parameter, Parameter(&row[*place]))?;
            }
            statement.raw_execute()?;
        }
    }
    Ok(())
}

/// The one row of the installation itself.
pub(super) fn read_secrets(rows: &Connection, is_behind: bool) -> rusqlite::Result<Vec<Row>> {
    if is_behind {
        return Ok(Vec::new());
    }
    let keys = "SELECT id, secret FROM link_keys ORDER BY id DESC LIMIT 2";
    let mut keys = rows.prepare(keys)?;
    let keys = keys.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let keys = keys.collect::<rusqlite::Result<Vec<(i64, Vec<u8>)>>>()?;
    let Some((number, newest)) = keys.first() else {
        return Ok(Vec::new());
    };
    let before = keys.get(1).map(|(_, secret)| Value::Bytes(secret.clone()));
    let secret = link_keys::installation_secret(rows)?;
    Ok(vec![vec![
        Value::Bytes(installation_id::of_rows(rows)?.as_bytes().to_vec()),
        Value::Bytes(secret.to_vec()),
        Value::Bytes(newest.clone()),
        before.unwrap_or(Value::Null),
        Value::Int(*number),
    ]])
}

/// Keeps the one row of the installation itself.
pub(super) fn write_secrets(rows: &Connection, new: &[Row]) -> rusqlite::Result<()> {
    for row in new {
        let [id, secret, newest, before, number] = &row[..] else {
            return Err(unreadable(WrongValue {
                part: "installation",
                column: "id",
            }));
        };
        rows.execute(
            "INSERT INTO moved_installation (only, id, secret) VALUES (1, ?1, ?2)",
            params![Parameter(id), Parameter(secret)],
        )?;
        rows.execute(
            "INSERT INTO link_keys (id, secret) SELECT ?2 - 1, ?1 WHERE ?1 IS NOT NULL",
            params![Parameter(before), Parameter(number)],
        )?;
        rows.execute(
            "INSERT INTO link_keys (id, secret) VALUES (?2, ?1)",
            params![Parameter(newest), Parameter(number)],
        )?;
    }
    Ok(())
}

/// The id in a column of a row.
pub(super) fn id(value: &Value) -> rusqlite::Result<Id> {
    let bytes = match value {
        Value::Bytes(bytes) => uuid::Uuid::from_slice(bytes).ok(),
        Value::Null | Value::Int(_) | Value::Real(_) | Value::Text(_) => None,
    };
    bytes.map(Id).ok_or_else(|| {
        unreadable(WrongValue {
            part: "generations",
            column: "id",
        })
    })
}
