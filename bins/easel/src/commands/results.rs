//! `results`: the files of a call's result that the server keeps.

use std::path::{Path, PathBuf};

use client::Client;
use serde_json::{Value, json};

use crate::arguments::Shared;
use crate::failure::Failure;
use crate::{outputs, terminal, text};

/// The largest kept file that is saved.
const LARGEST_FILE: usize = 1 << 30;

/// `easel results`.
pub(crate) async fn results(
    shared: &Shared,
    client: &Client,
    request: &str,
    save: Option<&Path>,
) -> Result<(), Failure> {
    if let Some(folder) = save {
        outputs::probe("--save", folder)?;
    }
    let call = client.generation(request).await?;
    let results = call["results"].as_array().cloned().unwrap_or_default();
    let (saved, whole) = match save {
        Some(folder) => saved(client, &results, folder).await,
        None => (Vec::new(), Ok(())),
    };
    if shared.json {
        let files = saved.iter().map(|path| path.display().to_string());
        let files: Vec<String> = files.collect();
        terminal::print(&text::json(&json!({"results": results, "files": files})))?;
        return whole;
    }
    if results.is_empty() && !shared.quiet {
        terminal::say(
            "no file of this call is kept: its answer named none, or the server keeps none for this account",
        );
    }
    if save.is_some() {
        let lines = saved.iter().map(|path| format!("{}\n", path.display()));
        terminal::print(&lines.collect::<String>())?;
        return whole;
    }
    let rows = results.iter().map(|result| {
        let told = match result["reason"].as_str() {
            Some(reason) => reason.to_owned(),
            None => text::plain(&result["url"]),
        };
        let size = result["size_bytes"].as_u64();
        vec![
            text::plain(&result["pointer"]),
            text::plain(&result["state"]),
            size.map(text::size).unwrap_or_default(),
            told,
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    terminal::print(&text::table(&["RESULT", "STATE", "SIZE", ""], &rows))
}

/// Saves what is kept, in the order of the results: where it went, and what could not be saved.
async fn saved(
    client: &Client,
    results: &[Value],
    folder: &Path,
) -> (Vec<PathBuf>, Result<(), Failure>) {
    let urls = results.iter().filter_map(|result| result["url"].as_str());
    let urls: Vec<&str> = urls.collect();
    // The server keeps them, so they are all on one host.
    outputs::of_one_host(urls.into_iter(), async |url| {
        let name = url.rsplit('/').next().unwrap_or_default();
        let path = folder.join(outputs::file_name(name, "result.bin"));
        outputs::linked(client, url, LARGEST_FILE, &path).await
    })
    .await
}
