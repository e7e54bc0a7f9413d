//! The inbox: accepted messages that still need an answer. Each message is accepted once, under any of its delivery
//! names.

use super::claim::{Claim, ClaimedWork, DirectClaim, TurnWorker};
use super::column::{json, millis, parse, text, time};
use super::outbox::response_url;
use super::writer::Durability;
use super::{AnswerReader, Store, StoreError, claim, conversation, key, outbox, question};
use crate::base::model::{ConversationId, Inbound, InboxId, Op};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The queue of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// Messages for a turn. A conversation answers them one at a time and in order.
    Turn,
    /// Commands that are answered at once, also during a turn.
    Command,
    /// Commands that are answered at once and may change the data of a turn. No turn begins before they take effect.
    Change,
}

impl QueueKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Command => "command",
            Self::Change => "change",
        }
    }
}

/// The outcome for an incoming message.
#[derive(Clone, Debug)]
pub enum AcceptOutcome {
    /// The message is stored and will be answered.
    Stored {
        /// The row of the message.
        inbox: InboxId,
        /// The conversation it belongs to.
        conversation: ConversationId,
        /// Number of unfinished turn messages before it, including the active one.
        queue_position: u32,
        /// The claim on its conversation, if a worker was given and no other worker holds the conversation.
        direct_claim: Option<DirectClaim>,
    },
    /// The message answered the open question of its conversation, whose turn can go on.
    Answered,
    /// The message was already accepted under one of its names.
    Duplicate,
    /// The message is not addressed to the bot, and its sender has no conversation there. Nothing was stored.
    NotAddressed,
    /// The queue is full. With a refusal notice the message is refused permanently. Without one it may be delivered
    /// again.
    Full,
}

/// The limits for waiting messages, and whether a message may answer a question instead of waiting.
pub struct QueueLimits {
    /// The reader of the message as an answer; `None` for a message that asks for a turn of its own.
    pub answers: Option<AnswerReader>,
    /// Operations that are enqueued in the transaction that accepts the message.
    pub notices: Vec<Op>,
    /// Maximum number of messages of one conversation and queue that wait behind the active one.
    pub of_conversation_max: usize,
    /// Maximum number of messages over all conversations of a hook. Applies only without `refusal`.
    pub of_hook_max: usize,
    /// The notice to a refused person. It is enqueued in the refusing transaction, and the message counts as handled.
    /// Without it nothing is stored, and the sender must deliver again.
    pub refusal: Option<Vec<Op>>,
}

/// An accepted command without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredCommand {
    /// The row of the command.
    pub inbox: InboxId,
    /// The conversation of the command.
    pub conversation: ConversationId,
    /// The time of acceptance.
    pub accepted_at: Timestamp,
    /// True if its effect is stored, so only the answer is missing.
    pub has_effect: bool,
    /// Number of crashes during which it was unanswered.
    pub crashes: u32,
    /// The content of the command, or why it cannot be read.
    pub inbound: Result<Box<Inbound>, StoreError>,
}

impl Store {
    /// Accepts a message unless it was already accepted or there is no `room`. Creates its conversation if needed.
    /// Claims the conversation for `worker` if this is its only waiting turn message and no other worker holds it. This
    /// does not wait for the disk, so that the turn can begin at once. The message must not be acknowledged before
    /// [`Store::wait_durable`].
    pub async fn accept(
        &self,
        inbound: &Inbound,
        queue_kind: QueueKind,
        room: QueueLimits,
        worker: Option<&TurnWorker>,
        at: Timestamp,
    ) -> Result<AcceptOutcome, StoreError> {
        let arrival = Arrival {
            inbound: inbound.clone(),
            queue_kind,
            worker: worker.filter(|_| queue_kind == QueueKind::Turn).cloned(),
            at,
        };
        let pepper = self.pepper();
        let promise = match arrival.worker {
            Some(_) => Durability::Deferred,
            None => Durability::Synced,
        };
        let work = move |tx: &Transaction<'_>| accept(tx, &arrival, room, pepper);
        self.inner.writer.write(promise, work, |_| ()).await
    }

