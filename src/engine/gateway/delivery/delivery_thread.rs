//! The delivery thread: the operations of one chat and thread, delivered in order with retries. An operation that may
//! have been sent, and must not show twice, is looked up before it is sent again.

use super::failure::{ATTEMPTS_MAX, attempt_weight, retry_wait};
use super::fallback::{NonDelivery, Split, fallback_ops};
use super::gate::DeliveryGate;
use super::outcome::store_outcome;
use crate::base::model::{Action, MessageRef, Op, reply_of_operation};
use crate::interfaces::channel::{CallPurpose, Channel, DeliveryLookup, SendError};
use crate::state::store::{AttemptWeight, DueOperation, POSTPONED_MAX, Postponement, RetryMode, Store};
use futures_util::FutureExt;
use jiff::Timestamp;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

/// A delivery thread. It delivers waiting operations one after another until one fails.
pub(super) struct DeliveryThread {
    pub(super) store: Store,
    pub(super) name: String,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) gate: Arc<DeliveryGate>,
    pub(super) split: Split,
    pub(super) now: fn() -> Timestamp,
    pub(super) wake_signal: Arc<Notify>,
    pub(super) delivered: watch::Sender<u64>,
    pub(super) reply_given_up: Arc<Notify>,
    pub(super) cancel: CancellationToken,
}

enum OperationOutcome {
    Delivered(Option<MessageRef>),
    /// The operation can never be delivered.
    Failed(String),
    /// The operation may have been delivered; the outcome cannot be found out.
    Ambiguous(String),
    /// The operation is a placeholder line that may already show. Its edit carries the whole content.
    Replaced,
    /// The operation must not be sent any more.
    Withdrawn(&'static str),
    /// The operation is retried later.
    Postponed(Postponement),
    Untried,
}

/// A guard for operations that are being delivered. If the task ends without reporting an outcome, they become due
/// again.
struct InFlightGuard<'a> {
    thread: &'a DeliveryThread,
    ops: Vec<String>,
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.thread.store.abandon_leases(&self.ops);
        self.thread.wake_signal.notify_one();
    }
}

impl DeliveryThread {
    /// Runs the delivery thread. The caller has already admitted the first operation.
    pub(super) async fn run(self, first: DueOperation) {
        let mut in_hand = InFlightGuard {
            thread: &self,
            ops: Vec::new(),
        };
        let mut due = vec![first];
        let mut admitted = 1;
        while !due.is_empty() {
            in_hand.ops = due.iter().map(|due| due.op.id.clone()).collect();
            due = self.deliver_all(due, admitted).await;
            admitted = 0;
            self.delivered.send_modify(|count| *count += 1);
        }
        in_hand.ops.clear();
    }

    /// Delivers operations one after another, the first of which are `admitted` already. Returns the operations that
    /// follow them and are due now.
    async fn deliver_all(&self, due: Vec<DueOperation>, admitted: usize) -> Vec<DueOperation> {
        let mut sent = Vec::with_capacity(due.len());
        let mut due = due.into_iter();
        while let Some(next) = due.next() {
            let result = match sent.len() < admitted || self.admit(&next) {
                true => self.attempt(&next).await,
                false => OperationOutcome::Untried,
            };
            match result {
                OperationOutcome::Delivered(message) => sent.push((next.op, message)),
                result => {
                    // Every operation needs a stored outcome; otherwise it stays leased.
                    self.store_delivered(&sent).await;
                    self.record_outcome(&next, result).await;
                    for due in due {
                        self.record_outcome(&due, OperationOutcome::Untried).await;
                    }
                    return Vec::new();
                }
            }
        }
        if !self.cancel.is_cancelled() {
            match self
                .store
                .record_delivered_and_lease(sent.clone(), (self.now)())
                .await
            {
                Ok(next) => return next,
                Err(error) => debug!(%error, "the outcome of a delivery is stored separately"),
            }
        }
        self.store_delivered(&sent).await;
        Vec::new()
    }

    fn admit(&self, due: &DueOperation) -> bool {
        self.gate.admit(&self.channel.limits(&due.op, super::call(due)))
    }

    async fn attempt(&self, due: &DueOperation) -> OperationOutcome {
        if due.attempts >= ATTEMPTS_MAX {
            return OperationOutcome::Ambiguous(
                "it was tried eight times, and the process ended during the last".to_owned(),
            );
        }
        if matches!(due.op.action, Action::Upload { .. }) {
            // A leased file has left its thread, so later operations of that thread may be delivered now.
            self.wake_signal.notify_one();
        }
        // Nothing is tried while the channel is closed or the process stops.
        let Some(Some(_call)) = self.cancel.run_until_cancelled(self.gate.call()).await else {
            return OperationOutcome::Untried;
        };
        match AssertUnwindSafe(self.deliver(due)).catch_unwind().await {
            Ok(result) => result,
            Err(_) => self.broken(due),
        }
    }

