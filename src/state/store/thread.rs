//! Threads of group chats. The person whose conversation a thread began with may let others join that conversation. Their
//! messages then belong to it, and run with their own grants.

use super::action::{self, NewAction, PressOutcome};
use super::column::{json, millis, parse, time};
use super::command::apply_once;
use super::held_message::{self, ReleaseOutcome, choice};
use super::{Store, StoreError, audit_in, beginning, conversation};
use crate::base::model::{ChatPlace, ConversationId, Inbound, InboxId, Op, Sender};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The person whose conversation a thread began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadOwner {
    /// The conversation.
    pub conversation: ConversationId,
    /// The account of the person.
    pub sender: Sender,
}

/// A composer of the question to a person who writes in the thread of another. It gets the person's conversation and the
/// held message, and returns the operations that ask with their buttons. It runs within a transaction.
pub type ThreadQuestion =
    Arc<dyn Fn(&ThreadOwner, ConversationId, InboxId) -> (Vec<Op>, Vec<NewAction>) + Send + Sync>;

/// The outcome of the press with which a person lets another join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "join", rename_all = "snake_case")]
pub enum ThreadJoin {
    /// Nothing was done: the history may hold files of several repositories, and not everybody may read all of them.
    Mixed,
    /// The person joined, and their message waits for a turn.
    Joined {
        /// The account of the person.
        person: Sender,
        /// Their message.
        #[serde(default)]
        message: Option<InboxId>,
    },
    /// The person has chosen otherwise, or the message was too old.
    Gone,
}

impl Store {
    /// Returns the person whose conversation a thread began with, if that is somebody else who is still admitted.
    pub async fn other_thread_owner(&self, inbound: &Inbound) -> Result<Option<ThreadOwner>, StoreError> {
        let inbound = inbound.clone();
        self.read(move |tx| other_owner(tx, &inbound)).await
    }

    /// True if an account has joined the conversation of a thread.
    pub async fn is_thread_member(
        &self,
        conversation: ConversationId,
        member: &Sender,
    ) -> Result<bool, StoreError> {
        let member = member.clone();
        self.read(move |tx| {
            let is_member = "SELECT 1 FROM thread_member WHERE conversation = ?1 AND sender = ?2";
            Ok(tx
                .prepare_cached(is_member)?
                .exists(params![conversation.0, json(&member)?])?)
        })
        .await
    }

    /// Returns the accounts that have joined the conversation of a thread, with the times, in the order in which they did.
    pub async fn thread_members(
        &self,
        conversation: ConversationId,
    ) -> Result<Vec<(Sender, Timestamp)>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT sender, joined_at FROM thread_member WHERE conversation = ?1 ORDER BY joined_at, sender",
            )?;
            let mut rows = statement.query([conversation.0])?;
            let mut members = Vec::new();
            while let Some(row) = rows.next()? {
                let sender = parse("sender", &row.get::<_, String>(0)?)?;
                members.push((sender, time(row.get(1)?)?));
            }
            Ok(members)
        })
        .await
    }

    /// Answers a press of a button that is used by it, with buttons of its own. A repeated call changes nothing.
    pub async fn finish_offering_press(
        &self,
        inbox: InboxId,
        (ops, buttons): (Vec<Op>, Vec<NewAction>),
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| match super::command::finish(tx, inbox, &ops, at)? {
            true => action::insert(tx, &buttons),
            false => Ok(()),
        })
        .await
    }

    /// Uses the button with which the person of a thread lets the sender of a held message join. The message becomes one of
    /// the conversation. A repeated run returns the first result.
    pub async fn let_join(
        &self,
        token_hash: [u8; 32],
        by: &Sender,
        press: InboxId,
        at: Timestamp,
    ) -> Result<(PressOutcome, Option<ThreadJoin>), StoreError> {
        let by = by.clone();
        crash_point::before("effect");
        let joined = self
            .write(move |tx| {
                let pressed = action::take(tx, token_hash, &by, press, at)?;
                let PressOutcome::Counted {
                    argument,
                    conversation,
                    ..
                } = &pressed
                else {
                    return Ok((pressed, None));
                };
                let (held, _) = choice(argument);
                let joined = apply_once(tx, press, || join(tx, held, (*conversation, press), at))?;
                Ok((pressed, Some(joined)))
            })
            .await;
        crash_point::after("effect");
        joined
    }

    /// Ends the membership of an account in the conversation of a thread. Returns false if it was none. `inbox` is the
    /// press; a repeated run returns the first result.
    pub async fn end_membership(
        &self,
        conversation: ConversationId,
        member: &Sender,
        inbox: InboxId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let member = member.clone();
        self.write(move |tx| {
            apply_once(tx, inbox, || {
                let removed = tx
                    .prepare_cached("DELETE FROM thread_member WHERE conversation = ?1 AND sender = ?2")?
                    .execute(params![conversation.0, json(&member)?])?;
                if removed > 0 {
                    audit(tx, "thread.left", conversation, &member, at)?;
                }
                Ok(removed > 0)
            })
        })
        .await
    }
}

