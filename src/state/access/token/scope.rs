//! The permissions of tokens and of the logins of machines.

use super::TokenError;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A permission of a token. A request needs one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TokenScope {
    /// Fetches the changes of the person.
    #[serde(rename = "changes:read")]
    ChangesRead,
    /// Shows and watches the runs of pipelines that the person may see.
    #[serde(rename = "runs:read")]
    RunsRead,
    /// Starts, cancels and repeats runs of pipelines.
    #[serde(rename = "runs:write")]
    RunsWrite,
}

impl TokenScope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::ChangesRead, Self::RunsRead, Self::RunsWrite];
    /// The scopes of the login of a machine.
    const OF_MACHINES: [Self; 1] = [Self::ChangesRead];

    /// Returns the word of the scope.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ChangesRead => "changes:read",
            Self::RunsRead => "runs:read",
            Self::RunsWrite => "runs:write",
        }
    }
}

impl std::fmt::Display for TokenScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for TokenScope {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let known = Self::ALL.into_iter().find(|scope| scope.word() == text);
        known.ok_or_else(|| TokenError::Scope(text.to_owned()))
    }
}

/// True if a token with these words of scopes has one.
pub(in crate::state::access) fn has_scope(words: &[String], scope: TokenScope) -> bool {
    words.iter().any(|word| word == scope.word())
}

/// True if the login of a machine has a scope.
pub(in crate::state::access) fn machine_has_scope(scope: TokenScope) -> bool {
    TokenScope::OF_MACHINES.contains(&scope)
}

pub(super) fn words(scopes: &[TokenScope]) -> String {
    let words: Vec<String> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
    words.join(", ")
}
