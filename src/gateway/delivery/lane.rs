//! The operations of one chat and thread, delivered in order and tried again with patience. What may have been
//! sent and must not show twice is looked for before it is sent again.

use super::failure::{ATTEMPTS_MAX, attempt, patience};
use super::gate::Gate;
use super::instead::{Missing, Split, instead_of};
use super::kept::kept;
use crate::channel::{Call, Channel, Found, SendError};
use crate::model::{Action, MessageRef, Op};
use crate::store::{Again, Attempt, Due, POSTPONED_MAX, Postponed, Store};
use futures_util::FutureExt;
use jiff::Timestamp;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

/// Delivers what waits in one lane, one after another, for as long as it goes well.
pub(super) struct LaneDelivery {
    pub(super) store: Store,
    pub(super) name: String,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) gate: Arc<Gate>,
    pub(super) split: Split,
    pub(super) now: fn() -> Timestamp,
    pub(super) work: Arc<Notify>,
    pub(super) delivered: watch::Sender<u64>,
    pub(super) cancel: CancellationToken,
}

/// The outcome of an operation.
enum Fate {
    Delivered(Option<MessageRef>),
    /// The operation will never be delivered.
    Failed(String),
    /// The operation may have been delivered, and nobody can tell.
    Lost(String),
    /// The operation is a line that may show already: its fill says everything.
    Replaced,
    /// The operation is tried again.
    Postponed(Postponed),
    /// The operation was not tried.
    Untried,
}

/// Operations in hand. If whoever has them ends without a report, they are due again.
struct InHand<'a> {
    lane: &'a LaneDelivery,
    ops: Vec<String>,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.lane.store.let_go(&self.ops);
        self.lane.work.notify_one();
    }
}

impl LaneDelivery {
    /// The first was admitted by whoever took it.
    pub(super) async fn run(self, first: Due) {
        let mut in_hand = InHand {
            lane: &self,
            ops: Vec::new(),
        };
        let mut due = vec![first];
        let mut is_admitted = true;
        while !due.is_empty() {
            in_hand.ops = due.iter().map(|due| due.op.id.clone()).collect();
            due = self.all(due, is_admitted).await;
            is_admitted = false;
            self.delivered.send_modify(|count| *count += 1);
        }
        in_hand.ops.clear();
    }

    /// Delivers operations one after another and answers what comes after them, if that is due at once.
    async fn all(&self, due: Vec<Due>, mut is_admitted: bool) -> Vec<Due> {
        let mut sent = Vec::with_capacity(due.len());
        let mut due = due.into_iter();
        while let Some(next) = due.next() {
            let fate = match std::mem::take(&mut is_admitted) || self.admit(&next) {
                true => self.attempt(&next).await,
                false => Fate::Untried,
            };
            match fate {
                Fate::Delivered(message) => sent.push((next.op, message)),
                fate => {
                    // Each is reported on: else nobody is handed it again.
                    self.store_delivered(&sent).await;
                    self.settle(&next, fate).await;
                    for due in due {
                        self.settle(&due, Fate::Untried).await;
                    }
                    return Vec::new();
                }
            }
        }
        if !self.cancel.is_cancelled() {
            match self.store.delivered_and_next(sent.clone(), (self.now)()).await {
                Ok(next) => return next,
                Err(error) => debug!(%error, "what became of a delivery is stored alone"),
            }
        }
        self.store_delivered(&sent).await;
        Vec::new()
    }

    fn admit(&self, due: &Due) -> bool {
        let call = super::call(due.doubtful_since.is_some());
        self.gate.admit(&self.channel.limits(&due.op, call))
    }

    async fn attempt(&self, due: &Due) -> Fate {
        if due.attempts >= ATTEMPTS_MAX {
            return Fate::Lost("it was tried eight times, and the process ended during the last".to_owned());
        }
        if matches!(due.op.action, Action::Upload { .. }) {
            // It has left its thread: somebody else may go on there.
            self.work.notify_one();
        }
        // While the channel is closed, or the process stops, nothing is tried.
        let Some(Some(_call)) = self.cancel.run_until_cancelled(self.gate.call()).await else {
            return Fate::Untried;
        };
        match AssertUnwindSafe(self.deliver(due)).catch_unwind().await {
            Ok(fate) => fate,
            Err(_) => self.broken(due),
        }
    }

    /// Delivers one operation; what may have been delivered before is looked for first.
    async fn deliver(&self, due: &Due) -> Fate {
        let op = due.op.addressed((self.now)());
        let op = &*op;
        let mut again = Again::Sent;
        if let Some(since) = due.doubtful_since {
            // A clock that was ahead says nothing about when it was sent.
            let since = since.min((self.now)());
            again = match self.channel.find(op, since).await {
                Ok(Found::Message(message)) => {
                    self.gate.answered();
                    return Fate::Delivered(Some(message));
                }
                Ok(Found::CannotTell) if op.action.is_placeholder() => return Fate::Replaced,
                Ok(Found::CannotTell) if !due.is_insisted => {
                    return Fate::Lost("nobody can tell whether it was sent".to_owned());
                }
                Ok(Found::CannotTell) => Again::Insisted,
                Ok(Found::Nothing) => Again::Sent,
                Err(error) if due.is_insisted => return self.failed(due, error, Call::Find, Again::Insisted),
                Err(error) => return self.failed(due, error, Call::Find, Again::LookedFor),
            };
            // Looked for again no sooner than it can be sent.
            if let Err(wait) = self.gate.admit_or_wait(&self.channel.limits(op, Call::Deliver)) {
                let why = "it was looked for, and waits for a limit of the platform".to_owned();
                return self.postponed(due, again, wait, why, Attempt::NotCounted);
            }
        }
        match self.channel.deliver(op).await {
            Ok(delivered) => {
                self.gate.answered();
                Fate::Delivered(delivered.message)
            }
            Err(error) => self.failed(due, error, Call::Deliver, again),
        }
    }

