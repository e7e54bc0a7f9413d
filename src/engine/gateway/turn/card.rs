//! The status card of a message. It is posted when the message has to wait, or after its turn has run for a moment, and
//! is updated until the turn ends.

use super::{ClaimedMessage, OpenedTurn, TurnRunner};
use crate::base::model::{
    Action, Inbound, InboundKind, InboxId, MessageRef, Op, Receipt, Reply, Sender, WorkStatus,
};
use crate::base::redact::Redactor;
use crate::crash_point;
use crate::engine::gateway::active_turns::{ActiveTurns, TurnHandle};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::delivery::ChannelDelivery;
use crate::engine::gateway::status_card::{StatusCard, on_one_line};
use crate::interfaces::channel::{Channel, SendError};
use crate::state::store::{Announcement, CardOutcome, NewAction, Store};
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The time that a turn runs before its card is posted. A shorter turn needs no card.
const SHOWN_AFTER: Duration = Duration::from_millis(250);
/// The time that an edit waits for further changes: the first word of a text says little.
const GATHERED_FOR: Duration = Duration::from_millis(150);
/// Shortest time between two edits of one card.
const EDIT_INTERVAL: Duration = Duration::from_secs(3);
/// The maximum number of characters of the name of running work.
const WORK_TITLE_CHARS_MAX: usize = 200;

/// Shortest time between two updates of a draft.
const DRAFT_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which an unchanged draft is shown again. Telegram shows it for 30 s.
const DRAFT_KEPT: Duration = Duration::from_secs(20);

/// The card of a running turn. Turns of hooks have none.
#[derive(Default)]
pub(super) struct OpenCard {
    editor: Option<(JoinHandle<()>, DropGuard)>,
    /// True once the platform was told that work goes on.
    shows_work: Arc<AtomicBool>,
}

impl OpenCard {
    /// Stops the edits, so that none arrives after the final one. Returns true if the platform may show that work goes
    /// on.
    pub(super) async fn close(self) -> bool {
        let Some((editor, done)) = self.editor else {
            return false;
        };
        drop(done);
        if let Err(error) = editor.await {
            tracing::warn!(%error, "a progress card panicked");
        }
        self.shows_work.load(Ordering::Relaxed)
    }
}

impl TurnRunner {
    /// Posts the card of a message before its turn starts. The same message first shows the waiting position, later the
    /// progress. A receipt reaction is added if the message still waits.
    pub(in crate::engine::gateway) fn show_queue_position(
        &self,
        inbound: Inbound,
        inbox: InboxId,
        queue_position: u32,
    ) {
        if self.parts.is_event(&inbound) {
            return;
        }
        let address = Address::for_message(&inbound, inbox);
        let card = Announcement {
            budget_request: None,
            result: None,
            ops: vec![address.placeholder("card", Reply::text(format!("Queued ({queue_position} ahead).")))],
            actions: Vec::new(),
            deliver_now: self.outgoing.can_deliver_now(&address.channel),
        };
        let (parts, outgoing) = (Arc::clone(&self.parts), Arc::clone(&self.outgoing));
        self.background.spawn(async move {
            let (store, now) = (&parts.store, (parts.now)());
            match store.show_waiting(inbox, card, now).await {
                Ok(CardOutcome::New(due)) => {
                    outgoing.react(&inbound, Receipt::Queued);
                    outgoing.dispatch_leased(&address.channel, due).await;
                }
                Ok(CardOutcome::AlreadyShown | CardOutcome::OutOfDate) => {
                    outgoing.react(&inbound, Receipt::Seen)
                }
                Err(error) => tracing::warn!(%error, "a card could not be posted"),
            }
        });
    }

    /// Returns the id of the operation that posts a message's card. Events have no card, because they post one message.
    pub(super) fn card_id(&self, assigned: &ClaimedMessage, address: &Address) -> Option<String> {
        (!self.parts.is_event(assigned.inbound())).then(|| address.id("card"))
    }

    /// Shows the card of a turn for as long as it runs.
    pub(super) fn open_card(
        &self,
        assigned: &ClaimedMessage,
        address: &Address,
        opened: &OpenedTurn,
        handle: &TurnHandle,
    ) -> OpenCard {
        let delivery = self.outgoing.delivery(&address.channel);
        let Some(delivery) = delivery.filter(|_| !self.parts.is_event(assigned.inbound())) else {
            return OpenCard::default();
        };
        let (token, stop) = self.button("stop", assigned.work.inbox.to_string(), opened);
        handle.card.send_modify(|card| card.set_stop(token));
        let redactor = Arc::clone(&opened.workspace.guard.redactor);
        let title = work_title(assigned.inbound(), &redactor);
        let shows_work = Arc::default();
        let editor = CardEditor {
            store: self.parts.store.clone(),
            delivery: Arc::clone(delivery),
            active_turns: self.active_turns.clone(),
            now: self.parts.now,
            inbox: assigned.work.inbox,
            address: address.clone(),
            sender: assigned.inbound().sender.clone(),
            stop,
            redactor,
            work: address.work("work/begun", WorkStatus::Running, title),
            shows_work: Arc::clone(&shows_work),
        };
        let done = CancellationToken::new();
        let editor = tokio::spawn(editor.run(handle.card.subscribe(), done.clone()));
        OpenCard {
            editor: Some((editor, done.drop_guard())),
            shows_work,
        }
    }
}

