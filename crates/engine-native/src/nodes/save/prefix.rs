//! What a saved file is called: the prefix that a graph gives, with its placeholders filled in.
//!
//! Follows the recorded server: the folder is everything before the last `/` of the normalised prefix, and the number of a
//! batch's picture is filled in per picture. Unlike there, what leads out of the outputs is refused before anything is made,
//! and no two files ever get one name.

use asset_store::FilePath;
use jiff::Zoned;
use workflow_core::OutputName;

use crate::{NodeContext, NodeError};

/// The beginning of the names of one node's files.
pub(crate) struct Prefix {
    /// As the graph spells it, normalised: what is counted.
    counter: String,
    /// With everything filled in but the number in the batch.
    stem: String,
}

const BATCH_NUMBER: &str = "%batch_num%";

/// Bytes of one part of a path on the file systems that people have.
const MAX_PART_BYTES: usize = 255;

/// Bytes of the part of a prefix that names its files, so that their number and ending fit behind it.
const MAX_NAME_BYTES: usize = 235;

impl Prefix {
    /// The prefix of pictures of a size, saved now.
    ///
    /// # Errors
    /// If the files would lie outside the outputs, or no file can be called so.
    pub(crate) fn of(prefix: &str, width: usize, height: usize) -> Result<Self, NodeError> {
        Self::at(prefix, width, height, &Zoned::now())
    }

    /// The prefix of files that are only looked at: the same for all pictures of a node in a job, and most likely no other's.
    pub(crate) fn temp(context: &NodeContext) -> Self {
        Self::temp_part(context, "ComfyUI")
    }

    /// As [`Prefix::temp`], for a node that shows several things.
    pub(crate) fn temp_part(context: &NodeContext, part: &str) -> Self {
        let seed = format!("{} {}", context.job(), context.node());
        let letters = blake3::hash(seed.as_bytes());
        let letters = letters
            .as_bytes()
            .iter()
            .take(5)
            .map(|byte| char::from(b'a' + byte % 26));
        let stem = format!("{part}_temp_{}", letters.collect::<String>());
        Self {
            counter: stem.clone(),
            stem,
        }
    }

    /// The name of the picture at `index` of the batch.
    pub(crate) fn name(&self, index: usize, extension: &str) -> OutputName {
        OutputName::Counted {
            counter: self.counter.clone(),
            stem: self.numbered_stem(index),
            extension: extension.to_owned(),
        }
    }

    /// The stem of the picture at `index`: its number is filled into the name, and a folder keeps the word.
    fn numbered_stem(&self, index: usize) -> String {
        let name = self.stem.rfind('/').map_or(0, |slash| slash + 1);
        let (folder, name) = self.stem.split_at(name);
        format!("{folder}{}", name.replace(BATCH_NUMBER, &index.to_string()))
    }

    /// The name of a file that holds the whole batch: it has no number to fill in.
    pub(crate) fn whole_batch(&self, extension: &str) -> OutputName {
        OutputName::Counted {
            counter: self.counter.clone(),
            stem: self.stem.clone(),
            extension: extension.to_owned(),
        }
    }

    /// The name with this behind the prefix, whether or not an older file has it.
    ///
    /// # Errors
    /// If no file can be called so.
    pub(crate) fn numbered(&self, number: &str, extension: &str) -> Result<OutputName, NodeError> {
        let path = format!("{}{number}.{extension}", self.stem);
        let path = path.parse().map_err(|_| {
            NodeError::value("the name of a file would be too long; choose a shorter prefix")
        })?;
        Ok(OutputName::Fixed(path))
    }

