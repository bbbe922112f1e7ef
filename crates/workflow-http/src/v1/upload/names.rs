//! Names of uploads: what can be one, and the number behind one that is taken.

use asset_store::{AssetQuery, BlobHash, FilePath};

use super::no_file;
use crate::v1::errors::{ApiError, field};
use crate::v1::request::Call;

/// Numbers behind a name that are looked at for the same bytes.
const LOOKED_AT: u64 = 32;

/// The name of an upload.
pub(super) struct UploadName {
    pub(super) path: FilePath,
    /// Whether the same bytes are there under it.
    pub(super) is_there: bool,
}

/// The name for bytes that came under `name`. It is that one if it is free, has the same bytes or is to be replaced; else one
/// with a number behind it.
pub(super) async fn place(
    call: &Call<'_>,
    name: &str,
    hash: BlobHash,
    replaces: bool,
) -> Result<UploadName, ApiError> {
    let own = path(name, 0)?;
    let there = find(call, &own).await?;
    let is_there = there == Some(hash);
    if there.is_none() || is_there || replaces {
        return Ok(UploadName {
            path: own,
            is_there,
        });
    }
    // The first numbers are looked at one by one, as ComfyUI does, for one of them may have these bytes.
    for number in 1..=LOOKED_AT {
        let own = path(name, number)?;
        let there = find(call, &own).await?;
        let is_there = there == Some(hash);
        if there.is_none() || is_there {
            return Ok(UploadName {
                path: own,
                is_there,
            });
        }
    }
    // Behind them these bytes are found if they have no other name since.
    let (assets, account) = (&call.service.assets, call.account());
    let query = AssetQuery::Hash(hash);
    let same = assets.find(account, &query, call.now).await?;
    let same = same.and_then(|same| same.file_path);
    if let Some(path) = same.filter(|path| is_numbered(path.as_str(), name))
        && find(call, &path).await? == Some(hash)
    {
        return Ok(UploadName {
            path,
            is_there: true,
        });
    }
    // They are mostly given one after the other, so a free one is found in a few steps however many there are.
    let (mut taken, mut free) = (LOOKED_AT, LOOKED_AT * 2);
    while find(call, &path(name, free)?).await?.is_some() {
        (taken, free) = (free, free * 2);
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        match find(call, &path(name, middle)?).await?.is_some() {
            true => taken = middle,
            false => free = middle,
        }
    }
    Ok(UploadName {
        path: path(name, free)?,
        is_there: false,
    })
}

/// The bytes of the upload that has a name.
async fn find(call: &Call<'_>, path: &FilePath) -> Result<Option<BlobHash>, ApiError> {
    let query = AssetQuery::Upload(path.clone());
    let found = call.service.assets.find(call.account(), &query, call.now);
    Ok(found.await?.map(|found| found.hash))
}

/// The path of a name with a number.
pub(super) fn path(name: &str, number: u64) -> Result<FilePath, ApiError> {
    let must = "a file with another name: of at most 1024 bytes, without tabs, line ends and other control characters, \
                not `.` or `..`, and without `:` behind its first letter";
    numbered(name, number)
        .parse()
        .map_err(|_| field("image", must))
}

/// A name with a number before its ending; 0 is the name itself.
fn numbered(name: &str, number: u64) -> String {
    let (stem, ending) = halves(name);
    match number {
        0 => name.to_owned(),
        _ => format!("{stem} ({number}){ending}"),
    }
}

/// Whether a name is another one with a number.
fn is_numbered(path: &str, name: &str) -> bool {
    let (stem, ending) = halves(name);
    let number = path
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_suffix(ending));
    let number = number.and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(')'));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// What stands before the ending of a name, and the ending with its dot.
fn halves(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        None | Some(0) => (name, ""),
        Some(dot) => name.split_at(dot),
    }
}

/// The last part of what a client calls its file, where it can be a name.
pub(super) fn file_name(text: &str) -> Result<String, ApiError> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
    let last = decoded
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or_default()
        .trim();
    if last.is_empty() {
        return Err(no_file());
    }
    path(last, 0)?;
    Ok(last.to_owned())
}

/// The same name for a PNG.
pub(super) fn png_name(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{stem}.png")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_goes_before_the_ending() {
        for (name, expected) in [
            ("a.png", "a (2).png"),
            ("a.tar.gz", "a.tar (2).gz"),
            ("a", "a (2)"),
            (".a", ".a (2)"),
        ] {
            assert_eq!(numbered(name, 2), expected);
            assert!(is_numbered(expected, name), "{expected}");
            assert!(!is_numbered(name, name), "{name}");
        }
        for other in [
            "b (2).png",
            "a (x).png",
            "a (2).jpg",
            "a(2).png",
            "a ().png",
        ] {
            assert!(!is_numbered(other, "a.png"), "{other}");
        }
    }
}