    /// Returns the outcome of a call that failed. `unsent` is how the operation is tried again if the call had no effect.
    fn failed(&self, due: &Due, error: SendError, call: Call, unsent: Again) -> Fate {
        let may_be_sent = call == Call::Deliver && due.op.action.may_show_twice();
        let before = self.gate.failed(&error, &self.channel.limits(&due.op, call));
        let age = (self.now)().duration_since(due.enqueued);
        let attempt = attempt(&error, before, age);
        let attempts = due.attempts + u32::from(attempt == Attempt::Counted);
        let after = patience(attempts) + self.gate.pause();
        let (why, wait, again) = match error {
            SendError::Refused(why) if call == Call::Deliver => return Fate::Failed(why),
            SendError::Refused(why) => (why, after, unsent),
            // The channel, or what is limited of it, is closed: it is due as soon as that is open.
            SendError::Unauthorised(why) | SendError::Limited { why, .. } => (why, Duration::ZERO, unsent),
            // Later than the next probe, so that another operation is tried after that one.
            SendError::Unreachable(why) => (why, after, unsent),
            SendError::NotSent { why, retry_after } | SendError::OtherHost { why, retry_after } => {
                (why, after.max(retry_after.unwrap_or_default()), unsent)
            }
            SendError::Ambiguous(why) if may_be_sent => (why, after, Again::LookedFor),
            SendError::Ambiguous(why) => (why, after, unsent),
        };
        self.postponed(due, again, wait, why, attempt)
    }

    /// Returns the outcome of an operation that made its channel panic. That it did is held against it.
    fn broken(&self, due: &Due) -> Fate {
        error!(op.id = due.op.id, "an operation broke its delivery");
        let again = match due.op.action.may_show_twice() {
            true => Again::LookedFor,
            false => Again::Sent,
        };
        let why = "it cannot be delivered: something of ours broke".to_owned();
        self.postponed(due, again, patience(due.attempts + 1), why, Attempt::Counted)
    }

    /// Tried again after a wait, unless that was often enough.
    fn postponed(&self, due: &Due, again: Again, wait: Duration, why: String, attempt: Attempt) -> Fate {
        if attempt == Attempt::Counted && due.attempts + 1 >= ATTEMPTS_MAX {
            return match again {
                Again::Sent => Fate::Failed(why),
                Again::LookedFor | Again::Insisted => Fate::Lost(why),
            };
        }
        let at = (self.now)();
        let due_at = at.checked_add(wait.min(POSTPONED_MAX)).unwrap_or(at);
        Fate::Postponed(Postponed {
            again,
            due_at,
            why,
            attempt,
        })
    }

    /// Stores what became of an operation that was not delivered.
    async fn settle(&self, due: &Due, fate: Fate) {
        let (op, store) = (&due.op, &self.store);
        let outcome = format!("what became of `{}`", op.id);
        let cancel = &self.cancel;
        match fate {
            Fate::Delivered(message) => self.store_delivered(&[(op.clone(), message)]).await,
            Fate::Failed(why) => {
                error!(
                    channel = self.name,
                    op.id = op.id,
                    why,
                    "given up: it was not delivered"
                );
                let instead = instead_of(op, Missing::Surely, &self.split);
                kept(&outcome, cancel, || {
                    store.failed(&op.id, &why, instead.clone(), (self.now)())
                })
                .await;
            }
            Fate::Lost(why) => {
                error!(
                    channel = self.name,
                    op.id = op.id,
                    why,
                    "given up: nobody knows whether it was delivered"
                );
                let instead = instead_of(op, Missing::Perhaps, &self.split);
                kept(&outcome, cancel, || {
                    store.ambiguous(&op.id, &why, instead.clone(), (self.now)())
                })
                .await;
            }
            Fate::Replaced => {
                let why = "it may show already; what it stands for is posted whole";
                kept(&outcome, cancel, || store.replaced(&op.id, why, (self.now)())).await;
            }
            Fate::Postponed(postponed) => {
                self.tell_postponed(due, &postponed);
                kept(&outcome, cancel, || store.postpone(&op.id, postponed.clone())).await;
            }
            Fate::Untried => {
                kept(&outcome, cancel, || store.give_back(due)).await;
            }
        }
    }

    /// An operator hears once of what fails by itself; what fails with all others is told of the channel.
    fn tell_postponed(&self, due: &Due, postponed: &Postponed) {
        let (op, why) = (&due.op.id, &postponed.why);
        if due.attempts == 0 && postponed.attempt == Attempt::Counted {
            warn!(
                channel = self.name,
                op.id = op,
                why,
                "not delivered; it is tried again, {ATTEMPTS_MAX} times in all"
            );
        } else {
            debug!(op.id = op, why, "an operation is tried again later");
        }
    }

    async fn store_delivered(&self, sent: &[(Op, Option<MessageRef>)]) {
        for (op, message) in sent {
            let outcome = format!("that `{}` was delivered", op.id);
            kept(&outcome, &self.cancel, || {
                self.store.delivered(&op.id, message.clone(), (self.now)())
            })
            .await;
        }
    }
}
