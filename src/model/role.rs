//! The rights of people, as one word: in the configuration, in grants and in replies.

use serde::{Deserialize, Serialize};

/// The rights of a person within a grant. Ordered: each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Ask and read.
    Viewer,
    /// Prepare changes.
    Editor,
    /// Prepare changes everywhere, invite and revoke people.
    Admin,
}

impl Role {
    /// The word used in tables and replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
