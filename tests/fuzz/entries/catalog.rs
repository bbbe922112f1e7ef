//! Catalogs that are fuzzed: any files at all make models or faults that name a file and a line. The fuzzer calls this, and so do
//! the tests of providers, with bytes that they change themselves.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use providers::{Settings, Source, load};
use router_core::Timer;

struct Still;

#[async_trait]
impl Timer for Still {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    async fn sleep(&self, _: Duration) {}
}

/// The files of a partner and of its model, and the schema of the model, with a zero byte between them. `folder` is this caller's.
pub(crate) fn catalog(bytes: &[u8], folder: &Path) {
    let partner = folder.join("p");
    fs::create_dir_all(&partner).expect("a folder");
    let mut files = bytes.splitn(3, |byte| *byte == 0);
    for name in ["partner.toml", "m.toml", "m.schema.json"] {
        let bytes = files.next().unwrap_or_default();
        fs::write(partner.join(name), bytes).expect("a file");
    }
    let settings = Settings::new(Vec::new(), Vec::new(), None, Arc::new(Still));
    let settings = settings.expect("no authorities are read");
    let source = Source {
        builtin: false,
        folder: Some(folder.to_owned()),
    };
    let secret = |name: &str| (!name.ends_with("_WEIGHT")).then(|| "secret".to_owned());
    match load(&source, &settings, &secret) {
        Ok(loaded) => assert!(loaded.models.len() <= 1, "one model is in the files"),
        Err(faults) => {
            assert!(!faults.is_empty(), "a refusal has a reason");
            for fault in faults {
                let text = fault.to_string();
                assert!(text.contains("p/"), "a fault names its file: {text}");
            }
        }
    }
}
