//! A database and a bucket as the store that programs choose.

use std::path::Path;

use accounts::Tier;
use installation::{
    Installation, InstallationStore, OpenError, OpenOptions, ReserveOptions, contract,
};
use store_cloud::{BucketOptions, CloudStore, DatabaseOptions, testing};

async fn new_store() -> Option<CloudStore> {
    let bucket = testing::bucket()?;
    let address = testing::empty_database().await;
    let database = DatabaseOptions {
        connections: 4,
        ..DatabaseOptions::default()
    };
    Some(CloudStore::at(&address, database, bucket))
}

fn options() -> OpenOptions {
    OpenOptions {
        tier: Tier::standard(),
        reserve: ReserveOptions::NONE,
        fresh: false,
    }
}

#[tokio::test]
async fn a_database_and_a_bucket_keep_the_contract_of_an_installation() {
    if !store_cloud::testing::has_postgres() {
        return;
    }
    let Some(store) = new_store().await else {
        return;
    };
    assert!(!store.exists().await, "it was not opened yet");
    contract::installation_store(&store).await;
    let here = store.location();
    assert!(here.contains("s3://easel/test/"), "{here}");
    let refused = store.back_up(Path::new("/tmp")).await;
    let refused = refused.expect_err("there is another way").to_string();
    assert!(refused.contains("pg_dump"), "{refused}");
}

#[tokio::test]
async fn two_replicas_open_one_installation() {
    if !store_cloud::testing::has_postgres() {
        return;
    }
    let Some(store) = new_store().await else {
        return;
    };
    let (one, other) = tokio::join!(store.open(options()), store.open(options()));
    let load = one.as_ref().expect("it opens").health.load();
    let load = load.expect("it has a pool");
    assert!(load.used + load.idle <= 4, "{load:?}");
    assert_eq!(load.behind, None, "nobody asked for changes yet");
    let secret = async |opened: Result<Installation, OpenError>| {
        let installation = opened.expect("it opens");
        installation
            .keys
            .installation_secret()
            .await
            .expect("an answer")
    };
    assert_eq!(secret(one).await, secret(other).await);
    store.usage().await.expect("it can be read");
}

#[tokio::test]
async fn no_text_of_a_store_has_a_secret() {
    if !store_cloud::testing::has_postgres() {
        return;
    }
    let database = DatabaseOptions {
        password: Some("hidden-secret".into()),
        ..DatabaseOptions::default()
    };
    let environment =
        |name: &str| (name == "AWS_SECRET_ACCESS_KEY").then(|| "hidden-secret".to_owned());
    let bucket = BucketOptions::from_url("s3://pictures", environment).expect("an address");
    let store = CloudStore::at(
        "postgres://me:hidden-secret@127.0.0.1:1/name",
        database,
        bucket,
    );
    let refused = store.open(options()).await.expect_err("nobody is there");
    assert!(!store.exists().await, "nobody can tell");
    let said = format!("{store:?} {} {refused} {refused:?}", store.location());
    assert!(!said.contains("hidden-secret"), "{said}");
    assert!(said.contains("127.0.0.1/name and s3://pictures/"), "{said}");
}
