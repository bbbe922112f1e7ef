//! Rows on their way from one store to another, and the sum that tells whether two stores hold the same ones.

use asset_store::BlobHash;

use super::{Kind, Part};

/// What a column holds.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// Nothing.
    Null,
    /// A number; a flag is 0 or 1.
    Int(i64),
    /// A fraction.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes; an id is 16 of them.
    Bytes(Vec<u8>),
}

/// The columns of a row, in the order of its part.
pub type Row = Vec<Value>;

/// How many rows were seen, and what they sum up to: equal for the same rows in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many.
    pub rows: u64,
    /// Their hashes, added up in four words.
    sum: [u64; 4],
}

/// How far a part is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The key of the last row that was written; nothing before the first one.
    pub after: Option<Row>,
    /// What was written.
    pub digest: Digest,
    /// Whether there is no more.
    pub is_complete: bool,
}

impl Value {
    /// How many bytes of memory it takes, about.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Null | Self::Int(_) | Self::Real(_) => 16,
            Self::Text(text) => text.len() + 16,
            Self::Bytes(bytes) => bytes.len() + 16,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (tag, bytes): (u8, &[u8]) = match self {
            Self::Null => (0, &[]),
            Self::Int(number) => (1, &number.to_be_bytes()),
            Self::Real(number) => (2, &number.to_bits().to_be_bytes()),
            Self::Text(text) => (3, text.as_bytes()),
            Self::Bytes(bytes) => (4, bytes),
        };
        out.push(tag);
        out.extend((bytes.len() as u64).to_be_bytes());
        out.extend(bytes);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let tag = take(bytes, 1)?[0];
        let length = word(bytes)?;
        let content = take(bytes, usize::try_from(length).ok()?)?;
        Some(match tag {
            0 => Self::Null,
            1 => Self::Int(i64::from_be_bytes(content.try_into().ok()?)),
            2 => Self::Real(f64::from_bits(u64::from_be_bytes(content.try_into().ok()?))),
            3 => Self::Text(String::from_utf8(content.to_vec()).ok()?),
            4 => Self::Bytes(content.to_vec()),
            _ => return None,
        })
    }
}

impl Digest {
    /// Counts a row of a part, with the columns that are compared.
    ///
    /// # Panics
    /// If a column has a value of another kind than the part says: a defect of a store.
    pub fn add(&mut self, part: &Part, row: &[Value]) {
        assert_eq!(row.len(), part.columns.len(), "a row of {}", part.name);
        let mut bytes = Vec::with_capacity(row.iter().map(Value::size).sum());
        for (column, value) in part.columns.iter().zip(row) {
            let fits = matches!(
                (value, column.kind),
                (Value::Null, _)
                    | (Value::Int(_), Kind::Int | Kind::Small | Kind::Flag)
                    | (Value::Real(_), Kind::Real)
                    | (Value::Text(_), Kind::Text)
                    | (Value::Bytes(_), Kind::Bytes | Kind::Id)
            );
            assert!(fits, "{} of {}: {value:?}", column.name, part.name);
            if column.is_compared {
                value.write(&mut bytes);
            }
        }
        let hash = BlobHash::of(&bytes);
        let words = hash.as_bytes().chunks_exact(8);
        for (sum, word) in self.sum.iter_mut().zip(words) {
            let word = u64::from_be_bytes(word.try_into().expect("8 bytes each"));
            *sum = sum.wrapping_add(word);
        }
        self.rows += 1;
    }
}

impl Progress {
    /// As a store keeps it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_complete)];
        let words = [&[self.digest.rows], &self.digest.sum[..]].concat();
        bytes.extend(words.into_iter().flat_map(u64::to_be_bytes));
        for value in self.after.iter().flatten() {
            value.write(&mut bytes);
        }
        bytes
    }

    /// From what a store kept; `None` if that is something else.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let is_complete = take(&mut bytes, 1)?[0] == 1;
        let rows = word(&mut bytes)?;
        let mut sum = [0; 4];
        for part in &mut sum {
            *part = word(&mut bytes)?;
        }
        let mut after = Vec::new();
        while !bytes.is_empty() {
            after.push(Value::read(&mut bytes)?);
        }
        Some(Self {
            after: Some(after).filter(|after| !after.is_empty()),
            digest: Digest { rows, sum },
            is_complete,
        })
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn word(bytes: &mut &[u8]) -> Option<u64> {
    let word = take(bytes, 8)?.try_into().ok()?;
    Some(u64::from_be_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::super::part;
    use super::*;

    fn entry(account: &str, seq: i64, cents: i64) -> Row {
        vec![
            Value::Text(account.to_owned()),
            Value::Int(seq),
            Value::Int(1),
            Value::Bytes(vec![7; 16]),
            Value::Int(cents),
            Value::Int(1_800_000_000_000_000),
        ]
    }

    fn digest(rows: &[Row]) -> Digest {
        let mut digest = Digest::default();
        for row in rows {
            digest.add(part("ledger"), row);
        }
        digest
    }

    #[test]
    fn a_sum_depends_on_the_rows_and_not_on_their_order() {
        let (one, other) = (entry("a", 1, 5), entry("b", 1, 5));
        let sum = digest(&[one.clone(), other.clone()]);
        assert_eq!(digest(&[other.clone(), one.clone()]), sum);
        assert_ne!(digest(&[one.clone(), one.clone()]), sum);
        assert_ne!(digest(std::slice::from_ref(&one)), sum);
        assert_ne!(digest(&[entry("a", 1, 6), other]), sum);
    }

    #[test]
    fn progress_reads_back_as_it_was_kept() {
        let progress = Progress {
            after: Some(vec![
                Value::Text("a\0é".to_owned()),
                Value::Int(-1),
                Value::Bytes(vec![0, 255]),
                Value::Null,
                Value::Real(0.5),
            ]),
            digest: digest(&[entry("a", 1, 5)]),
            is_complete: true,
        };
        let bytes = progress.to_bytes();
        assert_eq!(Progress::from_bytes(&bytes), Some(progress));
        assert_eq!(Progress::from_bytes(&bytes[..bytes.len() - 1]), None);
        let fresh = Progress::default();
        assert_eq!(Progress::from_bytes(&fresh.to_bytes()), Some(fresh));
    }
}
