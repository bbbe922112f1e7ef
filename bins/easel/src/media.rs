//! Media types by the ends of file names.

use std::path::Path;

const TYPES: &[(&str, &str)] = &[
    ("bmp", "image/bmp"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
];

/// The type of a file that is no text, if its name tells.
pub(crate) fn of(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let known = TYPES.iter().find(|(end, _)| *end == extension);
    known.map(|(_, media_type)| *media_type)
}

/// The end of the names of files of a type.
pub(crate) fn extension(media_type: &str) -> Option<&'static str> {
    let plain = media_type.split(';').next().unwrap_or_default().trim();
    // The shorter of two spellings.
    let known = TYPES.iter().filter(|(_, known)| *known == plain);
    known.map(|(end, _)| *end).min_by_key(|end| end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_ends_belong_together() {
        assert_eq!(of(Path::new("a/B.JPG")), Some("image/jpeg"));
        assert_eq!(of(Path::new("a.txt")), None);
        assert_eq!(extension("image/jpeg; q=1"), Some("jpg"));
        assert_eq!(extension("text/plain"), None);
    }
}
