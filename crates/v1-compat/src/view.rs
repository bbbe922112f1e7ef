//! The query of `GET /view`: which file, and in what form.

use asset_store::{BlobHash, FilePath};
use workflow_core::{PictureChannel, PreviewFormat, PreviewOptions};

use crate::FileKind;

/// The names of a hash in place of a file name.
const BLAKE3: &str = "blake3:";

/// Pixels that a thumbnail may have on its longer side.
const RES: std::ops::RangeInclusive<u32> = 64..=1024;

/// The quality of a preview that asks for none.
const QUALITY: u8 = 90;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewRequest {
    /// Which file.
    pub target: ViewTarget,
    /// In what form.
    pub shown: Shown,
}

/// A file by what a client knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewTarget {
    /// By folder and name.
    Named {
        /// The folder.
        kind: FileKind,
        /// Subfolder and name.
        path: FilePath,
    },
    /// By its bytes.
    Hashed(BlobHash),
}

/// The form in which a file is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// As it is: a redirect to a signed link.
    AsItIs,
    /// Only some of its channels.
    Channel(PictureChannel),
    /// Encoded anew, to be small.
    Preview(PreviewOptions),
    /// Within so many pixels.
    Thumbnail(u32),
}

/// The query asks for nothing that can be shown; says what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidView(pub &'static str);

