//! How often a platform lets itself be called, and what each limit is counted for. The figures are the
//! published ones; who waits for them is the delivery.

use std::time::Duration;

/// What a limit is counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// New messages in one chat, and edits where they count like those.
    Chat(String),
    /// Calls of one method.
    Method(&'static str),
    /// All calls of the account.
    Account,
}

/// A limit: some calls at once, and one more each time `every` has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What it is counted for.
    pub scope: Scope,
    /// Calls at once after a rest.
    pub burst: u32,
    /// Time until one more is allowed.
    pub every: Duration,
}

impl Limit {
    /// A limit of this scope.
    pub(super) const fn new(scope: Scope, burst: u32, every: Duration) -> Self {
        Self { scope, burst, every }
    }
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Delivers an operation: [`super::Channel::deliver`].
    Deliver,
    /// Looks for one that may have been delivered: [`super::Channel::find`].
    Find,
}
