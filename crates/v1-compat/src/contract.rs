//! The rules of [`UserFiles`], as one suite that every store runs.

mod replicas;

use std::sync::Arc;

use accounts::AccountId;
use asset_store::FilePath;
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    FileContent, FileWrite, Renamed, UserFile, UserFiles, UserFilesBounds, UserFilesError,
};

pub use replicas::replicas;

const BOUNDS: UserFilesBounds = UserFilesBounds {
    file_bytes: 10,
    total_bytes: 25,
    files: 4,
    settings_bytes: 100,
};

/// Runs every rule on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn user_files(fresh: impl Fn(UserFilesBounds) -> Arc<dyn UserFiles>) {
    settings_add_up(&*fresh(BOUNDS)).await;
    settings_are_bounded(&*fresh(BOUNDS)).await;
    a_file_reads_back_and_is_replaced_only_on_purpose(&*fresh(BOUNDS)).await;
    edits_at_once_are_all_kept(&*fresh(UserFilesBounds::DEFAULT)).await;
    an_edit_is_bounded_as_any_write(&*fresh(BOUNDS)).await;
    files_are_listed_by_path_and_folder(&*fresh(BOUNDS)).await;
    another_accounts_files_are_absent(&*fresh(BOUNDS)).await;
    files_are_bounded_and_a_refusal_changes_nothing(&*fresh(BOUNDS)).await;
    a_file_gets_another_name(&*fresh(BOUNDS)).await;
}

fn account(name: &str) -> AccountId {
    name.parse().expect("the suite uses valid names")
}

fn path(text: &str) -> FilePath {
    text.parse().expect("the suite uses valid paths")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).expect("in range")
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else {
        panic!("the suite sets objects");
    };
    object
}

async fn write(files: &dyn UserFiles, to: &str, bytes: &'static str, second: i64) -> FileWrite {
    let bytes = Bytes::from_static(bytes.as_bytes());
    let (a, to) = (account("a"), path(to));
    let written = files
        .write(&a, &to, FileContent::Set(bytes), at(second))
        .await;
    written.expect("it is kept")
}

async fn names(files: &dyn UserFiles, folder: Option<&str>) -> Vec<String> {
    let folder = folder.map(path);
    let listed = files.list(&account("a"), folder.as_ref()).await;
    let listed = listed.expect("the store answers").into_iter();
    listed.map(|file| file.path.to_string()).collect()
}

async fn read(files: &dyn UserFiles, from: &str) -> Option<Bytes> {
    let read = files.read(&account("a"), &path(from)).await;
    read.expect("the store answers")
}

