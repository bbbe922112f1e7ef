//! Compresses the files below `static` and lists them for `src/files.rs`, each plain and as gzip.
//!
//! Comments and indentation are for people who read the sources: they take a twentieth of what goes over the wire, and stay here.
//! The vendored modules lie there as npm has them. What they import by name is turned into the address of the file beside
//! them here, so that a browser finds it without a bundler and without a script in the page.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// What vendored modules import, and the file that it is.
const IMPORTS: &[(&str, &str)] = &[
    ("from\"preact\"", "from\"./preact.js\""),
    ("from\"preact/hooks\"", "from\"./hooks.js\""),
    ("from\"@preact/signals-core\"", "from\"./signals-core.js\""),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=static");
    let root = Path::new("static");
    let out = std::env::var("OUT_DIR")?;
    let mut names = Vec::new();
    for folder in ["", "reference", "vendor"] {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            let is_served = path.extension().is_some_and(|ending| {
                ["css", "html", "js", "svg"]
                    .iter()
                    .any(|served| ending == *served)
            });
            if is_served {
                names.push(path.strip_prefix(root)?.to_path_buf());
            }
        }
    }
    names.sort();
    let mut list = String::from("&[\n");
    let mut whole = DefaultHasher::new();
    for name in &names {
        let mut text = fs::read_to_string(root.join(name))?;
        if name.starts_with("vendor") {
            for (package, file) in IMPORTS {
                text = text.replace(package, file);
            }
            // The maps are not served.
            text = text
                .lines()
                .filter(|line| !line.starts_with("//# sourceMappingURL"))
                .collect();
        } else if name.extension().is_some_and(|ending| ending == "js") {
            text = without_comments(&text);
        }
        let name = name.to_str().ok_or("file names are UTF-8")?;
        let flat = format!("{out}/{}", name.replace('/', "-"));
        fs::write(&flat, &text)?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(text.as_bytes())?;
        fs::write(format!("{flat}.gz"), gzip.finish()?)?;
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        (name, &text).hash(&mut whole);
        writeln!(
            list,
            "File {{ name: {name:?}, tag: \"{:016x}\", plain: include_bytes!({flat:?}), gzip: include_bytes!(\"{flat}.gz\") }},",
            hash.finish(),
        )?;
    }
    list.push_str("]\n");
    fs::write(format!("{out}/files.rs"), list)?;
    fs::write(format!("{out}/version"), format!("{:016x}", whole.finish()))?;
    Ok(())
}

/// A script without the lines that are comments, and without what lines begin with. No text in a script is of several lines but for
/// templates of HTML, in which such spaces mean nothing.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let kept = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    kept.collect::<Vec<_>>().join("\n")
}
