//! What a job makes.

use asset_store::{AssetId, BlobHash, FilePath};

use crate::NodeId;

/// An output of a job, committed: its bytes and its record are durable, and it is never taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutput {
    /// The node that made it, as the submission names it.
    pub node_id: NodeId,
    /// Which of the node's outputs it is, from 0. Job, node and index name an output: committing it again is no news.
    pub index: u32,
    /// What kind of thing it is.
    pub kind: OutputKind,
    /// Whether it is a look at something rather than a result: v1 shows it as `temp`.
    pub temp: bool,
    /// The name it was given, folder included.
    pub path: FilePath,
    /// Its media type.
    pub content_type: String,
    /// How many bytes.
    pub size_bytes: u64,
    /// Its record.
    pub asset: AssetId,
    /// Its bytes.
    pub hash: BlobHash,
}

/// The kinds of outputs that clients tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// A picture.
    Image,
    /// Moving pictures.
    Video,
    /// Sound.
    Audio,
    /// Text.
    Text,
    /// Anything else.
    File,
    /// A latent of a diffusion model.
    Latent,
}

/// An output whose bytes are durable and whose record is still to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOutput {
    /// The node that made it.
    pub node_id: NodeId,
    /// Which of the node's outputs it is.
    pub index: u32,
    /// What kind of thing it is.
    pub kind: OutputKind,
    /// Whether it is a look at something rather than a result.
    pub temp: bool,
    /// How it is to be named.
    pub name: OutputName,
    /// Its media type.
    pub content_type: String,
    /// How many bytes.
    pub size_bytes: u64,
    /// The id its record will have, unless the output is committed already.
    pub asset: AssetId,
    /// Its bytes.
    pub hash: BlobHash,
}

/// How an output gets its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputName {
    /// `{stem}_{number:05}_.{extension}`, where the number is the next of `counter` in the account: it is given out in the
    /// transaction that commits the output, so no two outputs ever share a name.
    Counted {
        /// What is counted: the prefix as the graph spells it.
        counter: String,
        /// Folder and beginning of the name, placeholders expanded.
        stem: String,
        /// Ending, without the dot.
        extension: String,
    },
    /// This name.
    Fixed(FilePath),
}

impl OutputKind {
    /// The kind's name on the wire and in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Text => "text",
            Self::File => "file",
            Self::Latent => "latent",
        }
    }

    /// The kind of a name; what is unknown is a file.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let all = [
            Self::Image,
            Self::Video,
            Self::Audio,
            Self::Text,
            Self::Latent,
        ];
        all.into_iter()
            .find(|kind| kind.name() == name)
            .unwrap_or(Self::File)
    }
}

impl NewOutput {
    /// The committed output, once its name is settled.
    #[must_use]
    pub fn committed(self, path: FilePath) -> JobOutput {
        JobOutput {
            node_id: self.node_id,
            index: self.index,
            kind: self.kind,
            temp: self.temp,
            path,
            content_type: self.content_type,
            size_bytes: self.size_bytes,
            asset: self.asset,
            hash: self.hash,
        }
    }
}

impl OutputName {
    /// The path of an output whose counter stands at `number`.
    ///
    /// # Errors
    /// If the stem is no path inside the account's outputs.
    pub fn path(&self, number: u64) -> Result<FilePath, asset_store::InvalidFilePath> {
        match self {
            Self::Counted {
                stem, extension, ..
            } => format!("{stem}_{number:05}_.{extension}").parse(),
            Self::Fixed(path) => Ok(path.clone()),
        }
    }
}
