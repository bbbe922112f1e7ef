//! The files of the console as the build made them: plain and compressed, with a tag over their bytes.

use http::HeaderValue;

/// One file.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path below the console.
    pub(crate) name: &'static str,
    /// Changes with its bytes.
    pub(crate) tag: &'static str,
    /// As it is.
    pub(crate) plain: &'static [u8],
    /// Compressed.
    pub(crate) gzip: &'static [u8],
}

/// The page itself, in which the server writes what it serves.
pub(crate) const PAGE: &str = "index.html";

/// Changes with the bytes of any file.
pub(crate) const VERSION: &str = include_str!(concat!(env!("OUT_DIR"), "/version"));

/// All files, sorted by name.
pub(crate) const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

impl File {
    /// The file of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let found = FILES.binary_search_by_key(&name, |file| file.name);
        found.ok().map(|index| &FILES[index])
    }

    /// Whether the console has it; the other page has the rest.
    pub(crate) fn is_of_console(&self) -> bool {
        !self.name.starts_with("reference/")
    }

    /// Its media type.
    pub(crate) fn media_type(&self) -> HeaderValue {
        let ending = self.name.rsplit_once('.').map_or("", |(_, ending)| ending);
        HeaderValue::from_static(match ending {
            "css" => "text/css; charset=utf-8",
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            _ => "image/svg+xml",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the console may take on the wire, all files together.
    const MOST_BYTES: usize = 60 * 1024;

    #[test]
    fn the_console_is_small() {
        let files = FILES.iter().filter(|file| file.is_of_console());
        let bytes: usize = files.map(|file| file.gzip.len()).sum();
        assert!(bytes <= MOST_BYTES, "{bytes} bytes compressed");
    }

    #[test]
    fn files_are_found_by_name() {
        assert!(FILES.is_sorted_by_key(|file| file.name));
        for file in FILES {
            let found = File::find(file.name).map(|found| found.tag);
            assert_eq!(found, Some(file.tag), "{}", file.name);
        }
        assert!(File::find(PAGE).is_some() && File::find("other.js").is_none());
    }

    #[test]
    fn no_file_names_another_server_or_imports_by_a_bare_name() {
        for file in FILES {
            let text = std::str::from_utf8(file.plain).expect("files are text");
            for quote in ['"', '\'', '`'] {
                let address = text.split(&format!("{quote}https://")).nth(1);
                assert_eq!(
                    address.map(|rest| &rest[..rest.len().min(40)]),
                    None,
                    "{}",
                    file.name
                );
            }
            for (_, rest) in text
                .match_indices("from\"")
                .map(|(at, it)| text.split_at(at + it.len()))
            {
                assert!(
                    rest.starts_with("./"),
                    "{}: {}",
                    file.name,
                    &rest[..20.min(rest.len())]
                );
            }
        }
    }
}
