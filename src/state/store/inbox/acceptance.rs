//! The decision about an incoming message: whether it is known, answers a question, is held, waits or is refused.

use super::{AcceptOutcome, Arrival, QueueKind, QueueLimits, insert, unfinished, waiting};
use crate::base::model::{ConversationId, Inbound, InboxId, Op};
use crate::state::store::claim::{Claim, ClaimedWork, DirectClaim};
use crate::state::store::column::{json, millis};
use crate::state::store::delivery_name::{record_new, remember_delivery, was_delivered};
use crate::state::store::{
    StoreError, action, beginning, claim, conversation, held_message, key, outbox, question, run, thread,
};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// Accepts a message unless it was already accepted, and records its names if it is handled. If that is certain, they are
/// recorded first, which also shows whether one is known.
pub(super) fn accept(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    room: QueueLimits,
    pepper: [u8; 32],
) -> Result<AcceptOutcome, StoreError> {
    let (names, at) = (&arrival.inbound.delivery, arrival.at);
    let is_refusal_final = room.refusal.is_some();
    let is_recorded = is_refusal_final && arrival.inbound.is_addressed();
    let is_known = match is_recorded {
        true => !record_new(tx, names, at)?,
        false => was_delivered(tx, names)?,
    };
    if is_known {
        return Ok(AcceptOutcome::Duplicate);
    }
    let outcome = accept_new(tx, arrival, room, pepper)?;
    let is_handled = match outcome {
        AcceptOutcome::NotAddressed | AcceptOutcome::Duplicate => false,
        AcceptOutcome::Full => is_refusal_final,
        AcceptOutcome::Stored { .. } | AcceptOutcome::Answered | AcceptOutcome::Held => true,
    };
    if is_handled && !is_recorded {
        remember_delivery(tx, names, at)?;
    }
    Ok(outcome)
}

/// Accepts a message that was not accepted before, without its names.
fn accept_new(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    room: QueueLimits,
    pepper: [u8; 32],
) -> Result<AcceptOutcome, StoreError> {
    let Arrival {
        inbound,
        key,
        queue_kind,
        worker,
        at,
        ..
    } = arrival;
    let (queue_kind, at) = (*queue_kind, *at);
    let worker = match worker {
        Some(worker) if run::may_begin_at_once(tx, &worker.run_starters, inbound)? => Some(worker),
        Some(_) | None => None,
    };
    let found = match thread::joined(tx, inbound)? {
        Some(joined) => Some(joined),
        None => conversation::find_text(tx, key)?,
    };
    match hold_for_thread(tx, arrival, &room, (found, pepper))? {
        HoldOutcome::Held => return Ok(AcceptOutcome::Held),
        HoldOutcome::Full => return refuse(tx, room.refusal, at),
        HoldOutcome::Unneeded => {}
    }
    let Some(conversation) = found else {
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
        let conversation = conversation::create(tx, (inbound, key), queue_kind, worker, pepper, at)?;
        if queue_kind == QueueKind::Turn {
            thread::begin(tx, inbound, conversation.id)?;
            beginning::remember(tx, conversation.id, inbound, at)?;
        }
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
    let has_begun = conversation::has_turn_message(tx, conversation)?;
    if !inbound.is_addressed() && (!has_begun || beginning::is_later(tx, conversation, inbound)?) {
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
        return refuse(tx, room.refusal, at);
    }
    let queue_position = waiting(tx, conversation)?;
    if queue_kind == QueueKind::Turn {
        thread::begin(tx, inbound, conversation)?;
        if !has_begun {
            beginning::remember(tx, conversation, inbound, at)?;
        }
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

/// Refuses a message because too many wait. With a refusal it counts as handled.
fn refuse(
    tx: &Transaction<'_>,
    refusal: Option<Vec<Op>>,
    at: Timestamp,
) -> Result<AcceptOutcome, StoreError> {
    if let Some(refusal) = refusal {
        outbox::enqueue(tx, &refusal, at)?;
    }
    Ok(AcceptOutcome::Full)
}

/// The outcome for a message in the thread of another.
enum HoldOutcome {
    /// It needs no question.
    Unneeded,
    /// It is held.
    Held,
    /// Too many messages of its sender are held there.
    Full,
}

/// Holds the first message of a person in the thread of another, and asks whose conversation it is for.
fn hold_for_thread(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    room: &QueueLimits,
    (found, pepper): (Option<ConversationId>, [u8; 32]),
) -> Result<HoldOutcome, StoreError> {
    let (inbound, at) = (&arrival.inbound, arrival.at);
    let Some(question) = room.thread_question.as_ref().filter(|_| inbound.is_addressed()) else {
        return Ok(HoldOutcome::Unneeded);
    };
    if let Some(found) = found
        && conversation::has_turn_message(tx, found)?
    {
        return Ok(HoldOutcome::Unneeded);
    }
    let Some(owner) = thread::other_owner(tx, inbound)? else {
        return Ok(HoldOutcome::Unneeded);
    };
    let own = match found {
        Some(found) => found,
        None => conversation::create(tx, (inbound, &arrival.key), QueueKind::Command, None, pepper, at)?.id,
    };
    let held: u32 = tx
        .prepare_cached(
            "SELECT COUNT(*) FROM held_message JOIN inbox ON inbox.id = held_message.inbox WHERE inbox.conversation = ?1",
        )?
        .query_row([own.0], |row| row.get(0))?;
    if held as usize >= room.of_conversation_max {
        return Ok(HoldOutcome::Full);
    }
    let inbox = insert_answered(tx, arrival, own)?;
    held_message::insert(tx, inbox, inbound)?;
    let (ops, buttons) = question(&owner, own, inbox);
    outbox::enqueue(tx, &ops, at)?;
    action::insert(tx, &buttons)?;
    Ok(HoldOutcome::Held)
}

/// Inserts a message that needs no turn, because it answered a question or is held. Its content is elsewhere.
fn insert_answered(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    conversation: ConversationId,
) -> Result<InboxId, StoreError> {
    tx.prepare_cached(
        "INSERT INTO inbox (conversation, lane, inbound, accepted_at, done_at) VALUES (?1, ?2, '', ?3, ?3)",
    )?
    .execute(params![
        conversation.0,
        QueueKind::Turn.as_str(),
        millis(arrival.at)
    ])?;
    Ok(InboxId(tx.last_insert_rowid()))
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