    /// Returns an accepted message.
    pub async fn inbound(&self, inbox: InboxId) -> Result<Inbound, StoreError> {
        self.read(move |tx| {
            let text = tx
                .prepare_cached("SELECT inbound FROM inbox WHERE id = ?1")?
                .query_row([inbox.0], |row| row.get::<_, String>(0))
                .optional()?
                .ok_or_else(|| StoreError::NotFound(format!("message {inbox}")))?;
            parse("message", &text)
        })
        .await
    }

    /// Returns the number of unfinished turn messages, including the active one.
    pub async fn waiting(&self, conversation: ConversationId) -> Result<u32, StoreError> {
        self.read(move |tx| waiting(tx, conversation)).await
    }

    /// Returns accepted commands without an answer, oldest first. A crash may leave them.
    pub async fn unanswered(&self) -> Result<Vec<UnansweredCommand>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT id, conversation, inbound, accepted_at, effect IS NOT NULL, crashes FROM inbox
                 WHERE done_at IS NULL AND lane <> 'turn' ORDER BY id",
            )?;
            let mut rows = statement.query([])?;
            let mut commands = Vec::new();
            while let Some(row) = rows.next()? {
                let inbound = text("message", row, 2).and_then(|text| parse("message", &text));
                let accepted_at = time(row.get(3)?);
                commands.push(UnansweredCommand {
                    inbox: InboxId(row.get(0)?),
                    conversation: ConversationId(row.get(1)?),
                    accepted_at: accepted_at.clone().unwrap_or_default(),
                    has_effect: row.get(4)?,
                    crashes: row.get(5)?,
                    inbound: accepted_at.and(inbound.map(Box::new)),
                });
            }
            Ok(commands)
        })
        .await
    }
}

/// An incoming message.
struct Arrival {
    inbound: Inbound,
    queue_kind: QueueKind,
    worker: Option<TurnWorker>,
    at: Timestamp,
}

fn accept(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    room: QueueLimits,
    pepper: [u8; 32],
) -> Result<AcceptOutcome, StoreError> {
    let Arrival {
        inbound,
        queue_kind,
        worker,
        at,
    } = arrival;
    let (queue_kind, worker, at) = (*queue_kind, worker.as_ref(), *at);
    if was_delivered(tx, &inbound.delivery)? {
        return Ok(AcceptOutcome::Duplicate);
    }
    let Some(conversation) = conversation::find(tx, &inbound.key())? else {
        if !inbound.is_addressed() {
            return Ok(AcceptOutcome::NotAddressed);
        }
        if room.refusal.is_none() && is_hook_full(tx, inbound, room.of_hook_max)? {
            return Ok(AcceptOutcome::Full);
        }
        let worker = match worker {
            Some(worker) if claim::may_have_more(tx, &json(&inbound.sender)?, worker)? => Some(worker),
            Some(_) | None => None,
        };
        let conversation = conversation::create(tx, inbound, queue_kind, worker, pepper, at)?;
        let inbox = insert(tx, arrival, conversation.id)?;
        outbox::enqueue(tx, &room.notices, at)?;
        let id = conversation.id;
        let direct_claim = worker.map(|_| DirectClaim {
            claim: Claim::first(id),
            work: Some(Box::new(ClaimedWork::first(inbox, inbound, conversation))),
        });
        return Ok(AcceptOutcome::Stored {
            inbox,
            conversation: id,
            queue_position: 0,
            direct_claim,
        });
    };
    // A command or a click creates a conversation, but does not show that its sender is talking to the bot.
    if !inbound.is_addressed() && !conversation::has_turn_message(tx, conversation)? {
        return Ok(AcceptOutcome::NotAddressed);
    }
    if queue_kind == QueueKind::Turn
        && let Some(reader) = &room.answers
        && question::answer_with(tx, conversation, (inbound, reader), at)?
    {
        insert_answered(tx, arrival, conversation)?;
        outbox::enqueue(tx, &room.notices, at)?;
        return Ok(AcceptOutcome::Answered);
    }
    if usize::try_from(unfinished(tx, conversation, queue_kind)?).unwrap_or(usize::MAX)
        > room.of_conversation_max
    {
        if let Some(refusal) = room.refusal {
            remember_delivery(tx, &inbound.delivery, at)?;
            outbox::enqueue(tx, &refusal, at)?;
        }
        return Ok(AcceptOutcome::Full);
    }
    let queue_position = waiting(tx, conversation)?;
    if queue_kind == QueueKind::Turn {
        conversation::add_pending(tx, conversation, inbound, at)?;
    } else if inbound.direct {
        conversation::mark_direct(tx, conversation)?;
    }
    let inbox = insert(tx, arrival, conversation)?;
    outbox::enqueue(tx, &room.notices, at)?;
    let direct_claim = match worker {
        Some(worker) if queue_position == 0 => claim::claim_new(tx, conversation, (inbox, inbound), worker)?,
        Some(_) | None => None,
    };
    Ok(AcceptOutcome::Stored {
        inbox,
        conversation,
        queue_position,
        direct_claim,
    })
}