async fn settings_add_up(files: &dyn UserFiles) {
    let a = account("a");
    assert!(files.settings(&a).await.expect("an answer").is_empty());
    for changes in [
        json!({"z": 1, "b": {"c": [null]}}),
        json!({"a": "ä", "z": 2}),
    ] {
        files.set(&a, object(changes)).await.expect("it is kept");
    }
    let settings = files.settings(&a).await.expect("an answer");
    let text = Value::Object(settings).to_string();
    assert_eq!(text, r#"{"z":2,"b":{"c":[null]},"a":"ä"}"#);
    let other = files.settings(&account("b")).await.expect("an answer");
    assert!(other.is_empty());
}

async fn settings_are_bounded(files: &dyn UserFiles) {
    let a = account("a");
    let small = object(json!({"a": 1}));
    files.set(&a, small.clone()).await.expect("it is kept");
    let large = object(json!({"a": 2, "b": "x".repeat(100)}));
    let refused = files.set(&a, large).await;
    assert!(matches!(
        refused,
        Err(UserFilesError::TooLarge { limit: 100 })
    ));
    assert_eq!(files.settings(&a).await.expect("an answer"), small);
}

async fn a_file_reads_back_and_is_replaced_only_on_purpose(files: &dyn UserFiles) {
    assert_eq!(read(files, "w/ä.json").await, None);
    let first = UserFile {
        path: path("w/ä.json"),
        size_bytes: 3,
        created_at: at(1),
        modified_at: at(1),
    };
    let written = write(files, "w/ä.json", "one", 1).await;
    assert_eq!(written, FileWrite::Saved(first.clone()));
    let again = FileContent::New(Bytes::from_static(b"no"));
    let (a, name) = (account("a"), path("w/ä.json"));
    let again = files.write(&a, &name, again, at(2)).await;
    assert_eq!(again.expect("an answer"), FileWrite::Exists);
    assert_eq!(read(files, "w/ä.json").await.as_deref(), Some(&b"one"[..]));
    let second = UserFile {
        size_bytes: 0,
        modified_at: at(3),
        ..first
    };
    assert_eq!(
        write(files, "w/ä.json", "", 3).await,
        FileWrite::Saved(second)
    );
    assert_eq!(read(files, "w/ä.json").await.as_deref(), Some(&b""[..]));
    assert!(files.remove(&a, &name).await.expect("an answer"));
    assert!(!files.remove(&a, &name).await.expect("an answer"));
    assert_eq!(read(files, "w/ä.json").await, None);
}

async fn edits_at_once_are_all_kept(files: &dyn UserFiles) {
    let (a, name) = (account("a"), path("w/x"));
    let edits = (0..16_u8).map(|letter| {
        let edit = move |before: Option<Bytes>| {
            let mut bytes = before.unwrap_or_default().to_vec();
            bytes.push(b'a' + letter);
            Bytes::from(bytes)
        };
        files.write(&a, &name, FileContent::Edited(Box::new(edit)), at(1))
    });
    for written in join_all(edits).await {
        assert!(matches!(written, Ok(FileWrite::Saved(_))), "{written:?}");
    }
    let mut letters = read(files, "w/x").await.expect("it is there").to_vec();
    letters.sort_unstable();
    assert_eq!(letters, b"abcdefghijklmnop");
}

async fn an_edit_is_bounded_as_any_write(files: &dyn UserFiles) {
    let (a, name) = (account("a"), path("w/x"));
    write(files, "w/x", "one", 1).await;
    let edit = |_: Option<Bytes>| Bytes::from_static(b"12345678901");
    let content = FileContent::Edited(Box::new(edit));
    let refused = files.write(&a, &name, content, at(2)).await;
    assert!(matches!(
        refused,
        Err(UserFilesError::TooLarge { limit: 10 })
    ));
    assert_eq!(read(files, "w/x").await.as_deref(), Some(&b"one"[..]));
}

async fn files_are_listed_by_path_and_folder(files: &dyn UserFiles) {
    for name in ["w/b", "w/a", "w%/x", "wa"] {
        write(files, name, "1", 1).await;
    }
    assert_eq!(names(files, None).await, ["w%/x", "w/a", "w/b", "wa"]);
    assert_eq!(names(files, Some("w")).await, ["w/a", "w/b"]);
    assert_eq!(names(files, Some("w%")).await, ["w%/x"]);
    assert!(names(files, Some("w/a")).await.is_empty());
    assert!(names(files, Some("_")).await.is_empty());
}

async fn another_accounts_files_are_absent(files: &dyn UserFiles) {
    write(files, "x", "1", 1).await;
    let (b, x) = (account("b"), path("x"));
    assert_eq!(files.read(&b, &x).await.expect("an answer"), None);
    assert!(files.list(&b, None).await.expect("an answer").is_empty());
    assert!(!files.remove(&b, &x).await.expect("an answer"));
    let renamed = files.rename(&b, &x, &path("y"), true).await;
    assert_eq!(renamed.expect("an answer"), Renamed::Absent);
    assert_eq!(read(files, "x").await.as_deref(), Some(&b"1"[..]));
}

async fn files_are_bounded_and_a_refusal_changes_nothing(files: &dyn UserFiles) {
    let a = account("a");
    let put = |name: &'static str, bytes: &'static str| {
        let content = FileContent::Set(Bytes::from_static(bytes.as_bytes()));
        let name = path(name);
        let a = a.clone();
        async move { files.write(&a, &name, content, at(1)).await }
    };
    let too_large = put("x", "12345678901").await;
    assert!(matches!(
        too_large,
        Err(UserFilesError::TooLarge { limit: 10 })
    ));
    for name in ["1", "2"] {
        put(name, "1234567890").await.expect("it is kept");
    }
    let full = put("3", "123456").await;
    assert!(matches!(full, Err(UserFilesError::Full)));
    put("3", "12345").await.expect("it is kept");
    // Replacing does not count twice.
    put("3", "54321").await.expect("it is kept");
    put("1", "1").await.expect("it is kept");
    put("4", "").await.expect("it is kept");
    let many = put("5", "").await;
    assert!(matches!(many, Err(UserFilesError::Full)));
    assert_eq!(names(files, None).await, ["1", "2", "3", "4"]);
    assert_eq!(read(files, "3").await.as_deref(), Some(&b"54321"[..]));
}

async fn a_file_gets_another_name(files: &dyn UserFiles) {
    let a = account("a");
    let rename = |from: &'static str, to: &'static str, replace| {
        let (from, to, a) = (path(from), path(to), a.clone());
        async move {
            files
                .rename(&a, &from, &to, replace)
                .await
                .expect("an answer")
        }
    };
    write(files, "x", "1", 1).await;
    write(files, "y", "2", 2).await;
    assert_eq!(rename("z", "x", true).await, Renamed::Absent);
    assert_eq!(rename("x", "y", false).await, Renamed::Exists);
    assert!(matches!(rename("x", "x", false).await, Renamed::Renamed(_)));
    let renamed = UserFile {
        path: path("y"),
        size_bytes: 1,
        created_at: at(1),
        modified_at: at(1),
    };
    assert_eq!(rename("x", "y", true).await, Renamed::Renamed(renamed));
    assert_eq!(names(files, None).await, ["y"]);
    assert_eq!(read(files, "y").await.as_deref(), Some(&b"1"[..]));
}
