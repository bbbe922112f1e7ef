//! How values stand in columns.
//!
//! Times are whole microseconds since 1970: 64 bits of them reach past any deadline. What is finer is cut off when a row is
//! made, so that a value reads back as it was answered.

use asset_store::BlobHash;
use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use uuid::Uuid;

/// A time as a column holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Micros(pub(crate) Timestamp);

/// An id as a column holds it: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id(pub(crate) Uuid);

/// A hash as a column holds it: 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(pub(crate) BlobHash);

/// The time as it will read back.
pub(crate) fn whole_micros(time: Timestamp) -> Timestamp {
    from_micros(time.as_microsecond()).expect("cutting off nanoseconds stays in range")
}

/// The conversion of `jiff` leaves out the last second of all, which deadlines without end are in.
fn from_micros(micros: i64) -> Result<Timestamp, jiff::Error> {
    let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1_000);
    let nanos = nanos.expect("less than a second of nanoseconds");
    Timestamp::new(micros.div_euclid(1_000_000), nanos)
}

impl ToSql for Micros {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_microsecond().into())
    }
}

impl FromSql for Micros {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let micros = value.as_i64()?;
        from_micros(micros)
            .map(Self)
            .map_err(|_| FromSqlError::OutOfRange(micros))
    }
}

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 16]>::column_result(value).map(|bytes| Self(Uuid::from_bytes(bytes)))
    }
}

impl ToSql for Hash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

impl FromSql for Hash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 32]>::column_result(value).map(|bytes| Self(BlobHash::from_bytes(bytes)))
    }
}

/// A text column that holds something with a grammar of its own.
pub(crate) fn parse<T>(text: &str) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().map_err(unreadable)
}

/// A column that does not hold what this program writes there.
pub(crate) fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    FromSqlError::Other(Box::new(error)).into()
}