    fn at(prefix: &str, width: usize, height: usize, now: &Zoned) -> Result<Self, NodeError> {
        let two = |number: i8| format!("{number:02}");
        let filled = prefix
            .replace("%width%", &width.to_string())
            .replace("%height%", &height.to_string())
            .replace("%year%", &now.year().to_string())
            .replace("%month%", &two(now.month()))
            .replace("%day%", &two(now.day()))
            .replace("%hour%", &two(now.hour()))
            .replace("%minute%", &two(now.minute()))
            .replace("%second%", &two(now.second()));
        let stem = normalized(&filled);
        let first_file = format!("{stem}_00001_.png");
        let is_outside = stem.starts_with('/') || stem.starts_with("../");
        if is_outside || first_file.parse::<FilePath>().is_err() {
            return Err(NodeError::value(format!(
                "the prefix {prefix:?} is no name inside the output folder; use a relative one without \"..\" and with at most \
                 1000 letters"
            )));
        }
        let (folders, name) = stem.rsplit_once('/').unwrap_or(("", &stem));
        let is_long = folders
            .split('/')
            .any(|folder| folder.len() > MAX_PART_BYTES);
        if is_long || name.len() > MAX_NAME_BYTES {
            return Err(NodeError::new(
                "OSError",
                format!(
                    "no file can be called so: the last part of a prefix has at most {MAX_NAME_BYTES} bytes, and a folder at \
                     most {MAX_PART_BYTES}; choose a shorter prefix"
                ),
            ));
        }
        Ok(Self {
            counter: normalized(prefix),
            stem,
        })
    }
}

/// Python's `os.path.normpath`: no empty parts, no `.`, and `..` only where nothing is left to go up from.
fn normalized(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let is_absolute = path.starts_with('/');
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str) -> Result<Vec<String>, NodeError> {
        let now = jiff::civil::datetime(2026, 3, 9, 5, 7, 8, 0)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .expect("a time");
        let prefix = Prefix::at(prefix, 64, 48, &now)?;
        let path = |index| {
            prefix
                .name(index, "png")
                .path(1)
                .expect("a path")
                .to_string()
        };
        Ok((0..2).map(path).collect())
    }

    fn check(prefix: &str, first: &str) {
        let names = names(prefix).expect("a name inside the outputs");
        assert_eq!(names[0], first, "{prefix:?}");
    }

    #[test]
    fn placeholders_of_the_server_are_filled_in_and_those_of_the_page_are_not() {
        check("img", "img_00001_.png");
        check("%width%x%height%", "64x48_00001_.png");
        check(
            "%year%-%month%-%day%_%hour%%minute%%second%",
            "2026-03-09_050708_00001_.png",
        );
        check(
            "%date:yyyy%_%Node.seed%",
            "%date:yyyy%_%Node.seed%_00001_.png",
        );
        let batch = names("a_%batch_num%").expect("names");
        assert_eq!(batch, ["a_0_00001_.png", "a_1_00001_.png"]);
    }

    #[test]
    fn the_number_in_a_batch_is_filled_into_the_name_alone() {
        let batch = names("%batch_num%/%width%/a%batch_num%").expect("names");
        assert_eq!(
            batch,
            [
                "%batch_num%/64/a0_00001_.png",
                "%batch_num%/64/a1_00001_.png"
            ]
        );
    }

    #[test]
    fn a_part_that_no_file_system_takes_is_refused() {
        check(&"z".repeat(235), &format!("{}_00001_.png", "z".repeat(235)));
        check(
            &format!("{}/a", "z".repeat(255)),
            &format!("{}/a_00001_.png", "z".repeat(255)),
        );
        for prefix in [
            format!("q/{}", "ä".repeat(118)),
            format!("{}/a", "z".repeat(256)),
        ] {
            let error = names(&prefix).expect_err("a long part");
            assert!(error.to_string().contains("235 bytes"), "{error}");
        }
    }

    #[test]
    fn folders_are_normalised_as_python_does() {
        check("", "._00001_.png");
        check("x/", "x_00001_.png");
        check("golden//./img", "golden/img_00001_.png");
        check("a/../b", "b_00001_.png");
        check("ordner/bild ä", "ordner/bild ä_00001_.png");
    }

    #[test]
    fn what_leads_out_of_the_outputs_is_refused() {
        for prefix in [
            "../x",
            "a/../../x",
            "/etc/x",
            "/",
            "..\\x",
            "a\nb",
            "C:\\x",
            &"x".repeat(2000),
        ] {
            let error = names(prefix).expect_err("a prefix outside");
            assert!(
                error.to_string().contains("output folder"),
                "{prefix:?}: {error}"
            );
        }
    }

    #[test]
    fn spellings_of_one_prefix_are_counted_together() {
        let counter = |prefix: &str| {
            Prefix::at(prefix, 1, 1, &Zoned::now())
                .expect("a prefix")
                .counter
        };
        assert_eq!(counter("./a//b"), counter("a/b"));
        assert_ne!(counter("%width%"), counter("1"));
    }
}
