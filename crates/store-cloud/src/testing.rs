//! Servers for tests and benches: a PostgreSQL and an object store of this process' own, in temporary folders under `target/`,
//! gone with it.

mod object_store;
mod pooler;
mod postgres;
#[cfg(test)]
pub(crate) mod reads;
mod server;
mod standby;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub use object_store::S3Server;
pub use pooler::PgBouncer;
pub use postgres::PostgresServer;

use crate::{Bucket, BucketOptions, Database, DatabaseOptions};

/// Whether a test can have a PostgreSQL here; else it says that it is skipped, and in CI that is a failure.
///
/// # Panics
/// If none is installed in CI.
#[must_use]
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
pub fn has_postgres() -> bool {
    let has = PostgresServer::is_installed();
    assert!(
        has || std::env::var_os("CI").is_none(),
        "no PostgreSQL is installed, and nothing is skipped in CI"
    );
    if !has {
        eprintln!("skipped: no PostgreSQL is installed; `apt-get install postgresql`");
    }
    has
}

/// The number that a variable of the environment has, for a run that is longer than tests are.
///
/// # Panics
/// If what it has is no number.
#[must_use]
pub fn number(variable: &str, otherwise: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(otherwise, |text| {
        let read = text.parse();
        read.unwrap_or_else(|_| panic!("{variable} is {text}, which is no number"))
    })
}

/// Says how far a long run is.
#[expect(clippy::print_stderr, reason = "a long test shows its progress")]
pub fn tell(text: &str) {
    eprintln!("{text}");
}

/// Everything that is in a database but for one table, in so few words that two of them can be compared.
#[cfg(test)]
pub(crate) async fn rows(database: &Database, without: &str) -> String {
    let connection = database.connection().await.expect("it answers");
    let tables = "SELECT table_name::text FROM information_schema.tables
        WHERE table_schema = 'public' AND table_name <> $1 ORDER BY 1";
    let tables = connection.query(tables, &[&without]).await;
    let tables = tables.expect("it answers");
    let each = tables.iter().map(|row| {
        let table: &str = row.get(0);
        format!("SELECT '{table}' AS name, md5(string_agg(t::text, '|' ORDER BY t::text)) AS rows FROM {table} t")
    });
    let each = each.collect::<Vec<String>>().join(" UNION ALL ");
    let sql = format!(
        "SELECT string_agg(name || coalesce(rows, ''), '|' ORDER BY name) FROM ({each}) AS tables"
    );
    let row = connection.query_one(&sql, &[]).await;
    row.expect("it answers").get(0)
}

/// The server that all tests of this process share. It answers faster than a real one, since nothing of it must last.
fn shared() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| PostgresServer::start(&["fsync=off", "full_page_writes=off"]))
}

/// The address of a fresh database without tables.
///
/// # Panics
/// If no PostgreSQL is installed, or it does not start.
pub async fn empty_database() -> String {
    create("template1").await
}

/// A fresh database with the tables of this version.
///
/// # Panics
/// As [`empty_database`].
pub async fn database() -> Database {
    open(&fresh_database().await).await
}

/// The address of a fresh database with the tables of this version, for two handles over one store.
///
/// # Panics
/// As [`empty_database`].
pub async fn fresh_database() -> String {
    static PREPARED: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    PREPARED
        .get_or_init(|| async {
            shared().create_database("prepared", "template1").await;
            // Dropped at once: a database with connections is no template.
            drop(open(&shared().url("prepared")).await);
        })
        .await;
    create("prepared").await
}

/// Opens a handle with few connections: many tests share the server.
///
/// # Panics
/// If it cannot be opened.
pub async fn open(url: &str) -> Database {
    let options = DatabaseOptions {
        connections: 6,
        ..DatabaseOptions::default()
    };
    let opened = Database::open(url, options).await;
    opened.unwrap_or_else(|error| panic!("{url}: {error:?}"))
}

async fn create(template: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    shared().create_database(&name, template).await;
    shared().url(&name)
}

/// A place of its own in the bucket of the object store that all tests of this process share. Where no object store is installed
/// the test says that it is skipped, and gets `None`; in CI that is a failure.
///
/// # Panics
/// If it does not start, or is missing in CI.
#[must_use]
pub fn bucket() -> Option<BucketOptions> {
    static SERVER: OnceLock<Option<S3Server>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(S3Server::start).as_ref();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    server.map(|server| server.options(&format!("test/{number}")))
}

/// How many blobs are objects of the bucket at this address, which is one of [`bucket`].
///
/// # Panics
/// If it cannot be listed.
pub async fn objects(address: &str) -> usize {
    let key = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("easel".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("easel-secret".to_owned()),
        _ => None,
    };
    let options = BucketOptions::from_url(address, key).expect("an address");
    let bucket = Bucket::new(&options).expect("the options are right");
    let page = bucket.page(None, 1_000, None).await;
    page.expect("it can be listed").0.len()
}

/// Waits for a future in the middle of a test that is not `async`: contract suites ask for a fresh store in a plain closure.
/// The test has to run on several threads.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}