/// The task that posts a card and edits it.
struct CardEditor {
    store: Store,
    delivery: Arc<ChannelDelivery>,
    active_turns: ActiveTurns,
    now: fn() -> Timestamp,
    /// The message of the card.
    inbox: InboxId,
    address: Address,
    /// The person whose turn it is.
    sender: Sender,
    /// The stop button of the card.
    stop: NewAction,
    /// The redactor of the turn, which learns secrets while the turn runs.
    redactor: Arc<Redactor>,
    /// The operation that shows that work goes on.
    work: Option<Op>,
    shows_work: Arc<AtomicBool>,
}

/// Returns the name of the work on a message: the beginning of the person's words, which are in its thread as well.
fn work_title(inbound: &Inbound, redactor: &Redactor) -> Option<String> {
    match &inbound.kind {
        InboundKind::Text { text, .. } => Some(on_one_line(&redactor.redact(text), WORK_TITLE_CHARS_MAX)),
        _ => None,
    }
}

/// The reason why no more drafts are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DraftEnd {
    /// The turn has ended.
    Done,
    /// One could not be shown, so a card is posted.
    Refused,
}

/// Returns the pause after an edit when this many cards share a limit of the platform.
fn interval(spacing: Duration, cards: usize) -> Duration {
    let share = spacing.saturating_mul(u32::try_from(cards).unwrap_or(u32::MAX));
    share.max(EDIT_INTERVAL)
}

impl CardEditor {
    /// Posts the card after the turn has run for a moment, and edits it after each change, until `done`. A failed edit
    /// is retried with the newest state after the usual pause. The final edit goes through the outbox.
    async fn run(self, mut card: watch::Receiver<StatusCard>, done: CancellationToken) {
        tokio::select! {
            () = tokio::time::sleep(SHOWN_AFTER) => {}
            () = done.cancelled() => return,
        }
        if self.is_shown_as_draft().await {
            match self.show_drafts(&mut card, &done).await {
                DraftEnd::Done => return,
                DraftEnd::Refused => {}
            }
        }
        // The platform's stop button comes before a stream, which has none of its own. Only this answer says whether the
        // button is shown and can be pressed.
        let work_shown = match self.delivery.channel() {
            Some(_) => Some(self.show_work().await),
            None => None,
        };
        let newest = card.borrow_and_update().reply(&self.redactor);
        let post = match work_shown == Some(true) && self.can_stream() {
            true => self.stream(newest.clone()),
            false => self.address.placeholder("card", newest.clone()),
        };
        let mut shown = match self.post(post).await {
            CardOutcome::New(due) => {
                self.delivery.dispatch_leased(due).await;
                newest
            }
            // The posted card shows a waiting position, or a state from before a restart.
            CardOutcome::AlreadyShown => {
                card.mark_changed();
                Reply::default()
            }
            CardOutcome::OutOfDate => return,
        };
        let Some(channel) = self.connected(&done).await else {
            return;
        };
        if work_shown.is_none() {
            self.show_work().await;
        }
        let mut free_at = Instant::now();
        let mut message = None;
        loop {
            tokio::select! {
                changed = card.changed() => if changed.is_err() { return },
                () = done.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep_until(free_at.max(Instant::now() + GATHERED_FOR)) => {}
                () = done.cancelled() => return,
            }
            // The card may wait for the limit of posts until it is shown. What is edited then is the state of that time.
            if message.is_none() {
                message = self.message(&done).await;
            }
            let Some(message) = message.clone() else { return };
            let (newest, whole) = card.borrow_and_update().reply_and_whole(&self.redactor);
            if newest == shown {
                continue;
            }
            let spacing = channel.update_spacing(&message);
            let edit = Action::Progress {
                message,
                reply: newest.clone(),
                whole,
            };
            let mut rest = interval(spacing, self.active_turns.count());
            let edit = self.address.op("card/progress", edit);
            match self.delivery.deliver_best_effort(&edit).await {
                Ok(_) | Err(SendError::Refused(_)) => shown = newest,
                Err(error) => {
                    tracing::debug!(%error, "a progress edit was refused");
                    // The next change may take long, so the edit is retried without one.
                    card.mark_changed();
                    if let SendError::Limited {
                        retry_after: Some(wait),
                        ..
                    } = error
                    {
                        // The cards that wait take their turns, because one that was edited rests for longer.
                        rest = wait;
                    }
                }
            }
            free_at = Instant::now() + rest;
        }
    }

    /// True if the place shows drafts and has no card for this message yet.
    async fn is_shown_as_draft(&self) -> bool {
        let channel = self.delivery.watch_channel().borrow().clone();
        let shows_drafts = channel.is_some_and(|channel| channel.shows_drafts(&self.address.place));
        let card = self.address.id("card");
        shows_drafts && matches!(self.store.message_of(&card).await, Ok(None))
    }