fn insert(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    conversation: ConversationId,
) -> Result<InboxId, StoreError> {
    let Arrival {
        inbound,
        queue_kind,
        at,
        ..
    } = arrival;
    crash_point::before("B2");
    remember_delivery(tx, &inbound.delivery, *at)?;
    tx.prepare_cached(
        "INSERT INTO inbox (conversation, lane, inbound, accepted_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        conversation.0,
        queue_kind.as_str(),
        json(inbound)?,
        millis(*at)
    ])?;
    crash_point::before("B3");
    let inbox = InboxId(tx.last_insert_rowid());
    if let Some(url) = &inbound.response_url {
        response_url::store_url(tx, &inbox.op_id_prefix(), url, *at)?;
    }
    Ok(inbox)
}

/// Inserts a message that needs no turn, because it answered a question. Its content is in the step of that question.
fn insert_answered(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    conversation: ConversationId,
) -> Result<(), StoreError> {
    remember_delivery(tx, &arrival.inbound.delivery, arrival.at)?;
    tx.prepare_cached(
        "INSERT INTO inbox (conversation, lane, inbound, accepted_at, done_at) VALUES (?1, ?2, '', ?3, ?3)",
    )?
    .execute(params![
        conversation.0,
        QueueKind::Turn.as_str(),
        millis(arrival.at)
    ])?;
    Ok(())
}

/// True if the limit of unanswered events of this hook is reached.
fn is_hook_full(tx: &Transaction<'_>, inbound: &Inbound, max: usize) -> Result<bool, StoreError> {
    let (user, place) = (&inbound.sender, &inbound.place);
    let (after, before) = key::chat_key_range(user, &place.account, &place.chat)?;
    let waiting = tx
        .prepare_cached(
            "SELECT COUNT(*) FROM conversation INDEXED BY conversation_due WHERE pending > 0 AND key > ?1 AND key < ?2",
        )?
        .query_row([after, before], |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(waiting).unwrap_or(usize::MAX) >= max)
}

/// Returns the number of unfinished messages of a queue, without those that a running turn took.
fn unfinished(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    queue_kind: QueueKind,
) -> Result<u32, StoreError> {
    let count = tx
        .prepare_cached(
            "SELECT COUNT(*) FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL AND taken_by IS NULL",
        )?
        .query_row(params![conversation.0, queue_kind.as_str()], |row| row.get(0))?;
    Ok(count)
}

/// Counts the waiting messages like [`Store::waiting`], within another read or write.
pub(super) fn waiting(tx: &Transaction<'_>, conversation: ConversationId) -> Result<u32, StoreError> {
    unfinished(tx, conversation, QueueKind::Turn)
}

