//! `assets`: upload, show, get, delete.

use std::path::Path;

use client::{Asset, Client};
use serde_json::json;

use crate::arguments::{Assets, Shared};
use crate::failure::{Failure, Kind};
use crate::{inputs, media, outputs, terminal, text};

/// `easel assets`.
pub(crate) async fn assets(shared: &Shared, client: &Client, asked: Assets) -> Result<(), Failure> {
    match asked {
        Assets::Upload {
            files,
            name,
            tags,
            expires,
        } => {
            if name.is_some() && files.len() > 1 {
                return Err(Failure::usage(
                    "--name names one file; upload the others by themselves",
                ));
            }
            let mut uploaded = Vec::new();
            for path in &files {
                let mut file = inputs::file(path, name.as_deref())?;
                file.tags.clone_from(&tags);
                file.expires_in_s = expires.map(|expires| expires.0);
                let asset = client.upload(&file).await?;
                if !shared.json {
                    terminal::print(&line(&asset))?;
                }
                uploaded.push(asset);
            }
            listed(shared, &uploaded)
        }
        Assets::Show { ids } => {
            let mut found = Vec::new();
            for id in &ids {
                let asset = client.asset(id).await?;
                if !shared.json {
                    terminal::print(&line(&asset))?;
                }
                found.push(asset);
            }
            listed(shared, &found)
        }
        Assets::Get { id, out } => get(shared, client, &id, &out).await,
        Assets::Delete { ids } => {
            for id in &ids {
                client.delete_asset(id).await?;
                if !shared.json {
                    terminal::print(&format!("{}\tdeleted\n", text::clean(id, false)))?;
                }
            }
            if shared.json {
                return terminal::print(&text::json(&json!({ "deleted": ids })));
            }
            Ok(())
        }
    }
}

async fn get(shared: &Shared, client: &Client, id: &str, out: &Path) -> Result<(), Failure> {
    let asset = client.asset(id).await?;
    if out == Path::new("-") {
        if terminal::is_out() && !asset.content_type.starts_with("text/") {
            return Err(
                Failure::usage("the file is no text, and standard output is a terminal")
                    .hint("name a file or folder with --out, or pipe it"),
            );
        }
        // Through a file, so that damaged bytes go nowhere.
        let failed = |error: std::io::Error| {
            Failure::new(
                Kind::Failed,
                format!("the temporary file cannot be used: {error}"),
            )
        };
        let file = tempfile::tempfile().map_err(failed)?;
        let mut out = tokio::fs::File::from_std(file.try_clone().map_err(failed)?);
        client.download(id, asset.hash.as_deref(), &mut out).await?;
        return terminal::print_file(file);
    }
    let wanted = if out.is_dir() {
        let extension = media::extension(&asset.content_type).unwrap_or("bin");
        let otherwise = format!("{id}.{extension}");
        let name = asset.file_path.as_deref().unwrap_or_default();
        out.join(outputs::file_name(name, &otherwise))
    } else {
        out.to_owned()
    };
    let path = outputs::fetch(client, id, asset.hash.as_deref(), &wanted).await?;
    if shared.json {
        let path = path.display().to_string();
        return terminal::print(&text::json(&json!({"path": path, "asset": asset})));
    }
    terminal::print(&format!("{}\n", path.display()))
}

fn listed(shared: &Shared, assets: &[Asset]) -> Result<(), Failure> {
    if shared.json {
        return terminal::print(&text::json(&json!(assets)));
    }
    Ok(())
}

fn line(asset: &Asset) -> String {
    let name = asset.file_path.as_deref().unwrap_or("-");
    let line = format!(
        "{}\t{name}\t{}\t{}",
        asset.id,
        asset.content_type,
        text::size(asset.size_bytes)
    );
    text::clean(&line, true) + "\n"
}
