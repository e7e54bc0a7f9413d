//! The party an evaluation is counted for, and the time in the sandbox spent on its behalf.

use super::contract::EvalError;
use crate::model::UserId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

tokio::task_local! {
    static CURRENT: Arc<Budget>;
}

/// The party that takes turns with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant {
    /// A person, or a hook.
    Person(UserId),
    /// The owner of the process: a command in a terminal.
    Owner,
    /// Work ahead of need, for which nobody waits.
    Background,
}

/// The time in the sandbox of one turn, or of one question, of a person. What a task evaluates within
/// [`Budget::charge`] is on it, whatever evaluates it: tools, checks and comparisons need not know whom they work
/// for, and none can forget to say.
#[derive(Debug)]
pub struct Budget {
    tenant: Tenant,
    spent_milliseconds: AtomicU64,
}

impl Budget {
    /// A budget of a person, with nothing spent.
    pub fn for_person(person: UserId) -> Arc<Self> {
        Arc::new(Self::new(Tenant::Person(person)))
    }

    fn new(key: Tenant) -> Self {
        Self {
            tenant: key,
            spent_milliseconds: AtomicU64::new(0),
        }
    }

    /// Runs `work`, and has this budget pay for what is evaluated in it.
    pub async fn charge<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Counts `work` as [`Self::charge`] does, for work on a thread of its own.
    pub fn charge_blocking<T>(self: Arc<Self>, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }

    /// The budget of the running task, or of the work of a thread. Without one it is that of a terminal.
    pub fn current() -> Arc<Self> {
        let none = || Arc::new(Self::new(Tenant::Owner));
        CURRENT.try_with(Arc::clone).unwrap_or_else(|_| none())
    }

    /// The budget of what nobody waits for.
    pub(super) fn background() -> Arc<Self> {
        Arc::new(Self::new(Tenant::Background))
    }

    /// Returns the one who takes turns.
    pub fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Refuses to go on when everything is spent. A terminal's owner waits as long as they like.
    pub(super) fn check(&self, time_max: Duration) -> Result<(), EvalError> {
        let spent = Duration::from_millis(self.spent_milliseconds.load(Ordering::Relaxed));
        match self.tenant {
            Tenant::Person(_) if spent >= time_max => Err(EvalError::BudgetExhausted {
                seconds: time_max.as_secs(),
            }),
            Tenant::Person(_) | Tenant::Owner | Tenant::Background => Ok(()),
        }
    }

    /// Begins to spend: what passes until the answer is dropped is paid for, also when nobody waits for it any more.
    pub(super) fn start_timer(&self) -> BudgetTimer<'_> {
        BudgetTimer {
            budget: self,
            begun: Instant::now(),
        }
    }
}

/// Time that is being spent.
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