/// True if a message was accepted under one of these names.
pub(super) fn was_delivered(tx: &Transaction<'_>, names: &[String]) -> Result<bool, StoreError> {
    let mut statement = tx.prepare_cached("SELECT 1 FROM delivery WHERE name = ?1")?;
    for name in names {
        if statement.exists([name])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Records all names of a message.
pub(super) fn remember_delivery(
    tx: &Transaction<'_>,
    names: &[String],
    at: Timestamp,
) -> Result<(), StoreError> {
    // A message may have the same name twice. Names of other messages were checked before.
    let mut statement =
        tx.prepare_cached("INSERT INTO delivery (name, at) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING")?;
    for name in names {
        statement.execute(params![name, millis(at)])?;
    }
    Ok(())
}

/// A waiting message, with its content if that can be read.
pub(super) type WaitingMessage = (InboxId, Result<Inbound, StoreError>);

/// Returns the oldest unfinished turn message.
pub(super) fn next(
    tx: &Transaction<'_>,
    conversation: ConversationId,
) -> Result<Option<WaitingMessage>, StoreError> {
    let mut oldest = tx.prepare_cached(
        "SELECT id, inbound FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL ORDER BY id LIMIT 1",
    )?;
    let mut rows = oldest.query(params![conversation.0, QueueKind::Turn.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let inbound = text("message", row, 1).and_then(|text| parse("message", &text));
    Ok(Some((InboxId(row.get(0)?), inbound)))
}

/// True if a message was answered.
pub(super) fn is_finished(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let finished = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND done_at IS NOT NULL")?
        .exists([inbox.0])?;
    Ok(finished)
}

/// True if the person stopped the message.
pub(super) fn is_stopped(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let stopped = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND stopped_by IS NOT NULL")?
        .exists([inbox.0])?;
    Ok(stopped)
}

/// Returns an error unless this is an unfinished message of the conversation.
pub(super) fn check_unfinished(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    inbox: InboxId,
) -> Result<(), StoreError> {
    let unfinished = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND conversation = ?2 AND done_at IS NULL")?
        .exists(params![inbox.0, conversation.0])?;
    match unfinished {
        true => Ok(()),
        false => Err(StoreError::NotFound(format!("unfinished message {inbox}"))),
    }
}

/// Marks a turn message as answered and removes its content, because its turn holds the relevant text. Returns false if
/// it was already answered.
pub(super) fn finish(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    inbox: InboxId,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let done = tx
        .prepare_cached(
            "UPDATE inbox SET done_at = ?3, inbound = '' WHERE id = ?1 AND conversation = ?2 AND lane = ?4 AND done_at IS NULL",
        )?
        .execute(params![inbox.0, conversation.0, millis(at), QueueKind::Turn.as_str()])?;
    if done == 1 {
        conversation::remove_pending(tx, conversation)?;
    }
    Ok(done == 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::{AcceptOutcome, QueueKind, QueueLimits, UnansweredCommand};
    use crate::base::model::{InboundKind, InboxId, Platform};
    use crate::state::store::fixture::{accept, at, claim, find, fresh, place, post, room, says};

    /// T15
    #[tokio::test]
    async fn a_message_is_accepted_once_under_any_of_its_names() {
        let (_directory, store) = fresh();
        accept(&store, &says("U1", "hello", &["event:1", "ts:1"]), 0).await;
        for names in [
            &["event:1"][..],
            &["ts:1"],
            &["event:2", "ts:1"],
            &["event:1", "ts:1"],
        ] {
            for _ in 0..10 {
                let again = store
                    .accept(
                        &says("U1", "hello", names),
                        QueueKind::Turn,
                        room(20),
                        None,
                        at(1),
                    )
                    .await;
                assert!(matches!(again, Ok(AcceptOutcome::Duplicate)), "{names:?}");
            }
        }
        // A refused duplicate does not record its other names.
        accept(&store, &says("U1", "other", &["event:2"]), 2).await;
    }

    #[tokio::test]
    async fn a_full_conversation_stores_nothing_and_the_message_may_come_again() {
        let (_directory, store) = fresh();
        for number in 0..3 {
            let (_, _, queue_position) = accept(&store, &says("U1", "x", &[&format!("m{number}")]), 0).await;
            assert_eq!(queue_position, number);
        }
        let late = says("U1", "late", &["late"]);
        for _ in 0..2 {
            let refused = store.accept(&late, QueueKind::Turn, room(2), None, at(1)).await;
            assert!(matches!(refused, Ok(AcceptOutcome::Full)));
        }
        let other = store
            .accept(
                &says("U2", "x", &["other"]),
                QueueKind::Turn,
                room(2),
                None,
                at(1),
            )
            .await;
        assert!(matches!(
            other,
            Ok(AcceptOutcome::Stored {
                queue_position: 0,
                ..
            })
        ));
        assert!(matches!(
            store.accept(&late, QueueKind::Turn, room(3), None, at(2)).await,
            Ok(AcceptOutcome::Stored {
                queue_position: 3,
                ..
            })
        ));
    }

    /// P2
    #[tokio::test]
    async fn the_notice_of_a_full_conversation_is_stored_with_the_refusal() {
        let (_directory, store) = fresh();
        accept(&store, &says("U1", "x", &["m"]), 0).await;
        accept(&store, &says("U1", "x", &["n"]), 0).await;
        let late = says("U1", "late", &["late"]);
        let refused = || QueueLimits {
            refusal: Some(vec![post("refused", None, "Too many wait.")]),
            ..room(1)
        };
        let answer = store.accept(&late, QueueKind::Turn, refused(), None, at(1)).await;
        assert!(matches!(answer, Ok(AcceptOutcome::Full)));
        let again = store.accept(&late, QueueKind::Turn, refused(), None, at(2)).await;
        assert!(matches!(again, Ok(AcceptOutcome::Duplicate)));
        let due = store.lease_due("slack", at(2), 10).await.unwrap();
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].op, post("refused", None, "Too many wait."));
    }

    #[tokio::test]
    async fn the_queue_of_a_hook_is_bounded_across_all_its_conversations() {
        let (_directory, store) = fresh();
        let event = |hook: &str, number: i64| {
            let mut event = says(hook, "x", &[&format!("{hook}{number}")]);
            event.sender.platform = Platform::Hook;
            event.place.thread = Some(number.to_string());
            event
        };
        let two = || QueueLimits {
            of_hook_max: 2,
            ..room(20)
        };
        for number in 0..4 {
            let event = event("a", number);
            let accepted = store.accept(&event, QueueKind::Turn, two(), None, at(number));
            let is_taken = matches!(accepted.await, Ok(AcceptOutcome::Stored { .. }));
            assert_eq!(is_taken, number < 2, "{number}");
        }
        let other = store
            .accept(&event("b", 0), QueueKind::Turn, two(), None, at(5))
            .await;
        assert!(matches!(other, Ok(AcceptOutcome::Stored { .. })));
        let first = claim(&store, "w").await.unwrap();
        let message = store.next_message(&first).await.unwrap().unwrap();
        store.dismiss(&first, message, Vec::new(), at(6)).await.unwrap();
        // A refused message may be delivered again.
        let again = store
            .accept(&event("a", 2), QueueKind::Turn, two(), None, at(7))
            .await;
        assert!(matches!(again, Ok(AcceptOutcome::Stored { .. })));
    }

    /// SDK-10
    #[tokio::test]
    async fn people_and_threads_do_not_share_a_conversation() {
        let (_directory, store) = fresh();
        let (_, first, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
        let (_, second, _) = accept(&store, &says("U2", "x", &["2"]), 0).await;
        let mut elsewhere = says("U1", "x", &["3"]);
        elsewhere.place = place(Some("2.0"));
        let (_, third, _) = accept(&store, &elsewhere, 5).await;
        elsewhere.place = place(None);
        elsewhere.delivery = vec!["4".into()];
        let nowhere = store
            .accept(&elsewhere, QueueKind::Command, room(20), None, at(9))
            .await
            .unwrap();
        let AcceptOutcome::Stored {
            conversation: fourth, ..
        } = nowhere
        else {
            panic!("{nowhere:?}")
        };
        assert_eq!(
            std::collections::HashSet::from([first, second, third, fourth]).len(),
            4
        );
        let inbound = says("U1", "x", &["1"]);
        assert_eq!(find(&store, &inbound).await, Some(first));
        // A slash command means the thread with the newest message, not the place where it was typed.
        let latest = store
            .latest_conversation(&inbound.sender, &inbound.place.account, "C1", InboxId(1_000))
            .await;
        assert_eq!(latest, Ok(Some(third)));
    }

    #[tokio::test]
    async fn an_unaddressed_message_is_stored_only_in_a_conversation_of_its_sender() {
        let (_directory, store) = fresh();
        let mut chatter = says("U1", "lunch?", &["1"]);
        let InboundKind::Text { addressed, .. } = &mut chatter.kind else {
            panic!("{chatter:?}")
        };
        *addressed = false;
        let said = || store.accept(&chatter, QueueKind::Turn, room(20), None, at(0));
        assert!(matches!(said().await, Ok(AcceptOutcome::NotAddressed)));
        assert_eq!(find(&store, &chatter).await, None);
        accept(&store, &says("U2", "hello", &["2"]), 0).await;
        assert!(matches!(said().await, Ok(AcceptOutcome::NotAddressed)));
        // A command alone does not make further messages count as addressed.
        let command = says("U1", "status", &["4"]);
        let stored = store
            .accept(&command, QueueKind::Command, room(20), None, at(0))
            .await;
        assert!(matches!(stored, Ok(AcceptOutcome::Stored { .. })));
        assert!(matches!(said().await, Ok(AcceptOutcome::NotAddressed)));
        accept(&store, &says("U1", "hello", &["3"]), 0).await;
        assert!(matches!(
            said().await,
            Ok(AcceptOutcome::Stored {
                queue_position: 1,
                ..
            })
        ));
    }

    /// R18: an unreadable row is reported as such, together with the others.
    #[tokio::test]
    async fn a_command_that_cannot_be_read_stops_no_other() {
        let (_directory, store) = fresh();
        for name in ["a", "b", "c"] {
            let said = says("U1", "status", &[name]);
            store
                .accept(&said, QueueKind::Command, room(20), None, at(0))
                .await
                .unwrap();
        }
        let spoil = "UPDATE inbox SET inbound = CASE id WHEN 1 THEN x'ff00' ELSE inbound END,
            accepted_at = CASE id WHEN 2 THEN 9000000000000000000 ELSE accepted_at END";
        store.write(|tx| Ok(tx.execute(spoil, [])?)).await.unwrap();
        let unanswered = store.unanswered().await.unwrap();
        let read: Vec<bool> = unanswered.iter().map(|command| command.inbound.is_ok()).collect();
        assert_eq!(read, [false, false, true]);
    }

    #[tokio::test]
    async fn a_command_stays_pending_until_it_is_answered_and_is_answered_once() {
        let (_directory, store) = fresh();
        let inbound = says("U1", "status", &["c"]);
        let accepted = store
            .accept(&inbound, QueueKind::Command, room(20), None, at(0))
            .await
            .unwrap();
        let AcceptOutcome::Stored {
            inbox, conversation, ..
        } = accepted
        else {
            panic!("{accepted:?}")
        };
        let left = UnansweredCommand {
            inbox,
            conversation,
            accepted_at: at(0),
            has_effect: false,
            crashes: 0,
            inbound: Ok(Box::new(inbound.clone())),
        };
        assert_eq!(store.unanswered().await, Ok(vec![left]));
        assert_eq!(store.inbound(inbox).await, Ok(inbound));
        store
            .finish_command(inbox, vec![post("a", None, "ok")], at(1))
            .await
            .unwrap();
        store
            .finish_command(inbox, vec![post("b", None, "ok")], at(1))
            .await
            .unwrap();
        assert_eq!(store.unanswered().await, Ok(Vec::new()));
        assert_eq!(store.unsent_count("slack").await, Ok(1));
        // The message was never meant for a turn.
        assert_eq!(claim(&store, "w").await, None);
    }
}