    /// Delivers one operation. If it may already have been delivered, it is looked up first.
    async fn deliver(&self, due: &DueOperation) -> OperationOutcome {
        let op = due.op.without_expired_url((self.now)());
        let op = &*op;
        let mut again = RetryMode::Send;
        if let Some(since) = due.ambiguous_since {
            // A clock that ran ahead gives no usable send time.
            let since = since.min((self.now)());
            let found = self.channel.find(op, since).await;
            if !matches!(found, Ok(DeliveryLookup::Message(_)))
                && let Some(withdrawn) = self.withdrawal(op).await
            {
                return withdrawn;
            }
            again = match found {
                Ok(DeliveryLookup::Message(message)) => {
                    self.gate.answered();
                    return OperationOutcome::Delivered(Some(message));
                }
                Ok(DeliveryLookup::CannotTell) if op.action.is_placeholder() => {
                    return OperationOutcome::Replaced;
                }
                Ok(DeliveryLookup::CannotTell) if !due.is_forced => {
                    return OperationOutcome::Ambiguous("it is unknown whether it was sent".to_owned());
                }
                Ok(DeliveryLookup::CannotTell) => RetryMode::Forced,
                Ok(DeliveryLookup::Nothing) => RetryMode::Send,
                Err(error) if due.is_forced => {
                    return self.failed(due, error, CallPurpose::Find, RetryMode::Forced);
                }
                Err(error) => return self.failed(due, error, CallPurpose::Find, RetryMode::LookUp),
            };
            // The lookup repeats no earlier than the operation could be sent.
            if let Err(wait) = self
                .gate
                .admit_or_wait(&self.channel.limits(op, CallPurpose::Deliver))
            {
                let why = "it was not found on the platform and waits for a rate limit".to_owned();
                return self.postponed(due, again, wait, why, AttemptWeight::NotCounted);
            }
        }
        if let Some(withdrawn) = self.withdrawal(op).await {
            return withdrawn;
        }
        match self.channel.deliver(op).await {
            Ok(delivered) => {
                self.gate.answered();
                OperationOutcome::Delivered(delivered.message)
            }
            Err(error) => self.failed(due, error, CallPurpose::Deliver, again),
        }
    }

    /// Returns the outcome of an operation that must not be sent any more. That may have been decided after it was leased.
    /// If it cannot be read, the operation is not sent now.
    async fn withdrawal(&self, op: &Op) -> Option<OperationOutcome> {
        match self.store.reason_to_withdraw(op).await {
            Ok(why) => why.map(OperationOutcome::Withdrawn),
            Err(error) => {
                warn!(%error, op.id = op.id, "not sent, because it is not known whether it was withdrawn");
                Some(OperationOutcome::Untried)
            }
        }
    }

    /// Returns the outcome of a failed call. `unsent` is the retry mode if the call had no effect.
    fn failed(
        &self,
        due: &DueOperation,
        error: SendError,
        call: CallPurpose,
        unsent: RetryMode,
    ) -> OperationOutcome {
        let may_be_sent = call == CallPurpose::Deliver && due.op.action.may_show_twice();
        let before = self.gate.failed(&error, &self.channel.limits(&due.op, call));
        let age = (self.now)().duration_since(due.enqueued);
        let attempt = attempt_weight(&error, before, age);
        let attempts = due.attempts + u32::from(attempt == AttemptWeight::Counted);
        let after = retry_wait(attempts) + self.gate.pause();
        let (why, wait, again) = match error {
            SendError::Refused(why) if call == CallPurpose::Deliver => return OperationOutcome::Failed(why),
            SendError::Refused(why) => (why, after, unsent),
            // The whole channel, or a limit, is closed. The operation is due as soon as that opens.
            SendError::Unauthorised(why) | SendError::Limited { why, .. } => (why, Duration::ZERO, unsent),
            // The call of the next form waits for the limits only.
            SendError::OtherForm(why) => (why, Duration::ZERO, unsent),
            // The retry is later than the next probe, so that another operation is tried after the probe.
            SendError::Unreachable(why) => (why, after, unsent),
            SendError::NotSent { why, retry_after } | SendError::OtherHost { why, retry_after } => {
                (why, after.max(retry_after.unwrap_or_default()), unsent)
            }
            SendError::Ambiguous(why) if may_be_sent => (why, after, RetryMode::LookUp),
            SendError::Ambiguous(why) => (why, after, unsent),
        };
        self.postponed(due, again, wait, why, attempt)
    }

