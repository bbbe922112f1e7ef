//! Reading and writing rows by the description of what an installation consists of.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use installation::transfer::{Kind, PAGE_BYTES, Part, Row, Value};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::documents;
use super::mappings::Mapping;
use crate::columns::unreadable;
use crate::statements::{execute, query};
use crate::{Database, DatabaseError, names};

/// How many rows are fetched at a time where a few may have many bytes.
const FEW: i32 = 4;

/// A value of another kind than its column.
#[derive(Debug, thiserror::Error)]
#[error("a column of {0} holds something else than it should")]
struct WrongValue(&'static str);

type Parameter = Box<dyn ToSql + Sync + Send>;

/// How many rows a part has.
pub(super) async fn count(database: &Database, part: &Part) -> Result<u64, DatabaseError> {
    let connection = database.connection().await?;
    let found = query(&connection, &Mapping::of(part).count, &[]).await?;
    let count: i64 = found.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(count.unsigned_abs())
}

/// The next rows of a part.
pub(super) async fn read(
    database: &Database,
    part: &'static Part,
    after: Option<&[Value]>,
) -> Result<Vec<Row>, DatabaseError> {
    let mapping = Mapping::of(part);
    let columns = mapping.columns(part);
    let keys = part.key_columns().iter().zip(after.unwrap_or_default());
    let keys: Vec<Parameter> = keys
        .map(|(column, value)| scalar(part, column.kind, value))
        .collect::<Result<_, _>>()?;
    let keys: Vec<&(dyn ToSql + Sync)> = keys.iter().map(|key| &**key as _).collect();
    let mut connection = database.connection().await?;
    let transaction = connection.transaction().await?;
    let sql = mapping.page(part, after.is_some());
    let statement = transaction.prepare_cached(&sql).await?;
    let portal = transaction.bind(&statement, &keys).await?;
    let most = match mapping.is_wide {
        true => FEW,
        false => i32::try_from(part.page).unwrap_or(i32::MAX),
    };
    let (mut page, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES {
        let found = transaction.query_portal(&portal, most).await?;
        for row in &found {
            let mut values = Vec::with_capacity(part.columns.len());
            for (place, (name, kind)) in columns.iter().enumerate() {
                match &mapping.document {
                    Some((document, fields)) if document == name => {
                        let text = row.try_get(place)?;
                        let fields = &part.columns[fields.clone()];
                        values.extend(documents::unpack(fields, text)?);
                    }
                    _ => values.push(value(row, place, *kind)?),
                }
            }
            bytes += values.iter().map(Value::size).sum::<usize>();
            page.push(values);
        }
        if found.len() < most.unsigned_abs() as usize {
            break;
        }
    }
    Ok(page)
}

fn value(row: &tokio_postgres::Row, place: usize, kind: Kind) -> Result<Value, DatabaseError> {
    let value = match kind {
        Kind::Int => row.try_get::<_, Option<i64>>(place)?.map(Value::Int),
        Kind::Small => row
            .try_get::<_, Option<i16>>(place)?
            .map(|number| Value::Int(number.into())),
        Kind::Flag => row
            .try_get::<_, Option<bool>>(place)?
            .map(|flag| Value::Int(flag.into())),
        Kind::Real => row.try_get::<_, Option<f64>>(place)?.map(Value::Real),
        Kind::Text => row.try_get::<_, Option<String>>(place)?.map(Value::Text),
        Kind::Bytes => row.try_get::<_, Option<Vec<u8>>>(place)?.map(Value::Bytes),
        Kind::Id => row
            .try_get::<_, Option<Uuid>>(place)?
            .map(|id| Value::Bytes(id.as_bytes().to_vec())),
    };
    Ok(value.unwrap_or(Value::Null))
}

/// Adds rows of a part.
pub(super) async fn write(
    rows: &Transaction<'_>,
    part: &'static Part,
    new: Vec<Row>,
) -> Result<(), DatabaseError> {
    if new.is_empty() {
        return Ok(());
    }
    let mapping = Mapping::of(part);
    let sets = match part.name {
        "jobs" => {
            put_labels(rows, part, &new).await?;
            let place = part.place("requirements");
            let sets = new.iter().map(|row| {
                let Value::Text(text) = &row[place] else {
                    return Err(unreadable(WrongValue(part.name)));
                };
                Ok(names::of(text.as_bytes()))
            });
            Some(sets.collect::<Result<Vec<Uuid>, _>>()?)
        }
        _ => None,
    };
    let mut lying = Vec::with_capacity(new.len());
    for mut row in new {
        if let Some((_, fields)) = &mapping.document {
            let document = documents::pack(&part.columns[fields.clone()], &row[fields.clone()])?;
            row.splice(fields.clone(), [Value::Text(document)]);
        }
        lying.push(row);
    }
    let columns = mapping.columns(part);
    let arrays = columns.iter().enumerate().map(|(place, (_, kind))| {
        let column = lying
            .iter_mut()
            .map(|row| std::mem::replace(&mut row[place], Value::Null));
        array(part, *kind, column)
    });
    let mut arrays: Vec<Parameter> = arrays.collect::<Result<_, _>>()?;
    arrays.extend(sets.map(|sets| Box::new(sets) as Parameter));
    let arrays: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| &**array as _).collect();
    for insert in mapping.inserts(part) {
        execute(rows, &insert, &arrays).await?;
    }
    Ok(())
}

/// The labels by which jobs are found: they are their metadata.
async fn put_labels(
    rows: &Transaction<'_>,
    part: &Part,
    jobs: &[Row],
) -> Result<(), DatabaseError> {
    let (mut accounts, mut labels, mut ages, mut ids) = (vec![], vec![], vec![], vec![]);
    for job in jobs {
        let [
            Value::Text(account),
            Value::Text(metadata),
            Value::Int(age),
            Value::Bytes(id),
        ] = ["account", "metadata", "created_at", "id"].map(|name| &job[part.place(name)])
        else {
            return Err(unreadable(WrongValue(part.name)));
        };
        let metadata: BTreeMap<String, String> =
            serde_json::from_str(metadata).map_err(unreadable)?;
        for (key, value) in metadata {
            accounts.push(account.as_str());
            labels.push(names::of_label(&key, &value));
            ages.push(*age);
            ids.push(Uuid::from_slice(id).map_err(unreadable)?);
        }
    }
    let sql = "INSERT INTO job_labels (account, label, created_at, job)
        SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::uuid[])";
    execute(rows, sql, &[&accounts, &labels, &ages, &ids]).await?;
    Ok(())
}

