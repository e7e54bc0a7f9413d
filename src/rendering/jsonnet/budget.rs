//! The tenant that an evaluation counts for, and the time in the sandbox that is charged to it.

use super::contract::EvalError;
use crate::base::model::UserId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

tokio::task_local! {
    static CURRENT: Arc<Budget>;
}

/// A party that shares the slots with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant {
    /// A person, or a webhook.
    Person(UserId),
    /// The owner of the process: a command in a terminal.
    Owner,
    /// Background work, whose result no caller waits for.
    Background,
}

/// The sandbox time of one turn, or of one question, of a person. Every evaluation inside [`Budget::charge`] is charged
/// to it. Tools, checks and comparisons do not pass the budget along, so none can omit it.
#[derive(Debug)]
pub struct Budget {
    tenant: Tenant,
    spent_milliseconds: AtomicU64,
}

impl Budget {
    /// Creates the unspent budget of a person.
    pub fn for_person(person: UserId) -> Arc<Self> {
        Arc::new(Self::new(Tenant::Person(person)))
    }

    fn new(key: Tenant) -> Self {
        Self {
            tenant: key,
            spent_milliseconds: AtomicU64::new(0),
        }
    }

    /// Runs `work`, and charges its evaluations to this budget.
    pub async fn charge<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Charges like [`Self::charge`], for work on a separate thread.
    pub fn charge_blocking<T>(self: Arc<Self>, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }

    /// Returns the budget of the current task or thread. Without one it is the budget of a terminal.
    pub fn current() -> Arc<Self> {
        let none = || Arc::new(Self::new(Tenant::Owner));
        CURRENT.try_with(Arc::clone).unwrap_or_else(|_| none())
    }

    /// Creates the budget of background work.
    pub(super) fn background() -> Arc<Self> {
        Arc::new(Self::new(Tenant::Background))
    }

    /// Returns the tenant of the budget.
    pub fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Returns an error if the budget is spent. The owner of a terminal has no limit.
    pub(super) fn check(&self, time_max: Duration) -> Result<(), EvalError> {
        let spent = Duration::from_millis(self.spent_milliseconds.load(Ordering::Relaxed));
        match self.tenant {
            Tenant::Person(_) if spent >= time_max => Err(EvalError::BudgetExhausted {
                seconds: time_max.as_secs(),
            }),
            Tenant::Person(_) | Tenant::Owner | Tenant::Background => Ok(()),
        }
    }

    /// Starts a timer. The time until it is dropped is charged, even if the caller no longer waits.
    pub(super) fn start_timer(&self) -> BudgetTimer<'_> {
        BudgetTimer {
            budget: self,
            begun: Instant::now(),
        }
    }
}

/// A timer that charges its duration to a budget.
#[derive(Debug)]
pub(super) struct BudgetTimer<'a> {
    budget: &'a Budget,
    begun: Instant,
}

impl Drop for BudgetTimer<'_> {
    fn drop(&mut self) {
        let milliseconds = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let spent = &self.budget.spent_milliseconds;
        spent.fetch_add(milliseconds, Ordering::Relaxed);
    }
}
