//! Files on their way in.

use std::path::{Path, PathBuf};

use accounts::Principal;
use asset_store::{AssetId, Assets, AssetsError, BlobWriter, FilePath, Upload};
use bytes::BytesMut;
use hyper_kit::error_chain;
use jiff::Timestamp;
use server_kit::program::Failure;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// What older clients write behind a name to say which folder it is in.
const ANNOTATIONS: [&str; 3] = [" [input]", " [output]", " [temp]"];

/// A name without the folder that may be written behind it.
pub(super) fn without_folder(text: &str) -> &str {
    let plain = ANNOTATIONS
        .iter()
        .find_map(|annotation| text.strip_suffix(annotation));
    plain.unwrap_or(text)
}

/// The file that a graph in `folder` names: beside the graph, else here.
pub(super) fn look_for(name: &str, folder: &Path) -> Option<PathBuf> {
    let candidates = [folder.join(name), PathBuf::from(name)];
    candidates.into_iter().find(|path| path.is_file())
}

/// Makes a file an asset of the account, under `name` where it has one.
pub(super) async fn upload(
    assets: &Assets,
    principal: &Principal,
    file: &Path,
    name: Option<FilePath>,
    now: Timestamp,
) -> Result<AssetId, Failure> {
    let upload = Upload {
        id: AssetId(Uuid::now_v7()),
        account: principal.account.clone(),
        content_type: content_type(file).to_owned(),
        file_path: name,
        tags: Vec::new(),
        expires_in: None,
        key: None,
    };
    let created = async {
        let mut writer = assets.begin().await?;
        copy(file, writer.as_mut()).await?;
        assets.finish(writer, upload, None, now).await
    };
    match created.await {
        Ok(created) => Ok(created.asset.id),
        Err(error) => Err(Failure {
            exit_code: 2,
            message: format!(
                "{} cannot be uploaded: {}",
                file.display(),
                error_chain(&error)
            ),
        }),
    }
}

async fn copy(file: &Path, writer: &mut dyn BlobWriter) -> Result<(), AssetsError> {
    let failed = |error: std::io::Error| AssetsError::Store(Box::new(error));
    let mut file = File::open(file).await.map_err(failed)?;
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        if file.read_buf(&mut chunk).await.map_err(failed)? == 0 {
            return Ok(());
        }
        let written = writer.write(chunk.freeze()).await;
        written.map_err(|error| AssetsError::Store(Box::new(error)))?;
    }
}

/// The media type that the end of a name says. Nodes look at the bytes; this is only what clients are told.
fn content_type(file: &Path) -> &'static str {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "bmp" => "image/bmp",
        "tif" | "tiff" => "image/tiff",
        "ico" => "image/x-icon",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_the_graph_comes_first() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let beside = folder.path().join("Cargo.toml");
        // Tests run in the folder of the package, which has a file of this name.
        assert_eq!(
            look_for("Cargo.toml", folder.path()),
            Some("Cargo.toml".into())
        );
        std::fs::write(&beside, "").expect("a file");
        assert_eq!(look_for("Cargo.toml", folder.path()), Some(beside));
        assert_eq!(look_for("absent.png", folder.path()), None);
    }

    #[test]
    fn an_annotation_is_no_part_of_the_name() {
        assert_eq!(without_folder("a.png [output]"), "a.png");
        assert_eq!(without_folder("a [x].png"), "a [x].png");
    }
}
