//! The operations of one chat and thread, delivered in order and tried again with patience. What may have been
//! sent and must not show twice is looked for before it is sent again.

use crate::channel::{Channel, Delivered, Found, SendError};
use crate::model::{Action, MessageRef, Op};
use crate::store::{Due, Store, StoreError};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Tries before an operation is given up and kept as a dead letter.
const ATTEMPTS_MAX: u32 = 8;
/// Longest wait between two tries that we choose ourselves.
const WAIT_MAX: Duration = Duration::from_secs(180);
/// Longest wait that a platform is granted.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Delivers what waits in one lane, one after another, for as long as it goes well.
pub(super) struct LaneDelivery {
    pub(super) store: Store,
    pub(super) name: String,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) now: fn() -> Timestamp,
    pub(super) work: Arc<Notify>,
    pub(super) delivered: watch::Sender<u64>,
    pub(super) cancel: CancellationToken,
}

impl LaneDelivery {
    pub(super) async fn run(self, first: Vec<Due>) {
        let mut due = first;
        while !due.is_empty() {
            due = match self.all(due).await {
                Ok(next) => next,
                Err(error) => {
                    error!(channel = self.name, %error, "the outcome of a delivery could not be stored");
                    Vec::new()
                }
            };
            self.delivered.send_modify(|count| *count += 1);
        }
    }

    /// Delivers operations one after another and answers what comes after them, if that is due at once.
    async fn all(&self, due: Vec<Due>) -> Result<Vec<Due>, StoreError> {
        let mut sent = Vec::with_capacity(due.len());
        let mut due = due.into_iter();
        while let Some(next) = due.next() {
            match self.deliver(&next).await {
                Ok(delivered) => sent.push((next.op, delivered.message)),
                Err(failure) => {
                    // Each is reported on, whatever became of the others: else nobody is handed it again.
                    let mut stored = self.delivered(sent).await;
                    stored = stored.and(self.failed(&next, failure).await);
                    for Due { op, .. } in due {
                        stored = stored.and(self.store.give_back(&op.id).await);
                    }
                    // Something may be due later, or elsewhere, because of this.
                    self.work.notify_one();
                    return stored.map(|()| Vec::new());
                }
            }
        }
        if self.cancel.is_cancelled() {
            self.delivered(sent).await?;
            return Ok(Vec::new());
        }
        let posted = sent.iter().any(|(op, _)| op.action.may_show_twice());
        let next = self.store.delivered_and_next(sent, (self.now)()).await?;
        if next.is_empty() && posted {
            // A fill in another lane may have waited for this post.
            self.work.notify_one();
        }
        Ok(next)
    }

    async fn delivered(&self, sent: Vec<(Op, Option<MessageRef>)>) -> Result<(), StoreError> {
        let mut stored = Ok(());
        for (op, message) in sent {
            stored = stored.and(self.store.delivered(&op.id, message, (self.now)()).await);
        }
        stored
    }

    /// Delivers one operation; what may have been delivered before is looked for first.
    async fn deliver(&self, due: &Due) -> Result<Delivered, Failure> {
        if let Some(since) = due.doubtful_since {
            let found = self.channel.find(&due.op, since).await;
            match found.map_err(Failure::not_asked)? {
                Found::Message(message) => {
                    let message = Some(message);
                    return Ok(Delivered { message });
                }
                Found::CannotTell if !due.op.action.is_placeholder() => return Err(Failure::Unknowable),
                Found::Nothing | Found::CannotTell => {}
            }
        }
        let delivered = self.channel.deliver(&due.op).await;
        delivered.map_err(|error| Failure::of(error, &due.op.action))
    }

    async fn failed(&self, due: &Due, failure: Failure) -> Result<(), StoreError> {
        let (op, store, at) = (&due.op, &self.store, (self.now)());
        match failure {
            Failure::Refused(why) => {
                error!(op.id = op.id, why, "refused by the platform");
                store.failed(&op.id, &why, at).await
            }
            Failure::NotSent { why, retry_after } => match self.next_try(due, retry_after) {
                Some(due_at) => store.retry(&op.id, due_at, &why).await,
                None => {
                    error!(op.id = op.id, why, "given up");
                    store.failed(&op.id, &why, at).await
                }
            },
            Failure::Doubtful { why, retry_after } => match self.next_try(due, retry_after) {
                Some(due_at) => store.doubt(&op.id, due_at, &why).await,
                None => self.lost(op, &why).await,
            },
            Failure::Unknowable => self.lost(op, "nobody can tell whether it was sent").await,
        }
    }

    async fn lost(&self, op: &Op, why: &str) -> Result<(), StoreError> {
        error!(op.id = op.id, why, "sent with unknown outcome, and not repeated");
        self.store.ambiguous(&op.id, why, (self.now)()).await
    }

    /// When an operation is tried again, unless that was often enough.
    fn next_try(&self, due: &Due, retry_after: Option<Duration>) -> Option<Timestamp> {
        let attempts = due.attempts + 1;
        if attempts >= ATTEMPTS_MAX {
            return None;
        }
        let patience = Duration::from_secs(1 << attempts.min(8)).min(WAIT_MAX);
        let wait = retry_after.map_or(patience, |asked| asked.min(RETRY_AFTER_MAX));
        let at = (self.now)();
        Some(at.checked_add(wait).unwrap_or(at))
    }
}

/// Why an operation is not delivered, by what comes next.
enum Failure {
    /// It never will be.
    Refused(String),
    /// It is sent again.
    NotSent {
        why: String,
        retry_after: Option<Duration>,
    },
    /// It may have been sent and must not show twice: it is looked for.
    Doubtful {
        why: String,
        retry_after: Option<Duration>,
    },
    /// The same, and the platform cannot say.
    Unknowable,
}

impl Failure {
    fn of(error: SendError, action: &Action) -> Self {
        let retry_after = None;
        match error {
            SendError::Refused(why) => Self::Refused(why),
            SendError::NotSent { why, retry_after } => Self::NotSent { why, retry_after },
            // An edit can be repeated safely; a post or a file that may have arrived must not be.
            SendError::Ambiguous(why) if !action.may_show_twice() => Self::NotSent { why, retry_after },
            SendError::Ambiguous(why) => Self::Doubtful { why, retry_after },
        }
    }

    /// It was to be looked for, and that failed.
    fn not_asked(error: SendError) -> Self {
        match error {
            SendError::NotSent { why, retry_after } => Self::Doubtful { why, retry_after },
            SendError::Refused(why) | SendError::Ambiguous(why) => Self::Doubtful {
                why,
                retry_after: None,
            },
        }
    }
}