/// Records the conversation with which a thread begins, if it has none yet.
pub(super) fn begin(
    tx: &Transaction<'_>,
    inbound: &Inbound,
    conversation: ConversationId,
) -> Result<(), StoreError> {
    match inbound.direct {
        true => Ok(()),
        false => begin_at(tx, &inbound.place, conversation),
    }
}

/// Records the conversation with which a thread of a group begins, if it has none yet.
pub(super) fn begin_at(
    tx: &Transaction<'_>,
    place: &ChatPlace,
    conversation: ConversationId,
) -> Result<(), StoreError> {
    let Some(place) = owned_place(place)? else {
        return Ok(());
    };
    tx.prepare_cached(
        "INSERT INTO thread (place, conversation) VALUES (?1, ?2) ON CONFLICT (place) DO UPDATE SET conversation = ?2
         WHERE NOT EXISTS (SELECT 1 FROM conversation WHERE conversation.id = thread.conversation)",
    )?
    .execute(params![place, conversation.0])?;
    Ok(())
}

/// Returns the conversation that the sender of a message has joined in its thread.
pub(super) fn joined(tx: &Transaction<'_>, inbound: &Inbound) -> Result<Option<ConversationId>, StoreError> {
    let Some(place) = begun_place(inbound)? else {
        return Ok(None);
    };
    let joined = tx
        .prepare_cached(
            "SELECT conversation.id FROM thread_member
             JOIN conversation ON conversation.id = thread_member.conversation
             WHERE thread_member.place = ?1 AND thread_member.sender = ?2",
        )?
        .query_row(params![place, json(&inbound.sender)?], |row| {
            row.get(0).map(ConversationId)
        })
        .optional()?;
    Ok(joined)
}

/// Returns the person whose conversation a thread began with, if that is somebody else who is still admitted.
pub(super) fn other_owner(
    tx: &Transaction<'_>,
    inbound: &Inbound,
) -> Result<Option<ThreadOwner>, StoreError> {
    let Some(place) = begun_place(inbound)? else {
        return Ok(None);
    };
    let owner: Option<(i64, String)> = tx
        .prepare_cached(
            "SELECT conversation.id, conversation.sender FROM thread
             JOIN conversation ON conversation.id = thread.conversation
             JOIN identity ON identity.sender = conversation.sender
             JOIN users ON users.id = identity.user_id
             WHERE thread.place = ?1 AND users.revoked_at IS NULL AND users.id IS NOT
                 (SELECT own.user_id FROM identity AS own WHERE own.sender = ?2)",
        )?
        .query_row(params![place, json(&inbound.sender)?], |row| row.try_into())
        .optional()?;
    let owner = owner.map(|(conversation, sender)| {
        Ok::<_, StoreError>(ThreadOwner {
            conversation: ConversationId(conversation),
            sender: parse("sender", &sender)?,
        })
    });
    owner.transpose()
}