    /// Shows the card as a draft, which leaves no message, until `done`. A draft that cannot be shown at first is not tried
    /// again: a card is delivered later at least.
    async fn show_drafts(
        &self,
        card: &mut watch::Receiver<StatusCard>,
        done: &CancellationToken,
    ) -> DraftEnd {
        let mut is_shown = false;
        loop {
            let action = Action::Draft {
                draft: self.inbox.0,
                reply: card.borrow_and_update().draft(&self.redactor),
            };
            let mut rest = DRAFT_INTERVAL;
            // A draft that was not shown is tried again without a change.
            let mut next_change = Duration::ZERO;
            match self
                .delivery
                .deliver_best_effort(&self.address.op("card/draft", action))
                .await
            {
                Ok(_) => (is_shown, next_change) = (true, DRAFT_KEPT),
                Err(error) if !is_shown || matches!(error, SendError::Refused(_)) => {
                    tracing::debug!(%error, "a draft was not shown");
                    return DraftEnd::Refused;
                }
                Err(SendError::Limited {
                    retry_after: Some(wait),
                    ..
                }) => rest = rest.max(wait),
                Err(error) => tracing::debug!(%error, "a draft was not shown"),
            }
            let free_at = Instant::now() + rest;
            tokio::select! {
                changed = card.changed() => if changed.is_err() { return DraftEnd::Done },
                () = tokio::time::sleep(next_change) => {}
                () = done.cancelled() => return DraftEnd::Done,
            }
            tokio::select! {
                () = tokio::time::sleep_until(free_at.max(Instant::now() + GATHERED_FOR)) => {}
                () = done.cancelled() => return DraftEnd::Done,
            }
        }
    }

    /// Shows that work goes on. Returns true if it is shown for certain. The end of the turn waits for this call, so it
    /// cannot arrive before.
    async fn show_work(&self) -> bool {
        let Some(work) = &self.work else { return false };
        self.shows_work.store(true, Ordering::Relaxed);
        let shown = self.delivery.deliver_best_effort(work).await;
        if let Err(error) = &shown {
            tracing::debug!(%error, "running work was not shown");
        }
        shown.is_ok()
    }

    /// True if the card can be a stream, which the platform's own stop button belongs to.
    fn can_stream(&self) -> bool {
        let channel = self.delivery.channel();
        channel.is_some_and(|channel| channel.streams(&self.address.place))
    }

    /// Returns the operation that posts the card as a stream.
    fn stream(&self, reply: Reply) -> Op {
        let action = Action::Stream {
            reply,
            reply_to: self.address.reply_to.clone(),
            to: self.sender.clone(),
        };
        self.address.op("card", action)
    }

    async fn post(&self, card: Op) -> CardOutcome {
        let announcement = Announcement {
            budget_request: None,
            result: None,
            ops: vec![card],
            actions: vec![self.stop.clone()],
            deliver_now: self.delivery.can_send_now(),
        };
        crash_point::before("B7");
        let shown = self.store.show_card(self.inbox, announcement, (self.now)()).await;
        crash_point::after("B7");
        shown.unwrap_or_else(|error| {
            tracing::warn!(%error, "a card could not be posted");
            CardOutcome::OutOfDate
        })
    }

    /// Waits for the connection. After a restart, a turn may begin before it.
    async fn connected(&self, done: &CancellationToken) -> Option<Arc<dyn Channel>> {
        let mut channel = self.delivery.watch_channel();
        tokio::select! {
            connected = channel.wait_for(Option::is_some) => connected.ok()?.clone(),
            () = done.cancelled() => None,
        }
    }

    /// Waits for the platform's message id of the posted card.
    async fn message(&self, done: &CancellationToken) -> Option<MessageRef> {
        let post = self.address.id("card");
        let mut delivered = self.delivery.watch_delivered();
        loop {
            if let Ok(Some(message)) = self.store.message_of(&post).await {
                return Some(message);
            }
            tokio::select! {
                changed = delivered.changed() => changed.ok()?,
                () = done.cancelled() => return None,
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::interval;
    use crate::base::model::Platform;
    use std::time::Duration;

    #[test]
    fn cards_share_what_a_workspace_allows() {
        let after = |spacing| [0, 1, 2, 3, 10, 100].map(|cards| interval(spacing, cards).as_millis());
        let of = |platform: Platform| after(platform.chat().unwrap().card_edit_spacing);
        assert_eq!(of(Platform::Slack), [3_000, 3_000, 4_000, 6_000, 20_000, 200_000]);
        // There, each chat has a limit of its own.
        for platform in [Platform::Telegram, Platform::Discord] {
            assert_eq!(of(platform), [3_000, 3_000, 3_000, 3_000, 3_000, 10_000]);
        }
        // Streams in Slack.
        let streams = after(Duration::from_millis(750));
        assert_eq!(streams, [3_000, 3_000, 3_000, 3_000, 7_500, 75_000]);
    }
}
