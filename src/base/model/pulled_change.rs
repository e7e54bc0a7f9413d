//! A change as a person's machine fetches it: the files with their differences from the base, and the patch.

use super::{ChangeNumber, Check, FileMode, RepoPath};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum size of the document of a change in bytes.
pub const PULLED_BYTES_MAX: usize = 16 << 20;

/// A change at its newest revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct PulledChange {
    /// The number of the change.
    #[schemars(with = "i64")]
    pub change: ChangeNumber,
    /// The revision.
    pub revision: u32,
    /// The configured name of the repository.
    pub repository: String,
    /// The base commit in hex digits.
    pub base: String,
    /// A fact that the person must know before they use the change, such as failing checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The checks that Drydock ran on the change.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// The changed files.
    pub files: Vec<PulledFile>,
    /// The patch for `git apply`.
    pub patch: PulledBytes,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChangedFile")]
pub struct PulledFile {
    /// The file.
    #[schemars(with = "String")]
    pub path: RepoPath,
    /// The file in the base; none if the change creates it.
    pub before: Option<PulledSide>,
    /// The file after the change; none if the change deletes it. It equals that of the base if only an earlier revision
    /// changed the file.
    pub after: Option<PulledSide>,
    /// The file in earlier revisions, which a person may have pulled; none for one that deletes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Option<PulledSide>>,
    /// The differences of the content, in the order of the file. Without a file in the base, its lines are inserted.
    #[serde(default)]
    pub edits: Vec<LineEdit>,
}

/// One side of a changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FileSide")]
pub struct PulledSide {
    /// The mode of the file.
    pub mode: FileMode,
    /// The object name of the content in git.
    pub blob: String,
}

/// A replacement of whole lines of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineEdit {
    /// The number of lines in the base before this edit.
    pub line: usize,
    /// The number of lines that are removed.
    pub removed: usize,
    /// The lines in their place, with their ends.
    pub inserted: PulledBytes,
}

/// Bytes as text if they are UTF-8, or else in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Content")]
pub enum PulledBytes {
    /// The bytes as text.
    Text(String),
    /// Any other bytes, in base64.
    Base64(
        #[serde(with = "super::base64_bytes")]
        #[schemars(with = "String")]
        Bytes,
    ),
}

impl From<Bytes> for PulledBytes {
    fn from(bytes: Bytes) -> Self {
        match String::from_utf8(bytes.to_vec()) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Base64(bytes),
        }
    }
}

impl PulledBytes {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Base64(bytes) => bytes,
        }
    }
}
