//! How values stand in columns.
//!
//! Times are whole microseconds since 1970 in a `bigint`; what is finer is cut off when a row is made, so that a value reads
//! back as it was answered. Hashes are 32 bytes, ids are `uuid`.

use asset_store::BlobHash;
use jiff::Timestamp;

use crate::DatabaseError;

/// The time as it will read back.
pub(crate) fn whole_micros(time: Timestamp) -> Timestamp {
    from_micros(time.as_microsecond()).expect("cutting off nanoseconds stays in range")
}

/// A column of microseconds as a time.
///
/// The conversion of `jiff` leaves out the last second of all, which deadlines without end are in.
pub(crate) fn from_micros(micros: i64) -> Result<Timestamp, DatabaseError> {
    let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1_000);
    let nanos = nanos.expect("less than a second of nanoseconds");
    Timestamp::new(micros.div_euclid(1_000_000), nanos).map_err(unreadable)
}

/// A column of 32 bytes as a hash.
pub(crate) fn hash(bytes: &[u8]) -> Result<BlobHash, DatabaseError> {
    <[u8; 32]>::try_from(bytes)
        .map(BlobHash::from_bytes)
        .map_err(unreadable)
}

/// A text column that holds something with a grammar of its own.
pub(crate) fn parse<T>(text: &str) -> Result<T, DatabaseError>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().map_err(unreadable)
}

/// A count as a column has it: columns have no unsigned numbers.
pub(crate) fn unsigned<T: TryFrom<i64>>(value: i64) -> Result<T, DatabaseError>
where
    T::Error: std::error::Error + Send + Sync + 'static,
{
    T::try_from(value).map_err(unreadable)
}

/// A column that does not hold what this program writes there.
pub(crate) fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> DatabaseError {
    DatabaseError::Unreadable(Box::new(error))
}