    /// Returns the outcome of an operation that made the channel code panic. The panic counts against the operation.
    fn broken(&self, due: &DueOperation) -> OperationOutcome {
        error!(op.id = due.op.id, "the delivery of an operation panicked");
        let again = match due.op.action.may_show_twice() {
            true => RetryMode::LookUp,
            false => RetryMode::Send,
        };
        let why = "it cannot be delivered because of an internal error".to_owned();
        self.postponed(
            due,
            again,
            retry_wait(due.attempts + 1),
            why,
            AttemptWeight::Counted,
        )
    }

    /// Returns a retry after a wait, or a failure if all attempts are used.
    fn postponed(
        &self,
        due: &DueOperation,
        again: RetryMode,
        wait: Duration,
        why: String,
        attempt: AttemptWeight,
    ) -> OperationOutcome {
        if attempt == AttemptWeight::Counted && due.attempts + 1 >= ATTEMPTS_MAX {
            return match again {
                RetryMode::Send => OperationOutcome::Failed(why),
                RetryMode::LookUp | RetryMode::Forced => OperationOutcome::Ambiguous(why),
            };
        }
        let at = (self.now)();
        let due_at = at.checked_add(wait.min(POSTPONED_MAX)).unwrap_or(at);
        OperationOutcome::Postponed(Postponement {
            retry_mode: again,
            due_at,
            why,
            attempt,
        })
    }

    /// Stores the outcome of an undelivered operation.
    async fn record_outcome(&self, due: &DueOperation, result: OperationOutcome) {
        let (op, store) = (&due.op, &self.store);
        let outcome = format!("the outcome of `{}`", op.id);
        let cancel = &self.cancel;
        match result {
            OperationOutcome::Delivered(message) => self.store_delivered(&[(op.clone(), message)]).await,
            OperationOutcome::Failed(why) => {
                error!(
                    channel = self.name,
                    op.id = op.id,
                    why,
                    "given up: it was not delivered"
                );
                let instead = fallback_ops(op, NonDelivery::Certain, &self.split);
                store_outcome(&outcome, cancel, || {
                    store.record_failed(&op.id, &why, instead.clone(), (self.now)())
                })
                .await;
                self.tell_runs(op);
            }
            OperationOutcome::Ambiguous(why) => {
                error!(
                    channel = self.name,
                    op.id = op.id,
                    why,
                    "given up: it is unknown whether it was delivered"
                );
                let instead = fallback_ops(op, NonDelivery::Possible, &self.split);
                store_outcome(&outcome, cancel, || {
                    store.record_ambiguous(&op.id, &why, instead.clone(), (self.now)())
                })
                .await;
                self.tell_runs(op);
            }
            OperationOutcome::Replaced => {
                let why = "it may be visible already; its full text is posted instead";
                store_outcome(&outcome, cancel, || {
                    store.record_replaced(&op.id, why, (self.now)())
                })
                .await;
            }
            OperationOutcome::Withdrawn(why) => {
                store_outcome(&outcome, cancel, || {
                    store.record_withdrawn(&op.id, why, (self.now)())
                })
                .await;
                self.tell_runs(op);
            }
            OperationOutcome::Postponed(postponed) => {
                self.log_postponed(due, &postponed);
                store_outcome(&outcome, cancel, || store.postpone(&op.id, postponed.clone())).await;
            }
            OperationOutcome::Untried => {
                store_outcome(&outcome, cancel, || store.release_operation(due)).await;
            }
        }
    }

    /// Makes the driver of runs look at a run whose reply was given up.
    fn tell_runs(&self, op: &Op) {
        if reply_of_operation(&op.id).is_some() {
            self.reply_given_up.notify_one();
        }
    }

    /// Logs an operation that fails on its own, once. A failure of the whole channel is reported for the channel
    /// instead.
    fn log_postponed(&self, due: &DueOperation, postponed: &Postponement) {
        let (op, why) = (&due.op.id, &postponed.why);
        if due.attempts == 0 && postponed.attempt == AttemptWeight::Counted {
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
            store_outcome(&outcome, &self.cancel, || {
                self.store.record_delivered(&op.id, message.clone(), (self.now)())
            })
            .await;
        }
    }
}