impl ViewRequest {
    /// Reads the parameters of a query, decoded; of two with one name the first counts, and unknown ones are passed over.
    ///
    /// # Errors
    /// With what is wrong, for people.
    pub fn read(query: &[(String, String)]) -> Result<Self, InvalidView> {
        let get = |wanted: &str| {
            let found = query.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        let filename = get("filename").filter(|name| !name.is_empty());
        let filename =
            filename.ok_or(InvalidView("`filename` is missing; name the file to show"))?;
        Ok(Self {
            target: target(filename, get("subfolder").unwrap_or(""), get("type"))?,
            shown: shown(get("channel"), get("preview"), get("res"))?,
        })
    }
}

fn target(filename: &str, subfolder: &str, kind: Option<&str>) -> Result<ViewTarget, InvalidView> {
    if let Some(hash) = filename.strip_prefix(BLAKE3) {
        let hash = BlobHash::from_hex(hash);
        let wrong = |_| InvalidView("`filename` names no hash; write blake3: and 64 digits");
        return hash.map(ViewTarget::Hashed).map_err(wrong);
    }
    let (name, annotated) = FileKind::annotated(filename);
    let kind = match (annotated, kind.filter(|kind| !kind.is_empty())) {
        (Some(kind), _) => kind,
        (None, None) => FileKind::Output,
        (None, Some(kind)) => FileKind::from_name(kind)
            .map_err(|_| InvalidView("`type` must be input, output or temp"))?,
    };
    let folder = subfolder.trim_end_matches('/');
    let path = match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    let outside =
        |_| InvalidView("`filename` and `subfolder` must lead to a file inside the folder");
    let path = path.parse().map_err(outside)?;
    Ok(ViewTarget::Named { kind, path })
}

fn shown(
    channel: Option<&str>,
    preview: Option<&str>,
    res: Option<&str>,
) -> Result<Shown, InvalidView> {
    // An empty parameter is one that a client left out.
    let given = |value: Option<&str>| value.filter(|value| !value.is_empty()).map(str::to_owned);
    let channel = given(channel);
    if let Some(res) = given(res) {
        let side = res.parse().ok().filter(|side| RES.contains(side));
        let side = side.ok_or(InvalidView("`res` must be a whole number from 64 to 1024"))?;
        return Ok(Shown::Thumbnail(side));
    }
    if let Some(preview) = given(preview) {
        let channel = channel.unwrap_or_default();
        return Ok(Shown::Preview(preview_options(&preview, &channel)));
    }
    match channel.as_deref() {
        None | Some("rgba") => Ok(Shown::AsItIs),
        Some("rgb") => Ok(Shown::Channel(PictureChannel::Rgb)),
        Some("a" | "alpha") => Ok(Shown::Channel(PictureChannel::Alpha)),
        Some(_) => Err(InvalidView("`channel` must be rgba, rgb or a")),
    }
}

/// `webp;90`, `jpeg;80`: a format and a quality, each of which may be missing.
fn preview_options(preview: &str, channel: &str) -> PreviewOptions {
    let mut parts = preview.split(';');
    let format = match parts.next() {
        Some("jpeg") if !channel.contains('a') => PreviewFormat::Jpeg,
        Some(_) | None => PreviewFormat::Webp,
    };
    let quality = parts
        .next()
        .and_then(|quality| quality.trim().parse::<u16>().ok());
    let quality = quality.map_or(QUALITY, |quality| quality.clamp(1, 100) as u8);
    PreviewOptions {
        format,
        quality,
        opaque: channel == "rgb",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &[(&str, &str)]) -> Result<ViewRequest, InvalidView> {
        let query: Vec<(String, String)> = query
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        ViewRequest::read(&query)
    }

    fn named(kind: FileKind, path: &str) -> ViewTarget {
        let path = path.parse().expect("a path");
        ViewTarget::Named { kind, path }
    }

    #[test]
    fn a_file_is_named_in_the_ways_of_its_clients() {
        let target = |query: &[(&str, &str)]| read(query).expect("a view").target;
        assert_eq!(
            target(&[("filename", "a.png")]),
            named(FileKind::Output, "a.png")
        );
        let full = [
            ("filename", "a b.png"),
            ("subfolder", "x/y/"),
            ("type", "temp"),
            ("rand", "1"),
        ];
        assert_eq!(target(&full), named(FileKind::Temp, "x/y/a b.png"));
        let annotated = [("filename", "a.png [input]"), ("type", "output")];
        assert_eq!(target(&annotated), named(FileKind::Input, "a.png"));
        let hash = BlobHash::of(b"x");
        let name = format!("blake3:{}", hash.to_hex());
        assert_eq!(target(&[("filename", &name)]), ViewTarget::Hashed(hash));
    }

    #[test]
    fn nothing_leads_outside() {
        for (filename, subfolder) in [
            ("", ""),
            ("../a.png", ""),
            ("/etc/passwd", ""),
            ("a\\..\\b", ""),
            ("a.png", ".."),
            ("a.png", "/x"),
            ("a.png", "x/../.."),
            ("C:a", ""),
            ("a\0", ""),
            ("blake3:xyz", ""),
        ] {
            let query = [("filename", filename), ("subfolder", subfolder)];
            assert!(read(&query).is_err(), "{filename:?} {subfolder:?}");
        }
        assert!(read(&[]).is_err());
        assert!(read(&[("filename", "a"), ("type", "models")]).is_err());
    }

    #[test]
    fn a_form_is_what_was_asked_for() {
        let shown =
            |more: (&str, &str)| read(&[("filename", "a.png"), more]).map(|view| view.shown);
        assert_eq!(
            shown(("channel", "a")),
            Ok(Shown::Channel(PictureChannel::Alpha))
        );
        assert_eq!(
            shown(("channel", "rgb")),
            Ok(Shown::Channel(PictureChannel::Rgb))
        );
        assert_eq!(shown(("channel", "")), Ok(Shown::AsItIs));
        assert!(shown(("channel", "blue")).is_err());
        assert_eq!(shown(("res", "64")), Ok(Shown::Thumbnail(64)));
        for bad in ["63", "1025", "x", "-1", "1e2"] {
            assert!(shown(("res", bad)).is_err(), "{bad}");
        }
        let preview = |text| match shown(("preview", text)) {
            Ok(Shown::Preview(options)) => (options.format, options.quality),
            other => panic!("{other:?}"),
        };
        assert_eq!(preview("webp;90"), (PreviewFormat::Webp, 90));
        assert_eq!(preview("jpeg"), (PreviewFormat::Jpeg, 90));
        assert_eq!(preview("jpeg;0"), (PreviewFormat::Jpeg, 1));
        assert_eq!(preview("png;80"), (PreviewFormat::Webp, 80));
    }
}