/// Ends all memberships in a conversation that goes on in another repository, which others may not be allowed to read.
pub(super) fn close_to_others(tx: &Transaction<'_>, conversation: ConversationId) -> Result<(), StoreError> {
    for sql in [
        "UPDATE conversation SET switched = 1 WHERE id = ?1",
        "DELETE FROM thread_member WHERE conversation = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([conversation.0])?;
    }
    Ok(())
}

fn is_mixed(tx: &Transaction<'_>, conversation: ConversationId) -> Result<bool, StoreError> {
    let is_mixed = "SELECT 1 FROM conversation WHERE id = ?1 AND switched = 1";
    Ok(tx.prepare_cached(is_mixed)?.exists([conversation.0])?)
}

/// Removes what is stored about the thread of a conversation that is removed.
pub(super) fn forget(tx: &Transaction<'_>, conversation: ConversationId) -> Result<(), StoreError> {
    let place = conversation::load(tx, conversation)?.key.place;
    let place = json(&place)?;
    for sql in [
        "DELETE FROM thread WHERE place = ?1 AND conversation = ?2",
        "DELETE FROM thread_member WHERE place = ?1 AND conversation = ?2",
    ] {
        tx.prepare_cached(sql)?.execute(params![place, conversation.0])?;
    }
    Ok(())
}

/// Returns the text of a thread that an earlier message may have begun; `None` for another place.
fn begun_place(inbound: &Inbound) -> Result<Option<String>, StoreError> {
    match inbound.begins_thread() {
        true => Ok(None),
        false => place_of(inbound),
    }
}

/// Returns the text of a thread that belongs to somebody; `None` for another place.
fn place_of(inbound: &Inbound) -> Result<Option<String>, StoreError> {
    match inbound.direct {
        true => Ok(None),
        false => owned_place(&inbound.place),
    }
}

fn owned_place(place: &ChatPlace) -> Result<Option<String>, StoreError> {
    let chat = place.account.platform.chat();
    let has_owner = place.thread.is_some() && chat.is_some_and(|chat| chat.threads_have_owners);
    match has_owner {
        true => json(place).map(Some),
        false => Ok(None),
    }
}

fn join(
    tx: &Transaction<'_>,
    held: InboxId,
    (conversation, press): (ConversationId, InboxId),
    at: Timestamp,
) -> Result<ThreadJoin, StoreError> {
    let Some(inbound) = held_message::content(tx, held)? else {
        return Ok(ThreadJoin::Gone);
    };
    let owner = other_owner(tx, &inbound)?;
    let is_theirs = owner.is_some_and(|owner| owner.conversation == conversation);
    let (Some(place), true) = (place_of(&inbound)?, is_theirs) else {
        return Ok(ThreadJoin::Gone);
    };
    // A conversation of their own, which another of their messages began, goes on.
    if let Some(own) = conversation::find(tx, &inbound.key())?
        && conversation::has_turn_message(tx, own)?
    {
        return Ok(ThreadJoin::Gone);
    }
    if is_mixed(tx, conversation)? {
        return Ok(ThreadJoin::Mixed);
    }
    tx.prepare_cached(
        "INSERT INTO thread_member (place, sender, conversation, joined_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (place, sender) DO UPDATE SET conversation = ?3, joined_at = ?4",
    )?
    .execute(params![place, json(&inbound.sender)?, conversation.0, millis(at)])?;
    beginning::remember(tx, conversation, &inbound, at)?;
    audit(tx, "thread.joined", conversation, &inbound.sender, at)?;
    match held_message::release(tx, held, None, (conversation, press), at)? {
        ReleaseOutcome::Released { message } => Ok(ThreadJoin::Joined {
            person: inbound.sender,
            message: Some(message),
        }),
        ReleaseOutcome::Gone => Ok(ThreadJoin::Gone),
    }
}

fn audit(
    tx: &Transaction<'_>,
    kind: &'static str,
    conversation: ConversationId,
    member: &Sender,
    at: Timestamp,
) -> Result<(), StoreError> {
    let data = serde_json::json!({ "conversation": conversation, "sender": member.to_string() });
    audit_in(tx, kind, data, at)
}
