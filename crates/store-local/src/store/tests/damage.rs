//! A campaign of random damages to `main.db`: how many of them a start refuses or tells, how many the look through a served
//! database, and how many nobody. `EASEL_DAMAGES` sets their number, `EASEL_SEED` the seed.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use accounts::AccountId;
use asset_store::{Asset, AssetId, AssetRecords, BlobHash, InsertAsset, InsertRule};
use jiff::Timestamp;
use uuid::Uuid;

use super::super::*;

/// Rows in a database of some hundred KiB.
const ASSETS: u32 = 400;

/// What became of damages.
#[derive(Debug, Default)]
struct Count {
    /// The start ended with an error.
    refused: u32,
    /// The start told it and nothing is written.
    told_at_start: u32,
    /// The look through the served database told it.
    told_by_scrub: u32,
    /// Nobody told it, and every row reads as before.
    harmless: u32,
    /// Nobody told it, and some row reads otherwise.
    unnoticed: u32,
}

/// Random numbers that a seed repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A closed installation with rows.
async fn installation(path: &Path) {
    let store = Store::open(path).expect("a fresh store");
    let now = Timestamp::from_second(1_800_000_000).expect("in range");
    for number in 0..ASSETS {
        let asset = Asset {
            id: AssetId(Uuid::from_u128(number.into())),
            account: AccountId::local(),
            hash: BlobHash::of(&number.to_be_bytes()),
            size_bytes: number.into(),
            content_type: "image/png".to_owned(),
            file_path: format!("folder/{number}/a name of some length.png")
                .parse()
                .ok(),
            tags: vec![format!("tag {}", number % 7)],
            created_at: now,
            expires_at: None,
            job_id: None,
        };
        let insert = InsertAsset {
            asset,
            rule: InsertRule::Upload,
            claim: None,
            most_bytes: None,
        };
        store.records().insert(insert, now).await.expect("a record");
    }
}

/// Every row of every table, but for what a start writes.
fn rows(path: &Path) -> rusqlite::Result<Vec<String>> {
    let rows = rusqlite::Connection::open(path.join("main.db"))?;
    let mut tables = rows.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'call_log_place' ORDER BY name",
    )?;
    let tables = tables.query_map([], |row| row.get::<_, String>(0))?;
    let mut found = Vec::new();
    for table in tables {
        let mut statement = rows.prepare(&format!("SELECT * FROM \"{}\"", table?))?;
        let columns = statement.column_count();
        let texts = statement.query_map([], |row| {
            let values = (0..columns).map(|column| row.get::<_, rusqlite::types::Value>(column));
            values.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        for values in texts {
            found.push(format!("{:?}", values?));
        }
    }
    Ok(found)
}

/// Changes a bit, some bytes or a sector, or takes the end away.
fn damage(file: &File, random: &mut Random) {
    let length = file.metadata().expect("a file").len();
    let at = random.below(length);
    let write = |bytes: &[u8], at| file.write_all_at(bytes, at).expect("a disk");
    match random.below(8) {
        0 => file.set_len(at).expect("a disk"),
        1 => write(&[0; 512], at / 512 * 512),
        2 => write(&random.next().to_be_bytes(), at.min(length - 8)),
        _ => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("a disk");
            write(&[byte[0] ^ (1 << random.below(8))], at);
        }
    }
}

async fn run(seed: u64, damages: u32) -> Count {
    let root = tempfile::tempdir().expect("a temporary directory");
    let whole = root.path().join("whole");
    installation(&whole).await;
    let path = root.path().join("damaged");
    drop(Store::open(&path).expect("a fresh store"));
    let database = fs::read(whole.join("main.db")).expect("the rows");
    let expected = rows(&whole).expect("sound rows");
    let mut count = Count::default();
    for number in 0..damages {
        for name in ["main.db-wal", "main.db-shm", "installation", "lock"] {
            let _ = fs::remove_file(path.join(name));
        }
        fs::write(path.join("main.db"), &database).expect("a disk");
        let file = File::options()
            .read(true)
            .write(true)
            .open(path.join("main.db"));
        damage(
            &file.expect("the rows"),
            &mut Random(seed ^ (u64::from(number) << 32)),
        );
        let Ok(store) = Store::open(&path) else {
            count.refused += 1;
            continue;
        };
        let is_told = store.healthy().is_err();
        // An error of the check itself is logged, too.
        let found = store.look_through().await;
        let is_found = !matches!(&found, Ok(found) if found.is_empty());
        drop(store);
        match (is_told, is_found) {
            (true, _) => count.told_at_start += 1,
            (false, true) => count.told_by_scrub += 1,
            (false, false) if rows(&path).is_ok_and(|rows| rows == expected) => count.harmless += 1,
            (false, false) => count.unnoticed += 1,
        }
    }
    count
}

#[tokio::test]
async fn most_random_damages_are_told_and_the_rest_are_counted() {
    let number = |name: &str, default: u32| {
        let set = std::env::var(name).ok();
        set.map_or(default, |text| text.parse().expect("a number"))
    };
    let (damages, seed) = (number("EASEL_DAMAGES", 60), number("EASEL_SEED", 17));
    let count = run(seed.into(), damages).await;
    let Count {
        refused,
        told_at_start,
        told_by_scrub,
        harmless,
        unnoticed,
    } = count;
    assert_eq!(
        refused + told_at_start + told_by_scrub + harmless + unnoticed,
        damages
    );
    // Past the capture of test output: the figures are what a campaign is for.
    let _ = writeln!(
        std::io::stderr(),
        "seed {seed}, {damages} damages: {count:?}"
    );
    let harmful = damages - harmless;
    assert!((refused + told_at_start) * 3 >= harmful, "{count:?}");
    assert!(told_by_scrub > 0, "{count:?}");
    // A bit inside of a text or a number that no index has.
    assert!(unnoticed * 5 <= harmful, "{count:?}");
}
