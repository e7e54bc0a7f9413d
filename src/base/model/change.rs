//! A prepared change: its differences from the base, and the results of Drydock's checks.

use super::{ChangeNumber, ChangeOverview, RepoPath};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A prepared change, as stored and shown: `CHG-42, rev 2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The number that users see.
    pub number: ChangeNumber,
    /// The revision, starting at 1; each follow-up adds one.
    pub revision: u32,
    /// The configured repository name.
    pub repository: String,
    /// The base commit as 40 hex digits.
    pub base: String,
    /// The patch in git format, always against the base, as `git apply` accepts it.
    #[serde(with = "super::base64_bytes")]
    pub patch: Bytes,
    /// The changed lines of each file, counted by Drydock.
    pub stats: Vec<Stats>,
    /// The checks that Drydock ran, in order.
    pub checks: Vec<Check>,
    /// The effects of the change on environments, as text; empty if there are none.
    pub effects: String,
    /// The same effects, short enough for the first screen of a phone.
    #[serde(default)]
    pub overview: ChangeOverview,
    /// The grants that the change requires.
    pub needs: Vec<RequiredGrant>,
}

/// A grant that a part of a change requires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequiredGrant {
    /// The directory of the environment; `None` for files that all environments share.
    pub environment: Option<String>,
    /// The reason why the grant is required, such as "`lib/web.libsonnet` is edited".
    pub because: String,
}

impl Change {
    /// Returns the name of a revision: `CHG-42` for the first, `CHG-42 rev 2` after that.
    pub fn name(number: ChangeNumber, revision: u32) -> String {
        match revision {
            1 => format!("CHG-{number}"),
            revision => format!("CHG-{number} rev {revision}"),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Self::name(self.number, self.revision))
    }
}

/// The number of lines added and removed in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// The file.
    pub path: RepoPath,
    /// Lines added; 0 for binary files.
    pub added: u64,
    /// Lines removed; 0 for binary files.
    pub removed: u64,
    /// True if the content is not text.
    pub binary: bool,
}

/// The result of one check that Drydock ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The statement that was checked: `patch applies to the base`.
    pub name: String,
    /// The result of the check.
    pub state: CheckState,
    /// One line of detail; may be empty.
    pub detail: String,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The statement holds.
    Pass,
    /// The statement does not hold.
    Fail,
    /// The check was not run; the detail contains the reason.
    NotRun,
}

/// A file that differs between base and workspace. At least one side exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: RepoPath,
    /// The file in the base; `None` if the change creates it.
    pub before: Option<FileVersion>,
    /// The file in the workspace; `None` if the change deletes it.
    pub after: Option<FileVersion>,
}

/// The content of a file and its mode in git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// The bytes of the file; for a symlink, its target.
    pub content: Bytes,
    /// The mode of the file.
    pub mode: FileMode,
}

/// The modes of files in git.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileMode {
    /// 100644.
    Regular,
    /// 100755.
    Executable,
    /// 120000.
    Symlink,
}

impl FileMode {
    /// Returns the mode in the notation of git patches.
    pub fn as_octal(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
        }
    }
}
