//! The rules of [`DirectReads`]. The links are read from outside, as a client of the server reads them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::blobs::{pattern, put};
use super::damage::{Damage, flipped, is_damaged, verify};
use crate::{Blob, BlobError, BlobHash, BlobStore, DirectAnswer, DirectReads, Presented, read_all};

/// Who reads at addresses.
#[async_trait]
pub trait DirectReader: Send + Sync {
    /// Reads the blob at an address, or a range of it; `None` if the store gives nothing out.
    async fn read(&self, address: &str, range: Option<Range<u64>>) -> Option<DirectAnswer>;

    /// Has time pass for the store that gives out.
    async fn pass(&self, time: Duration);
}

/// A fresh store, with who reads from it and what damages it.
pub struct DirectStore {
    /// Where blobs come from.
    pub blobs: Arc<dyn BlobStore>,
    /// What makes addresses.
    pub direct: Arc<dyn DirectReads>,
    /// What changes bytes.
    pub damage: Damage,
    /// Who reads.
    pub reader: Arc<dyn DirectReader>,
}

/// One on each side of the sizes at which stores change their ways.
const LENGTHS: [u32; 6] = [1, 16_384, 16_385, 60_000, 262_144, 3_000_001];

/// Of a blob that every store gives out at an address.
const LARGE: u32 = 60_000;

/// How long addresses work that are to work.
const LASTS: Duration = Duration::from_secs(60);

const PAGE: Presented<'static> = Presented {
    content_type: "text/html; charset=utf-8",
    disposition: "attachment; filename=\"a page.html\"; filename*=UTF-8''n%C3%A9w%20page.html",
};

/// Runs every rule on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn direct_reads(fresh: impl Fn() -> DirectStore) {
    an_address_gives_a_blob_as_it_is_presented(&fresh()).await;
    an_address_gives_nothing_else(&fresh()).await;
    an_address_lapses(&fresh()).await;
    what_is_missing_or_known_to_be_damaged_has_no_address(&fresh()).await;
    what_is_deleted_is_not_given_out(&fresh()).await;
}

impl DirectStore {
    async fn address(&self, blob: &Blob, presented: Presented<'_>) -> Option<String> {
        let address = self.direct.address(blob, presented, LASTS).await;
        address.expect("the blob is there")
    }

    /// The address of a blob that is large enough for one.
    async fn address_of_large(&self, blob: &Blob, presented: Presented<'_>) -> String {
        let address = self.address(blob, presented).await;
        address.expect("the store gives out what is large")
    }

    async fn read(&self, address: &str) -> Option<DirectAnswer> {
        self.reader.read(address, None).await
    }
}

async fn an_address_gives_a_blob_as_it_is_presented(store: &DirectStore) {
    let other = Presented {
        content_type: "image/png",
        disposition: "inline",
    };
    for length in LENGTHS {
        let bytes = pattern(length);
        let blob = put(&*store.blobs, &bytes).await;
        for presented in [PAGE, other] {
            let Some(address) = store.address(&blob, presented).await else {
                assert!(length < LARGE, "{length}");
                let read = read_all(&*store.blobs, &blob).await;
                assert!(read.expect("the bytes") == bytes, "{length}");
                continue;
            };
            // As often as it is asked for.
            for _ in 0..2 {
                let read = store.read(&address).await.expect("it is there");
                assert_eq!(read.content_type, presented.content_type, "{length}");
                assert_eq!(read.disposition, presented.disposition, "{length}");
                assert!(read.bytes == bytes, "{length}");
            }
            let half = u64::from(length) / 2;
            for range in [0..half + 1, half..u64::from(length)] {
                let part = store.reader.read(&address, Some(range.clone())).await;
                let part = part.expect("it is there");
                let [from, to] = [range.start, range.end];
                let [from, to] = [from, to].map(|at| usize::try_from(at).expect("small"));
                assert!(part.bytes == bytes[from..to], "{length}: {range:?}");
            }
        }
    }
}

async fn an_address_gives_nothing_else(store: &DirectStore) {
    let bytes = pattern(LARGE);
    let own = put(&*store.blobs, &bytes).await;
    let other = put(&*store.blobs, &flipped(&bytes)).await;
    let address = store.address_of_large(&own, PAGE).await;
    let lasts = LASTS.as_secs().to_string();
    let longer = (LASTS.as_secs() * 60).to_string();
    let [own, other] = [own, other].map(|blob| blob.hash.to_hex());
    let folder = |hash: &str| format!("{}/{}/{hash}", &hash[..2], &hash[2..4]);
    let mut forged = vec![
        address.replace(&folder(&own), &folder(&other)),
        address.replace(&*own, &other),
        address.replace("attachment", "inline"),
        address.replace("text", "page"),
        address.replace(&format!("={lasts}"), &format!("={longer}")),
        address[..address.len() - 1].to_owned(),
    ];
    forged.retain(|forged| *forged != address);
    assert!(forged.len() > 1, "{address} says nothing of what it is for");
    for forged in forged {
        let read = store.read(&forged).await;
        assert_eq!(read, None, "{forged}");
    }
    let read = store.read(&address).await.expect("it works on");
    assert!(read.bytes == bytes);
}

async fn an_address_lapses(store: &DirectStore) {
    let bytes = pattern(LARGE);
    let blob = put(&*store.blobs, &bytes).await;
    let short = Duration::from_secs(2);
    let lapsing = store.direct.address(&blob, PAGE, short).await;
    let lapsing = lapsing.expect("the blob is there");
    let lapsing = lapsing.expect("the store gives out what is large");
    let lasting = store.address_of_large(&blob, PAGE).await;
    store.reader.pass(short + Duration::from_secs(1)).await;
    assert_eq!(store.read(&lapsing).await, None);
    let read = store.read(&lasting).await.expect("its time is not over");
    assert!(read.bytes == bytes);
}

async fn what_is_missing_or_known_to_be_damaged_has_no_address(store: &DirectStore) {
    let missing = Blob {
        hash: BlobHash::of(b"never put"),
        size_bytes: u64::from(LARGE),
    };
    let none = store.direct.address(&missing, PAGE, LASTS).await;
    assert!(matches!(none, Err(BlobError::Absent)), "{none:?}");
    let bytes = pattern(LARGE);
    let blob = put(&*store.blobs, &bytes).await;
    (store.damage)(&blob.hash, &flipped(&bytes));
    assert!(is_damaged(
        &verify(&*store.blobs, &blob.hash).await,
        blob.hash
    ));
    let none = store.direct.address(&blob, PAGE, LASTS).await;
    assert!(is_damaged(&none, blob.hash), "{none:?}");
    let healed = put(&*store.blobs, &bytes).await;
    let address = store.address_of_large(&healed, PAGE).await;
    let read = store.read(&address).await.expect("it is whole again");
    assert!(read.bytes == bytes);
}

async fn what_is_deleted_is_not_given_out(store: &DirectStore) {
    let blob = put(&*store.blobs, &pattern(LARGE)).await;
    let address = store.address_of_large(&blob, PAGE).await;
    let later = Timestamp::MAX - SignedDuration::from_hours(1);
    let deleted = store.blobs.delete(&blob.hash, later).await;
    assert!(deleted.expect("an answer"));
    assert_eq!(store.read(&address).await, None);
    let none = store.direct.address(&blob, PAGE, LASTS).await;
    assert!(matches!(none, Err(BlobError::Absent)), "{none:?}");
}
