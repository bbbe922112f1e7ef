//! What an operator reads when a bucket cannot be used.

use super::*;
use crate::testing;

async fn check(change: impl Fn(&mut BucketOptions)) -> Option<Result<(), String>> {
    let mut options = testing::bucket()?;
    change(&mut options);
    let bucket = Bucket::new(&options).expect("the options are right");
    let checked = bucket.check().await;
    Some(checked.map_err(|error| {
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(!text.contains("-secret"), "{text}");
        }
        error.to_string()
    }))
}

fn key(id: &str, secret: &str) -> Vec<(&'static str, secrecy::SecretString)> {
    vec![
        ("AWS_ACCESS_KEY_ID", id.into()),
        ("AWS_SECRET_ACCESS_KEY", secret.into()),
    ]
}

#[tokio::test]
async fn what_is_wrong_with_a_bucket_is_said_in_a_sentence() {
    let Some(right) = check(|_| ()).await else {
        return;
    };
    right.expect("nothing is wrong");
    let wrong = async |change: &dyn Fn(&mut BucketOptions), says: &str| {
        let checked = check(change).await.expect("it was there before");
        let said = checked.expect_err(says);
        assert!(said.contains(says), "{said}");
    };
    wrong(
        &|options| options.bucket = "missing".to_owned(),
        "does not exist; create it",
    )
    .await;
    wrong(
        &|options| options.credentials = key("reader", "reader-secret"),
        "may not use s3://easel/test/",
    )
    .await;
    for (id, secret) in [("easel", "another-secret"), ("nobody", "easel-secret")] {
        let says = "does not accept the access key";
        wrong(&|options| options.credentials = key(id, secret), says).await;
    }
    // A port that was just free.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = listener.local_addr().expect("it is bound");
    drop(listener);
    let nobody = format!("http://{closed}");
    wrong(
        &|options| options.endpoint = Some(nobody.clone()),
        "cannot be reached; check the endpoint",
    )
    .await;
}

#[test]
fn every_setting_of_credentials_is_one_that_the_client_knows() {
    let environment = |name: &str| (!name.ends_with("_FILE")).then(|| "value".to_owned());
    let options = BucketOptions::from_url("s3://easel", environment).expect("it is an address");
    assert_eq!(options.credentials.len(), 6);
    Bucket::new(&BucketOptions {
        endpoint: None,
        ..options
    })
    .expect("they are known");
}
