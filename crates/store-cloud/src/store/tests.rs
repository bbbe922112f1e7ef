//! What an operator meets when bucket and database do not fit.

use accounts::Tier;
use asset_store::{Asset, AssetId, BlobHash, InsertAsset, InsertRule, SpaceClass};
use bytes::Bytes;
use installation::ReserveOptions;
use uuid::Uuid;

use super::*;
use crate::testing;

async fn new_store() -> Option<CloudStore> {
    let bucket = testing::bucket()?;
    let address = testing::empty_database().await;
    let database = DatabaseOptions {
        connections: 4,
        ..DatabaseOptions::default()
    };
    Some(CloudStore::at(&address, database, bucket))
}

fn options(fresh: bool) -> OpenOptions {
    OpenOptions {
        tier: Tier::standard(),
        reserve: ReserveOptions::NONE,
        fresh,
    }
}

#[tokio::test]
async fn a_bucket_of_another_installation_is_refused() {
    if !crate::testing::has_postgres() {
        return;
    }
    let (Some(store), Some(other)) = (new_store().await, new_store().await) else {
        return;
    };
    store.open(options(false)).await.expect("it is new");
    let mixed = CloudStore {
        bucket: store.bucket.clone(),
        ..other
    };
    let refused = mixed.open(options(false)).await;
    let refused = refused.expect_err("it holds other blobs").to_string();
    assert!(
        refused.contains("name the bucket that belongs to the database"),
        "{refused}"
    );
    mixed
        .open(options(true))
        .await
        .expect("a fresh one takes it over");
    store
        .open(options(false))
        .await
        .expect_err("it is another's now");
}

#[tokio::test]
async fn an_inspection_tells_what_is_missing_and_what_is_damaged() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some(store) = new_store().await else {
        return;
    };
    let installation = store.open(options(false)).await.expect("it is new");
    let assets = &installation.assets;
    // Of each a small one and a large one.
    let large = |what: &[u8]| what.repeat(10_000);
    let (missing, damaged) = (large(b"missing"), large(b"damaged"));
    for (number, bytes) in [
        b"whole".as_slice(),
        b"missing",
        b"damaged",
        &missing,
        &damaged,
    ]
    .into_iter()
    .enumerate()
    {
        let mut writer = assets
            .blobs
            .begin(SpaceClass::Spare)
            .await
            .expect("a writer");
        writer
            .write(Bytes::copy_from_slice(bytes))
            .await
            .expect("room");
        let blob = writer.commit().await.expect("a blob");
        let asset = Asset {
            id: AssetId(Uuid::from_u128(number as u128)),
            account: "acme".parse().expect("a valid name"),
            hash: blob.hash,
            size_bytes: blob.size_bytes,
            content_type: "image/png".to_owned(),
            file_path: None,
            tags: Vec::new(),
            created_at: Timestamp::now(),
            expires_at: None,
            job_id: None,
        };
        let insert = InsertAsset {
            asset,
            rule: InsertRule::Upload,
            claim: None,
            most_bytes: None,
        };
        let inserted = assets.records.insert(insert, Timestamp::now()).await;
        inserted.expect("a record");
    }
    let bucket = Bucket::new(&store.bucket).expect("it is right");
    let hash = BlobHash::of(&missing);
    bucket.delete(&hash).await.expect("it is gone");
    let changed = BlobHash::of(&damaged);
    let put = bucket.put(&changed, large(b"demagad").into());
    put.await.expect("it is replaced");
    let database = store.open_database().await.expect("it answers");
    let connection = database.connection().await.expect("it answers");
    let change = "DELETE FROM blob_ages WHERE bytes = 'missing';
        UPDATE blob_ages SET bytes = 'demagad' WHERE bytes = 'damaged'";
    connection.batch_execute(change).await.expect("it is there");
    let (contents, faults) = store.inspect().await.expect("it can be read");
    assert_eq!((contents.blobs, contents.bytes), (5, 5));
    let told = |what: &[u8]| {
        let hash = BlobHash::of(what);
        let of_it = faults
            .iter()
            .filter(|fault| fault.contains(&hash.to_string()));
        of_it.map(String::as_str).collect::<Vec<&str>>()
    };
    assert_eq!(faults.len(), 4, "{faults:?}");
    for missing in [b"missing".as_slice(), &missing] {
        let told = told(missing);
        assert!(
            told[0].ends_with("are missing, and records name them"),
            "{told:?}"
        );
    }
    for damaged in [b"damaged".as_slice(), &damaged] {
        let told = told(damaged);
        assert!(told[0].contains("are damaged"), "{told:?}");
    }
}
