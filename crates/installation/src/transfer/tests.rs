//! Moves between places in memory: what is refused, what goes on, what is found to be wrong.

use asset_store::SpaceClass;
use bytes::Bytes;

use super::*;

const OPTIONS: TransferOptions = TransferOptions {
    leave_damaged: false,
};

/// A place with assets over these blobs.
async fn origin(contents: &[&'static [u8]]) -> MemoryPlace {
    let place = MemoryPlace::default();
    for (number, content) in (1u128..).zip(contents) {
        let mut writer = place.blobs().begin(SpaceClass::Spare).await.expect("room");
        let content = Bytes::from_static(content);
        writer.write(content).await.expect("it is taken");
        let blob = writer.finish().await.expect("it ends");
        writer.commit().await.expect("it is kept");
        let part = part("assets");
        let mut row = vec![Value::Null; part.columns.len()];
        row[0] = Value::Bytes(Uuid::from_u128(number).as_bytes().to_vec());
        row[part.place("hash")] = Value::Bytes(blob.hash.as_bytes().to_vec());
        row[part.place("size_bytes")] = Value::Int(blob.size_bytes.cast_signed());
        place.put(part, vec![row]);
    }
    place
}

fn empty(id: u128) -> MemoryPlace {
    let place = MemoryPlace::default();
    place.put_note(Some(arriving(Uuid::from_u128(id), "here")));
    place
}

async fn run(
    from: &MemoryPlace,
    to: &MemoryPlace,
    options: TransferOptions,
) -> Result<Transferred, String> {
    let moved = transfer((from, "here"), (to, "there"), options, &|_| ()).await;
    moved.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_move_goes_on_wherever_it_was_cut_off() {
    let from = origin(&[b"one", b"two", b"three", b"one", b""]).await;
    let to = empty(1);
    let mut attempts = 0;
    let moved = loop {
        to.fail_after(Some(1));
        match run(&from, &to, OPTIONS).await {
            Ok(moved) => break moved,
            Err(refused) => assert!(refused.contains("run the same command again"), "{refused}"),
        }
        attempts += 1;
    };
    assert!(attempts > PARTS.len(), "each attempt writes one page");
    let expected = Transferred {
        rows: 5,
        blobs: 4,
        left_behind: 0,
    };
    assert_eq!(moved, expected);
    for part in PARTS {
        assert_eq!(from.rows(part), to.rows(part), "{}", part.name);
    }
    // Once more, it says the same and changes nothing.
    assert_eq!(run(&from, &to, OPTIONS).await, Ok(expected));
}

#[tokio::test]
async fn places_that_do_not_belong_together_are_refused() {
    let from = origin(&[b"one"]).await;
    let (first, second) = (empty(1), empty(2));
    first.fail_after(Some(3));
    run(&from, &first, OPTIONS)
        .await
        .expect_err("it is cut off");
    let refused = run(&from, &second, OPTIONS).await.expect_err("it leaves");
    assert!(refused.contains("is being moved to there"), "{refused}");
    // An operator lets the source be used again: what was copied may be old.
    from.put_note(None);
    let refused = run(&from, &first, OPTIONS).await.expect_err("it was used");
    assert!(refused.contains("was used after its move"), "{refused}");
    run(&from, &second, OPTIONS).await.expect("it is empty");
    let refused = run(&origin(&[]).await, &second, OPTIONS).await;
    let refused = refused.expect_err("it is taken");
    assert!(
        refused.contains("holds an installation already"),
        "{refused}"
    );
    let refused = run(&from, &empty(3), OPTIONS).await.expect_err("it left");
    assert!(refused.contains("here was moved to there"), "{refused}");
    let refused = run(&first, &empty(4), OPTIONS).await;
    let refused = refused.expect_err("it never came");
    assert!(refused.contains("is not finished"), "{refused}");
}

#[tokio::test]
async fn rows_that_are_others_than_were_read_are_found() {
    let from = origin(&[b"one", b"two"]).await;
    let to = empty(1);
    to.fail_after(Some(PARTS.len()));
    run(&from, &to, OPTIONS).await.expect_err("it is cut off");
    let assets = part("assets");
    let mut stranger = from.rows(assets).remove(0);
    stranger[0] = Value::Bytes(vec![0; 16]);
    to.put(assets, vec![stranger]);
    to.fail_after(None);
    let refused = run(&from, &to, OPTIONS).await.expect_err("it has one more");
    assert!(refused.contains("the assets in the target"), "{refused}");
}

#[tokio::test]
async fn damaged_bytes_stop_a_move_unless_they_are_left_behind() {
    let from = origin(&[b"one", b"two", b"three"]).await;
    let to = empty(1);
    let hash = BlobHash::of(b"two");
    let damage = |bytes: &'static [u8]| {
        let bytes = Bytes::from_static(bytes);
        from.memory_blobs().damage(&hash, bytes);
    };
    damage(b"TWO");
    for _ in 0..2 {
        let refused = run(&from, &to, OPTIONS).await.expect_err("it is damaged");
        assert!(refused.contains("of 1 files"), "{refused}");
        assert!(refused.ends_with(&hash.to_string()), "{refused}");
    }
    let options = TransferOptions {
        leave_damaged: true,
    };
    let moved = run(&from, &to, options).await.expect("the others move");
    assert_eq!((moved.blobs, moved.left_behind), (3, 1));
    let there = to.blobs().touch(&hash).await.expect("an answer");
    assert_eq!(there, None, "no bytes are better than wrong ones");
}
