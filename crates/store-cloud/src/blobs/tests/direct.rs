//! The contract of direct reads on a real object store, with a client of the store itself.

use std::ops::Range;

use asset_store::DirectAnswer;
use asset_store::contract::{DirectReader, DirectStore};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, RANGE};
use http::{Request, Uri};
use http_body_util::BodyExt;
use hyper_kit::{AddressPolicy, Body, Client, ClientConfig, Host};

use super::*;

/// Who has an address and nothing else.
struct Reader(Client);

impl Reader {
    fn of(options: &BucketOptions) -> Self {
        let server: Option<Uri> = options.endpoint.as_deref().and_then(|url| url.parse().ok());
        let server = server.and_then(|url| Host::parse(url.authority()?.as_str()));
        let client = Client::new(ClientConfig {
            policy: AddressPolicy {
                https_only: false,
                allow_private: server.into_iter().collect(),
            },
            ..ClientConfig::default()
        });
        Self(client.expect("no authorities"))
    }
}

#[async_trait]
impl DirectReader for Reader {
    async fn read(&self, address: &str, range: Option<Range<u64>>) -> Option<DirectAnswer> {
        let mut request = Request::get(address);
        if let Some(range) = &range {
            request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
        }
        let request = request.body(Body::empty()).expect("an address");
        let answer = self.0.send(request).await.expect("the store answers");
        let status = answer.status();
        let wanted = match range {
            Some(_) => StatusCode::PARTIAL_CONTENT,
            None => StatusCode::OK,
        };
        if status != wanted {
            assert!(status.is_client_error(), "{status}");
            return None;
        }
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.ok()?.to_bytes();
        let text = |name| {
            let value = parts.headers.get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        Some(DirectAnswer {
            content_type: text(CONTENT_TYPE)?,
            disposition: text(CONTENT_DISPOSITION)?,
            bytes,
        })
    }

    async fn pass(&self, time: Duration) {
        // The store goes by the clock of the system, which nobody moves.
        tokio::time::sleep(time).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_reads_of_a_bucket_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    if testing::bucket().is_none() {
        return;
    }
    contract::direct_reads(|| {
        let options = testing::bucket().expect("it was there before");
        let database = testing::now(testing::database());
        let clock = TestClock::at(Timestamp::from_second(1_800_000_000).expect("in range"));
        let blobs = blobs_at(&options, database, clock);
        let damaged = blobs.clone();
        DirectStore {
            blobs: Arc::new(blobs.clone()),
            direct: Arc::new(blobs),
            damage: Box::new(move |hash, bytes| testing::now(damaged.damage(hash, bytes))),
            reader: Arc::new(Reader::of(&options)),
        }
    })
    .await;
}
