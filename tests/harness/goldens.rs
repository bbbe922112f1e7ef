//! Where the recorded cases are, when they are beside the repository.

use std::path::{Path, PathBuf};

/// The repository's root.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package lies one below the root")
}

/// The folder of recorded cases, or `None` after saying on standard error that `test` was skipped without them.
#[must_use]
pub fn goldens(test: &str) -> Option<PathBuf> {
    let folder = root().parent()?.join("shared/goldens");
    if folder.join("index.json").is_file() {
        return Some(folder);
    }
    crate::skipped(test, "the recorded cases are not beside this clone");
    None
}
