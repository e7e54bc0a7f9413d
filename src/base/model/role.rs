//! The roles of users, as used in the configuration, in grants and in replies.

use serde::{Deserialize, Serialize};

/// The rights of a user within a grant. Ordered: each role includes the rights of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May ask and read.
    Viewer,
    /// May prepare changes.
    Editor,
    /// May prepare changes everywhere, and invite and revoke users.
    Admin,
}

impl Role {
    /// Returns the name for tables and replies.
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
