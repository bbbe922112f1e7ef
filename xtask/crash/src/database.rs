//! The database seen from outside while no process has it: damage, and the files that its rows name.
//!
//! Reads with the `sqlite3` program, on a copy: opening the original would fold its log into it, and the next start of the
//! server must find what the kill left.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::tally::{Kind, Violation};

/// The program `sqlite3`.
#[derive(Debug)]
pub(super) struct Sqlite {
    /// Its version.
    pub(super) version: String,
}

/// How thoroughly the database is looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The structure of its pages.
    Quick,
    /// Indexes and references too.
    Whole,
}

const PROGRAM: &str = "sqlite3";
/// The database, its log, and the journal that it has before it has a log; the index of the log is made anew from it.
const FILES: [&str; 3] = ["main.db", "main.db-wal", "main.db-journal"];

impl Sqlite {
    /// The program, if it is installed.
    pub(super) fn find() -> Option<Self> {
        let output = Command::new(PROGRAM).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version.split_whitespace().next()?.to_owned();
        Some(Self { version })
    }

    /// Looks through the database in `data_dir`; what is found goes to `violations`.
    pub(super) fn check(
        &self,
        data_dir: &Path,
        depth: Depth,
        violations: &mut Vec<Violation>,
    ) -> io::Result<()> {
        let statements = match depth {
            Depth::Quick => "PRAGMA quick_check;",
            Depth::Whole => "PRAGMA integrity_check; PRAGMA foreign_key_check;",
        };
        let lines = ask(data_dir, statements)?;
        // A sound database answers the first pragma with `ok` and the second with nothing.
        let found = lines.iter().filter(|line| *line != "ok");
        violations.extend(found.map(|line| Violation::new(Kind::Damaged, line)));
        Ok(())
    }

    /// The ledger of an account, while a server may have the database: the generation of an entry in hexadecimal digits, or
    /// `None` for a grant, and its amount.
    pub(super) fn ledger(
        &self,
        data_dir: &Path,
        account: &str,
    ) -> io::Result<Vec<(Option<String>, i64)>> {
        let statement = format!(
            "SELECT iif(why = 2, lower(hex(cause)), ''), amount_cents FROM ledger WHERE account = '{account}';"
        );
        let output = Command::new(PROGRAM)
            .arg("-readonly")
            .arg(data_dir.join(FILES[0]))
            .arg(statement)
            .output()?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!(
                "the ledger is not read: {complaint}"
            )));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let entry = |line: &str| {
            let (cause, amount) = line.split_once('|')?;
            let generation = Some(cause.to_owned()).filter(|cause| !cause.is_empty());
            Some((generation, amount.parse().ok()?))
        };
        Ok(text.lines().filter_map(entry).collect())
    }

    /// Takes the newest bill out of the ledger of a database that nobody has, as no program may; whether there was one.
    pub(super) fn lose_bill(&self, data_dir: &Path) -> io::Result<bool> {
        let statements = "DROP TRIGGER ledger_keeps_every_entry;
            DELETE FROM ledger WHERE why = 2 AND seq = (SELECT max(seq) FROM ledger WHERE why = 2);
            SELECT changes();
            CREATE TRIGGER ledger_keeps_every_entry BEFORE DELETE ON ledger
            BEGIN SELECT RAISE(ABORT, 'an entry of the ledger does not go'); END;";
        let output = Command::new(PROGRAM)
            .arg(data_dir.join(FILES[0]))
            .arg(statements)
            .output()?;
        Ok(output.status.success() && output.stdout.starts_with(b"1"))
    }

    /// The id and the hash of every record of a file, in hexadecimal digits.
    pub(super) fn records(&self, data_dir: &Path) -> io::Result<Vec<(String, String)>> {
        let lines = ask(
            data_dir,
            "SELECT lower(hex(id)), lower(hex(hash)) FROM assets;",
        )?;
        let pair = |line: &String| {
            let (id, hash) = line.split_once('|')?;
            Some((id.to_owned(), hash.to_owned()))
        };
        Ok(lines.iter().filter_map(pair).collect())
    }
}

/// The answers to statements, line by line.
fn ask(data_dir: &Path, statements: &str) -> io::Result<Vec<String>> {
    let copy = tempfile::tempdir()?;
    for name in FILES {
        match fs::copy(data_dir.join(name), copy.path().join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => drop(other?),
        }
    }
    let output = Command::new(PROGRAM)
        .arg(copy.path().join(FILES[0]))
        .arg(statements)
        .output()?;
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    if !output.status.success() {
        lines.push(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(data_dir: &Path, sqlite: &Sqlite) -> usize {
        let mut violations = Vec::new();
        for depth in [Depth::Quick, Depth::Whole] {
            sqlite
                .check(data_dir, depth, &mut violations)
                .expect("the program runs");
        }
        violations.len()
    }

    #[test]
    fn a_sound_database_passes_and_a_damaged_one_does_not() {
        let Some(sqlite) = Sqlite::find() else {
            use std::io::Write;
            let _ = writeln!(
                io::stderr(),
                "skipped: the check of databases: sqlite3 is not installed"
            );
            return;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let data_dir = folder.path().join("data");
        fs::create_dir(&data_dir).expect("a folder");
        let made = Command::new(PROGRAM)
            .arg(data_dir.join(FILES[0]))
            .arg(
                "CREATE TABLE assets (id BLOB, hash BLOB); INSERT INTO assets VALUES (x'0a', x'FF');
                 CREATE INDEX by_hash ON assets (hash);",
            )
            .status()
            .expect("the program runs");
        assert!(made.success());
        assert_eq!(found(&data_dir, &sqlite), 0);
        let records = sqlite.records(&data_dir).expect("the table is there");
        assert_eq!(records, [("0a".to_owned(), "ff".to_owned())]);

        let path = data_dir.join(FILES[0]);
        let mut bytes = fs::read(&path).expect("the database");
        bytes[4096..].fill(0xa5);
        fs::write(&path, bytes).expect("room for it");
        assert!(found(&data_dir, &sqlite) > 0);
    }
}