fn scalar(part: &Part, kind: Kind, value: &Value) -> Result<Parameter, DatabaseError> {
    Ok(match (kind, value) {
        (Kind::Int, Value::Int(number)) => Box::new(*number),
        (Kind::Small, Value::Int(number)) => Box::new(i16::try_from(*number).map_err(unreadable)?),
        (Kind::Text, Value::Text(text)) => Box::new(text.clone()),
        (Kind::Bytes, Value::Bytes(bytes)) => Box::new(bytes.clone()),
        (Kind::Id, Value::Bytes(id)) => Box::new(Uuid::from_slice(id).map_err(unreadable)?),
        _ => return Err(unreadable(WrongValue(part.name))),
    })
}

/// A column of rows as one parameter.
fn array(
    part: &Part,
    kind: Kind,
    values: impl Iterator<Item = Value>,
) -> Result<Parameter, DatabaseError> {
    Ok(match kind {
        Kind::Int => all(values, |value| number(part, &value))?,
        Kind::Small => all(values, |value| {
            i16::try_from(number(part, &value)?).map_err(unreadable)
        })?,
        Kind::Flag => all(values, |value| Ok(number(part, &value)? != 0))?,
        Kind::Real => all(values, |value| {
            let Value::Real(number) = value else {
                return Err(unreadable(WrongValue(part.name)));
            };
            Ok(number)
        })?,
        Kind::Text => all(values, |value| {
            let Value::Text(text) = value else {
                return Err(unreadable(WrongValue(part.name)));
            };
            Ok(text)
        })?,
        Kind::Bytes => all(values, |value| bytes(part, value))?,
        Kind::Id => all(values, |value| {
            Uuid::from_slice(&bytes(part, value)?).map_err(unreadable)
        })?,
    })
}

fn all<T: ToSql + Sync + Send + 'static>(
    values: impl Iterator<Item = Value>,
    of: impl Fn(Value) -> Result<T, DatabaseError>,
) -> Result<Parameter, DatabaseError> {
    let values = values.map(|value| match value == Value::Null {
        true => Ok(None),
        false => of(value).map(Some),
    });
    Ok(Box::new(values.collect::<Result<Vec<Option<T>>, _>>()?))
}

fn number(part: &Part, value: &Value) -> Result<i64, DatabaseError> {
    let Value::Int(number) = value else {
        return Err(unreadable(WrongValue(part.name)));
    };
    Ok(*number)
}

fn bytes(part: &Part, value: Value) -> Result<Vec<u8>, DatabaseError> {
    let Value::Bytes(bytes) = value else {
        return Err(unreadable(WrongValue(part.name)));
    };
    Ok(bytes)
}
