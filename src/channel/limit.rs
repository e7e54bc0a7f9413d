//! Rate limits of the platforms, and the scope each is counted in. The figures are the published ones; the delivery
//! is what waits for them.

use std::time::Duration;

/// The scope in which a limit is counted.
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
    /// The scope it is counted in.
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

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPurpose {
    /// Delivers an operation: [`super::Channel::deliver`].
    Deliver,
    /// Looks for one that may have been delivered: [`super::Channel::find`].
    Find,
}
