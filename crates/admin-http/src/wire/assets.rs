//! An asset as operators see it: whose it is, and what keeps it.

use serde::{Deserialize, Serialize};

/// An asset, and what keeps it from being deleted and swept.
#[derive(Debug, Serialize, Deserialize)]
pub struct AssetBody {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub account: String,
    /// The name that its account gave it.
    pub file_path: Option<String>,
    /// What kind of bytes they are.
    pub content_type: String,
    /// How many bytes they are.
    pub size_bytes: u64,
    /// The job that made it; null for an upload.
    pub job_id: Option<String>,
    /// RFC 3339, to the second.
    pub created_at: String,
    /// From when on nobody can read it, kept or not: RFC 3339, to the second; null if it does not expire.
    pub expires_at: Option<String>,
    /// What keeps it; without any it can be deleted, and goes once it is expired.
    pub holds: Vec<HoldBody>,
    /// Whether more than these keep it.
    pub has_more_holds: bool,
}

/// What keeps an asset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldBody {
    /// `input`: a job reads it and has not ended. `output`: a job made it and is retained. `operator`: an operator keeps it.
    pub kind: String,
    /// The job; null for an operator.
    pub job_id: Option<String>,
}
