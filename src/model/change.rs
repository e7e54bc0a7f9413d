//! A prepared change: what differs from the base, and what our checks say about it.

use super::{ChangeNumber, RepoPath};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A prepared change, as stored and shown. `CHG-42, rev 2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The number people see.
    pub number: ChangeNumber,
    /// Starts at 1; a follow-up makes the next.
    pub revision: u32,
    /// The configured repository name.
    pub repository: String,
    /// The base commit as 40 hex digits.
    pub base: String,
    /// The patch in git format: what `git apply` takes, always against the base.
    #[serde(with = "super::base64_bytes")]
    pub patch: Bytes,
    /// Counted by us from the files.
    pub stats: Vec<Stats>,
    /// The checks that we ran, in order.
    pub checks: Vec<Check>,
    /// The effects of the change on environments, in words of ours; empty where there are none.
    pub effects: String,
    /// The grants it takes.
    pub needs: Vec<RequiredGrant>,
}

/// The grant that something in a change takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequiredGrant {
    /// The directory of the environment; `None` for what all of them share.
    pub environment: Option<String>,
    /// The reason why the grant is needed, in words: "`lib/web.libsonnet` is edited".
    pub because: String,
}

impl Change {
    /// The name of a revision: `CHG-42` for the first, `CHG-42 rev 2` after that.
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

/// Lines added and removed in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// The file.
    pub path: RepoPath,
    /// Lines added; 0 for binary files.
    pub added: u64,
    /// Lines removed; 0 for binary files.
    pub removed: u64,
    /// True when the content is not text.
    pub binary: bool,
}

/// The result of one check that Drydock ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The statement that was checked: `patch applies to the base`.
    pub name: String,
    /// The result of the check.
    pub state: CheckState,
    /// One line of detail; empty when there is nothing to add.
    pub detail: String,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The statement holds.
    Pass,
    /// The statement does not hold.
    Fail,
    /// The check was not run; the detail says why.
    NotRun,
}

/// One file that differs between base and workspace. At least one side is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: RepoPath,
    /// The file on the base; `None` when the change creates it.
    pub before: Option<FileVersion>,
    /// The file in the workspace; `None` when the change deletes it.
    pub after: Option<FileVersion>,
}

/// The content of a file and how git would store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// The bytes of the file; for a symlink, its target.
    pub content: Bytes,
    /// The mode of the file.
    pub mode: FileMode,
}

/// The modes git knows for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Returns the mode as git writes it in patches.
    pub fn as_octal(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
        }
    }
}
