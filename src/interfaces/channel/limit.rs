//! Rate limits of the platforms, with the scope of each limit. The figures are the published ones; the delivery loop
//! enforces them.

use std::time::Duration;

/// The scope in which a limit is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// New messages in one chat, and edits if the platform counts them like messages.
    Chat(String),
    /// Calls of one method.
    Method(&'static str),
    /// All calls of the account.
    Account,
}

/// A rate limit: `burst` calls at once, and one more each time `every` has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The scope in which the limit is counted.
    pub scope: Scope,
    /// The number of calls at once after a pause.
    pub burst: u32,
    /// The time until one more call is allowed.
    pub every: Duration,
}

impl Limit {
    /// Creates a limit of this scope.
    pub(super) const fn new(scope: Scope, burst: u32, every: Duration) -> Self {
        Self { scope, burst, every }
    }
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPurpose {
    /// Delivers an operation: [`super::Channel::deliver`].
    Deliver,
    /// Looks up an operation that may have been delivered: [`super::Channel::find`].
    Find,
}
