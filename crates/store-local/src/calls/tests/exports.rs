//! The record of calls as it is read and exported.

use super::*;

/// A thousand calls are two full pages and an empty one.
#[tokio::test]
async fn an_export_reads_page_by_page() {
    use futures_util::StreamExt;
    use router_core::{CallRecord, RequestId, Usage, UsageQuery};
    let (_root, store) = fresh().await;
    let calls = store.calls();
    for n in 0..1_000_u32 {
        calls.record(CallRecord {
            request: RequestId(Uuid::from_u128(n.into())),
            account: acme(),
            model: None,
            key: None,
            generation: None,
            api_key: None,
            labels: accounts::Labels::NONE,
            bucket: None,
            replayed: false,
            received_at: at((n / 7).into()),
            answered_at: at(0),
            delivered: true,
        });
    }
    let exported: Vec<_> = calls.export(UsageQuery::default()).collect().await;
    let requests = exported
        .into_iter()
        .map(|row| row.expect("a row").call.request);
    let expected = (0..1_000_u32).map(|n| RequestId(Uuid::from_u128(n.into())));
    assert!(requests.eq(expected));
}

#[tokio::test]
async fn the_record_is_read_beside_whoever_has_the_directory() {
    use router_core::{Usage, UsageQuery};
    let (root, store) = fresh().await;
    complete(&store, 1, b"{}").await;
    let beside = SqliteUsage::open(root.path()).expect("nothing is taken");
    let record = |n: u128| router_core::CallRecord {
        request: router_core::RequestId(Uuid::from_u128(n)),
        account: acme(),
        model: None,
        key: None,
        generation: Some(id(1)),
        api_key: None,
        labels: accounts::Labels::NONE,
        bucket: None,
        replayed: false,
        received_at: at(0),
        answered_at: at(1),
        delivered: true,
    };
    // It sees what was written before it was opened, and what is written later.
    for n in [1, 2] {
        store.calls().record(record(n));
        store.calls().database.catch_up().await;
        let page = beside.page(&UsageQuery::default(), None, 10).await;
        let page = page.expect("the rows are read");
        assert_eq!(page.len() as u128, n);
    }
    drop(store);
    let page = beside.page(&UsageQuery::default(), None, 10).await;
    assert_eq!(page.expect("the rows are read").len(), 2);
    drop(open(root.path(), 0));
}

#[test]
fn nothing_is_made_or_brought_up_to_date_to_read_a_record() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let refused = SqliteUsage::open(root.path()).expect_err("there is nothing");
    assert!(refused.to_string().contains("no installation"), "{refused}");
    let left = std::fs::read_dir(root.path()).expect("the folder").count();
    assert_eq!(left, 0);
    drop(open(root.path(), 0));
    let raw = Connection::open(root.path().join("main.db")).expect("the file");
    raw.execute("DELETE FROM migrations WHERE aggregate = 'calls'", [])
        .expect("an older database");
    let refused = SqliteUsage::open(root.path()).expect_err("it is older");
    assert!(refused.to_string().contains("older version"), "{refused}");
    raw.execute("INSERT INTO migrations VALUES ('calls', 99)", [])
        .expect("a newer database");
    let refused = SqliteUsage::open(root.path()).expect_err("it is newer");
    assert!(refused.to_string().contains("newer version"), "{refused}");
}
