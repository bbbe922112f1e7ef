//! Many rows with one statement: what a statement costs beside its rows, and finding the place of each row from the top of the
//! tree, is most of what inserting a row costs.

use std::sync::OnceLock;

use rusqlite::{Connection, ErrorCode, Statement, ToSql};

/// Rows of a statement: so many while there are as many, then fewer, then one by one.
const MANY: usize = 16;
const FEW: usize = 4;

/// A table and its columns, to be inserted into: one for the whole program, since its statements are spelled once.
#[derive(Debug)]
pub(crate) struct Insert {
    /// `table (columns)`.
    into: &'static str,
    /// How many columns these are.
    columns: usize,
    many: OnceLock<String>,
    few: OnceLock<String>,
    one: OnceLock<String>,
}

/// Takes the values of rows, one column after the other.
pub(crate) struct Values<'a, 'c> {
    statement: &'a mut Statement<'c>,
    next: usize,
}

impl Values<'_, '_> {
    /// The value of the next column.
    pub(crate) fn put(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.next += 1;
        self.statement.raw_bind_parameter(self.next, value)
    }
}

impl Insert {
    /// Into `table (columns)`, so many of them.
    pub(crate) const fn new(into: &'static str, columns: usize) -> Self {
        Self {
            into,
            columns,
            many: OnceLock::new(),
            few: OnceLock::new(),
            one: OnceLock::new(),
        }
    }

    /// Inserts a row for each item, but for those that some constraint keeps out; `inserted` is told of the others.
    pub(crate) fn all<'i, T>(
        &self,
        rows: &Connection,
        items: &'i [T],
        values: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
        mut inserted: impl FnMut(&'i T),
    ) -> rusqlite::Result<()> {
        let (many, rest) = items.as_chunks::<MANY>();
        let (few, rest) = rest.as_chunks::<FEW>();
        // Whatever keeps a row out, the rows before it stay. Otherwise the statement would keep copies of every page that it
        // changes, to undo it as a whole.
        let spell_many = || self.sql(" OR FAIL", MANY, "");
        self.chunks(
            rows,
            many,
            self.many.get_or_init(spell_many),
            &values,
            &mut inserted,
        )?;
        let spell_few = || self.sql(" OR FAIL", FEW, "");
        self.chunks(
            rows,
            few,
            self.few.get_or_init(spell_few),
            &values,
            &mut inserted,
        )?;
        self.each(rows, rest, &values, &mut inserted)
    }

    fn chunks<'i, T, const ROWS: usize>(
        &self,
        rows: &Connection,
        chunks: &'i [[T; ROWS]],
        sql: &str,
        values: &impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
        inserted: &mut impl FnMut(&'i T),
    ) -> rusqlite::Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let mut insert = rows.prepare_cached(sql)?;
        for chunk in chunks {
            let inserted_rows = match put_all(&mut insert, chunk, values) {
                Ok(_) => chunk.len(),
                // Those before it are in.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    usize::try_from(rows.changes()).unwrap_or(chunk.len())
                }
                Err(error) => return Err(error),
            };
            let (done, left) = chunk.split_at(inserted_rows);
            done.iter().for_each(&mut *inserted);
            self.each(rows, left, values, inserted)?;
        }
        Ok(())
    }

    fn each<'i, T>(
        &self,
        rows: &Connection,
        items: &'i [T],
        values: &impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
        inserted: &mut impl FnMut(&'i T),
    ) -> rusqlite::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let spell = || self.sql("", 1, " ON CONFLICT DO NOTHING");
        let mut insert = rows.prepare_cached(self.one.get_or_init(spell))?;
        for item in items {
            if put_all(&mut insert, std::slice::from_ref(item), values)? > 0 {
                inserted(item);
            }
        }
        Ok(())
    }

    fn sql(&self, or: &str, rows: usize, conflict: &str) -> String {
        let row = format!("({})", vec!["?"; self.columns].join(", "));
        let values = vec![row; rows].join(", ");
        format!("INSERT{or} INTO {} VALUES {values}{conflict}", self.into)
    }
}

/// Runs a statement over the values of these items; how many rows it inserted.
fn put_all<T>(
    insert: &mut Statement<'_>,
    items: &[T],
    values: &impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<usize> {
    let mut places = Values {
        statement: insert,
        next: 0,
    };
    for item in items {
        values(item, &mut places)?;
    }
    insert.raw_execute()
}

#[cfg(test)]
mod tests {
    use super::*;

    static INSERT: Insert = Insert::new("numbers (n, half)", 2);

    fn insert(rows: &Connection, numbers: &[i64]) -> rusqlite::Result<Vec<i64>> {
        let mut told = Vec::new();
        let values = |n: &i64, values: &mut Values<'_, '_>| {
            values.put(n)?;
            values.put(n / 2)
        };
        INSERT.all(rows, numbers, values, |n| told.push(*n))?;
        Ok(told)
    }

    fn numbers() -> Connection {
        let rows = Connection::open_in_memory().expect("memory");
        let table = "CREATE TABLE numbers (n INTEGER PRIMARY KEY, half INTEGER NOT NULL CHECK (half < 100))";
        rows.execute(table, []).expect("a table");
        rows
    }

    #[test]
    fn every_item_becomes_a_row() {
        let rows = numbers();
        let all: Vec<i64> = (0..50).collect();
        assert_eq!(insert(&rows, &all).expect("rows"), all);
        assert!(insert(&rows, &[]).expect("nothing").is_empty());
        let sum: i64 = rows
            .query_row("SELECT sum(half) FROM numbers", [], |row| row.get(0))
            .expect("a sum");
        assert_eq!(sum, (0..50).map(|n| n / 2).sum::<i64>());
    }

    #[test]
    fn what_is_there_already_keeps_nobody_else_out() {
        let rows = numbers();
        // The first of a statement as well as one among others.
        insert(&rows, &[0, 3, 16, 30, 33, 37]).expect("rows");
        let all: Vec<i64> = (0..40).collect();
        let told = insert(&rows, &all).expect("rows");
        let new: Vec<i64> = all
            .into_iter()
            .filter(|n| ![0, 3, 16, 30, 33, 37].contains(n))
            .collect();
        assert_eq!(told, new);
    }

    #[test]
    fn a_row_that_may_not_be_is_an_error() {
        let rows = numbers();
        let error = insert(&rows, &[1, 200]).expect_err("the check fails");
        assert_eq!(
            error.sqlite_error_code(),
            Some(ErrorCode::ConstraintViolation)
        );
    }
}
