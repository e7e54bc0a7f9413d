//! Messages from one person to another, and the decisions of people about them. A message is stored with the step that
//! sends it, and bound to the message of its recipient whose turn reads it.
//!
//! A turn that sent a message and was cut short goes on after that step ([`super::retry`]), so nothing is sent twice.
//! Everything about a person is removed when the person is revoked.

use super::audit::audit_in;
use super::claim::{Claim, check_fence};
use super::column::{millis, parse_word, word};
use super::command::apply_once;
use super::people::GrantRow;
use super::turn::{check_open, record_step};
use super::{
    Conversation, Cost, NewAction, StepEffects, Store, StoreError, action, conversation, inbox, key, outbox,
    people,
};
use crate::base::model::{
    ConversationId, HistoryError, InboxId, MESSAGES_PER_HOUR_MAX, MESSAGES_WAITING_MAX, MessageConsent,
    MessageOutcome, Op, PersonMessage, Sender, Step, TurnId, UserId,
};
use crate::crash_point;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, Transaction, params};

/// Maximum number of decisions in one list.
const CONSENTS_LISTED_MAX: u32 = 50;

/// The reasons why a message is withdrawn.
const SENDER_BLOCKED: &str = "its sender was blocked";
const PERSON_REVOKED: &str = "its sender or its recipient was revoked";

/// A message to send, composed for its recipient.
#[derive(Clone, Debug)]
pub struct NewPersonMessage {
    /// The id of the call that sends it.
    pub call: String,
    /// The sender.
    pub sender: UserId,
    /// The recipient.
    pub recipient: UserId,
    /// The name of the recipient.
    pub recipient_name: String,
    /// The words, without secrets.
    pub text: String,
    /// The operations in the private chat of the recipient; none without such a chat.
    pub delivery: Option<MessageDelivery>,
}

/// The check whether the stored grants of a sender allow messages to other people.
pub type SendingCheck = Box<dyn Fn(&[GrantRow]) -> bool + Send>;

/// The operations for a message.
#[derive(Clone, Debug, Default)]
pub struct MessageDelivery {
    /// The operations that show the message.
    pub message: Vec<Op>,
    /// The operations that ask the recipient for consent instead. They show nothing of the message.
    pub request: Vec<Op>,
    /// The buttons of the request.
    pub buttons: Vec<NewAction>,
}

/// A message that a turn of its recipient reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The name of the sender.
    pub from: String,
    /// The words.
    pub text: String,
}

impl Store {
    /// Records a step like [`Store::record_step`], and sends its messages in the same transaction. The result of each call
    /// that sends is decided there. Returns the step with these results.
    pub async fn record_step_sending(
        &self,
        claim: &Claim,
        turn: TurnId,
        (step, cost): (&Step, &Cost),
        effects: StepEffects,
        (messages, may_send): (Vec<NewPersonMessage>, SendingCheck),
        at: Timestamp,
    ) -> Result<Step, StoreError> {
        let (claim, step, cost) = (*claim, step.clone(), cost.clone());
        self.write(move |tx| {
            let by = check_open(tx, claim, turn)?;
            let mut step = step;
            for message in &messages {
                let outcome = send(tx, (claim.conversation, by), (message, &may_send), at)?;
                step = with_outcome(step, message, outcome)?;
            }
            record_step(tx, (claim, turn), &step, &cost, effects, at)?;
            Ok(step)
        })
        .await
    }

    /// Stores the decision of a person about the messages of another one. Messages of a blocked sender that wait are
    /// removed, and those that are not delivered yet are withdrawn. `inbox` is the command or the click; a repeated run returns the first result.
    pub async fn decide_messages(
        &self,
        (recipient, account): (UserId, &Sender),
        sender: UserId,
        consent: MessageConsent,
        inbox: InboxId,
        at: Timestamp,
    ) -> Result<MessageConsent, StoreError> {
        let account = account.to_string();
        crash_point::before("effect");
        let decided = self
            .write(move |tx| {
                apply_once(tx, inbox, || {
                    decide(tx, (recipient, &account), sender, consent, at)?;
                    Ok(consent)
                })
            })
            .await;
        crash_point::after("effect");
        decided
    }

    /// Returns the decisions of a person, with the name of each sender.
    pub async fn message_consents(
        &self,
        recipient: UserId,
    ) -> Result<Vec<(String, MessageConsent)>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT users.name, state FROM message_consent JOIN users ON users.id = message_consent.sender
                 WHERE recipient = ?1 ORDER BY users.name, users.id LIMIT ?2",
            )?;
            let mut rows = statement.query(params![recipient.0, CONSENTS_LISTED_MAX])?;
            let mut consents = Vec::new();
            while let Some(row) = rows.next()? {
                consents.push((row.get(0)?, parse_word("consent", row.get(1)?)?));
            }
            Ok(consents)
        })
        .await
    }

    /// Binds the messages that wait for a person to their message `inbox`, and returns all that are bound to it, oldest
    /// first. A repeated run returns the same ones.
    pub async fn take_messages(
        &self,
        claim: &Claim,
        recipient: UserId,
        inbox: InboxId,
    ) -> Result<Vec<ReceivedMessage>, StoreError> {
        let claim = *claim;
        let waits = self.read(move |tx| {
            let waits = "SELECT 1 FROM person_message WHERE recipient = ?1 AND taken_by IS NULL";
            Ok(tx.prepare_cached(waits)?.exists([recipient.0])?)
        });
        if waits.await? {
            // If the power fails, the turn that reads them has not begun either.
            self.write_unsynced(move |tx| {
                check_fence(tx, claim)?;
                inbox::check_unfinished(tx, claim.conversation, inbox)?;
                tx.prepare_cached(
                    "UPDATE person_message SET taken_by = ?2 WHERE id IN (SELECT id FROM person_message
                       WHERE recipient = ?1 AND taken_by IS NULL ORDER BY id LIMIT ?3)",
                )?
                .execute(params![recipient.0, inbox.0, MESSAGES_WAITING_MAX])?;
                Ok(())
            })
            .await?;
        }
        self.taken_messages(inbox).await
    }

    /// Returns the messages that are bound to a message of their recipient, oldest first. Those of senders whom the
    /// recipient has blocked since then are left out.
    pub async fn taken_messages(&self, inbox: InboxId) -> Result<Vec<ReceivedMessage>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT users.name, text FROM person_message JOIN users ON users.id = person_message.sender
                 JOIN message_consent AS consent ON consent.recipient = person_message.recipient
                   AND consent.sender = person_message.sender AND consent.state = 'accepted'
                 WHERE taken_by = ?1 ORDER BY person_message.id",
            )?;
            let messages = statement.query_map([inbox.0], |row| {
                Ok(ReceivedMessage {
                    from: row.get(0)?,
                    text: row.get(1)?,
                })
            })?;
            Ok(messages.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns the private conversation in which a person wrote last, with any of their accounts.
    pub async fn private_conversation(&self, user: UserId) -> Result<Option<Conversation>, StoreError> {
        self.read(move |tx| {
            let mut newest: Option<(i64, i64)> = None;
            for sender in people::person(tx, user)?.senders {
                let (after, before) = key::person_key_range(&sender)?;
                let found: Option<(i64, i64)> = tx
                    .prepare_cached(
                        "SELECT COALESCE(spoken_at, created_at) AS at, id FROM conversation
                         WHERE key > ?1 AND key < ?2 AND direct = 1 ORDER BY at DESC, id DESC LIMIT 1",
                    )?
                    .query_row([after, before], |row| row.try_into())
                    .optional()?;
                newest = newest.max(found);
            }
            let newest = newest.map(|(_, id)| conversation::load(tx, ConversationId(id)));
            newest.transpose()
        })
        .await
    }
}

/// Returns the reason why an operation with a message between people must not be sent any more.
pub(super) fn reason_to_withdraw(tx: &Transaction<'_>, op: &str) -> Result<Option<&'static str>, StoreError> {
    let Some((sender, recipient)) = PersonMessage::people_of_operation(op) else {
        return Ok(None);
    };
    Ok(match consent(tx, recipient, sender)? {
        Some(MessageConsent::Accepted | MessageConsent::Asked) => None,
        Some(MessageConsent::Blocked) => Some(SENDER_BLOCKED),
        // Every operation has a decision, which a revocation removes.
        None => Some(PERSON_REVOKED),
    })
}

/// True if a turn of a message sent messages to other people.
pub(super) fn has_sent(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let sent = tx
        .prepare_cached("SELECT 1 FROM person_message WHERE sent_by = ?1")?
        .exists([inbox.0])?;
    Ok(sent)
}

/// Lets the messages wait again that are bound to a message which ends without a turn.
pub(super) fn release(tx: &Transaction<'_>, inbox: InboxId) -> Result<(), StoreError> {
    tx.prepare_cached(
        "UPDATE person_message SET taken_by = NULL WHERE taken_by = ?1
           AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.inbox = ?1)",
    )?
    .execute([inbox.0])?;
    Ok(())
}

/// Removes the messages from and to a person who is revoked, and all decisions by and about them.
pub(super) fn forget_person(tx: &Transaction<'_>, user: UserId) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM message_consent WHERE recipient = ?1",
        "DELETE FROM message_consent WHERE sender = ?1",
        "DELETE FROM person_message WHERE recipient = ?1",
        "DELETE FROM person_message WHERE sender = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([user.0])?;
    }
    Ok(())
}

/// Sends a message, or asks its recipient, and records that.
fn send(
    tx: &Transaction<'_>,
    (conversation, by): (ConversationId, InboxId),
    (message, may_send): (&NewPersonMessage, &SendingCheck),
    at: Timestamp,
) -> Result<MessageOutcome, StoreError> {
    let outcome = decide_outcome(tx, by, (message, may_send), at)?;
    let nothing = MessageDelivery::default();
    let delivery = message.delivery.as_ref().unwrap_or(&nothing);
    let event = match outcome {
        MessageOutcome::Sent => {
            tx.prepare_cached(
                "INSERT INTO person_message (sender, recipient, sent_by, text, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                message.sender.0,
                message.recipient.0,
                by.0,
                message.text,
                millis(at)
            ])?;
            outbox::enqueue(tx, &delivery.message, at)?;
            "message.sent"
        }
        MessageOutcome::Asked => {
            tx.prepare_cached(
                "INSERT INTO message_consent (recipient, sender, state, asked_at) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                message.recipient.0,
                message.sender.0,
                word(&MessageConsent::Asked)?,
                millis(at)
            ])?;
            action::insert(tx, &delivery.buttons)?;
            outbox::enqueue(tx, &delivery.request, at)?;
            "message.asked"
        }
        MessageOutcome::Repeated => return Ok(outcome),
        MessageOutcome::Undecided
        | MessageOutcome::Blocked
        | MessageOutcome::NoChat
        | MessageOutcome::TooMany
        | MessageOutcome::Full
        | MessageOutcome::Gone
        | MessageOutcome::Stopped
        | MessageOutcome::NotPermitted => "message.refused",
    };
    let data = serde_json::json!({
        "by_user": message.sender,
        "conversation": conversation,
        "message": by,
        "outcome": outcome,
        "to": message.recipient_name,
        "to_user": message.recipient,
    });
    audit_in(tx, event, data, at)?;
    Ok(outcome)
}

fn decide_outcome(
    tx: &Transaction<'_>,
    by: InboxId,
    (message, may_send): (&NewPersonMessage, &SendingCheck),
    at: Timestamp,
) -> Result<MessageOutcome, StoreError> {
    let is_stopped = inbox::is_stopped(tx, by)?;
    match people::current_grants(tx, message.sender)? {
        Some(grants) if !is_stopped && may_send(&grants) => {}
        Some(_) if !is_stopped => return Ok(MessageOutcome::NotPermitted),
        Some(_) | None => return Ok(MessageOutcome::Stopped),
    }
    if people::current_grants(tx, message.recipient)?.is_none_or(|grants| grants.is_empty()) {
        return Ok(MessageOutcome::Gone);
    }
    let consent = consent(tx, message.recipient, message.sender)?;
    match consent {
        Some(MessageConsent::Blocked) => return Ok(MessageOutcome::Blocked),
        Some(MessageConsent::Asked) => return Ok(MessageOutcome::Undecided),
        Some(MessageConsent::Accepted) if was_sent(tx, by, message)? => return Ok(MessageOutcome::Repeated),
        Some(MessageConsent::Accepted) | None => {}
    }
    if message.delivery.is_none() {
        return Ok(MessageOutcome::NoChat);
    }
    if recent(tx, message.sender, at)? >= MESSAGES_PER_HOUR_MAX {
        return Ok(MessageOutcome::TooMany);
    }
    if consent.is_none() {
        return Ok(MessageOutcome::Asked);
    }
    let waiting: u32 = tx
        .prepare_cached("SELECT COUNT(*) FROM person_message WHERE recipient = ?1 AND taken_by IS NULL")?
        .query_row([message.recipient.0], |row| row.get(0))?;
    Ok(match waiting >= MESSAGES_WAITING_MAX {
        true => MessageOutcome::Full,
        false => MessageOutcome::Sent,
    })
}

/// True if a turn of the same request sent the same message. The retries of a request are messages of their own.
fn was_sent(tx: &Transaction<'_>, by: InboxId, message: &NewPersonMessage) -> Result<bool, StoreError> {
    let sent = tx
        .prepare_cached(
            "WITH RECURSIVE request (id) AS (
               SELECT ?1 UNION SELECT turn.inbox FROM request JOIN inbox ON inbox.id = request.id
                 JOIN turn ON turn.id = inbox.retries)
             SELECT 1 FROM person_message WHERE sent_by IN (SELECT id FROM request) AND recipient = ?2 AND text = ?3",
        )?
        .exists(params![by.0, message.recipient.0, message.text])?;
    Ok(sent)
}

/// Returns the number of messages and requests for consent of a sender in the last hour.
fn recent(tx: &Transaction<'_>, sender: UserId, at: Timestamp) -> Result<u32, StoreError> {
    let since = at.checked_sub(SignedDuration::from_hours(1)).unwrap_or(at);
    let recent = tx
        .prepare_cached(
            "SELECT (SELECT COUNT(*) FROM person_message WHERE sender = ?1 AND at > ?2)
                  + (SELECT COUNT(*) FROM message_consent WHERE sender = ?1 AND asked_at > ?2)",
        )?
        .query_row(params![sender.0, millis(since)], |row| row.get(0))?;
    Ok(recent)
}

fn consent(
    tx: &Transaction<'_>,
    recipient: UserId,
    sender: UserId,
) -> Result<Option<MessageConsent>, StoreError> {
    let state: Option<String> = tx
        .prepare_cached("SELECT state FROM message_consent WHERE recipient = ?1 AND sender = ?2")?
        .query_row([recipient.0, sender.0], |row| row.get(0))
        .optional()?;
    state.map(|state| parse_word("consent", state)).transpose()
}

fn decide(
    tx: &Transaction<'_>,
    (recipient, account): (UserId, &str),
    sender: UserId,
    consent: MessageConsent,
    at: Timestamp,
) -> Result<(), StoreError> {
    let changed = tx
        .prepare_cached(
            "INSERT INTO message_consent (recipient, sender, state) VALUES (?1, ?2, ?3)
             ON CONFLICT (recipient, sender) DO UPDATE SET state = excluded.state WHERE state <> excluded.state",
        )?
        .execute(params![recipient.0, sender.0, word(&consent)?])?;
    let event = match consent {
        MessageConsent::Asked => return Ok(()),
        MessageConsent::Accepted => "message.accepted",
        MessageConsent::Blocked => {
            tx.prepare_cached(
                "DELETE FROM person_message WHERE recipient = ?1 AND sender = ?2
                   AND (taken_by IS NULL OR NOT EXISTS (SELECT 1 FROM turn WHERE turn.inbox = taken_by))",
            )?
            .execute([recipient.0, sender.0])?;
            let name = PersonMessage::operation_name(sender, recipient);
            outbox::withdraw(tx, &name, SENDER_BLOCKED, at)?;
            "message.blocked"
        }
    };
    if changed == 0 {
        return Ok(());
    }
    let from = people::person(tx, sender)?.name;
    let data = serde_json::json!({
        "by_user": recipient,
        "from": from,
        "from_user": sender,
        "sender": account,
    });
    audit_in(tx, event, data, at)
}

/// Returns the step with the result of the call that sent a message.
fn with_outcome(step: Step, message: &NewPersonMessage, outcome: MessageOutcome) -> Result<Step, StoreError> {
    let result = outcome.result(&message.recipient_name);
    let decided = match outcome.is_sent() {
        true => step.with_late_result(&message.call, PersonMessage::WAITING, &result),
        false => step.with_late_failure(&message.call, PersonMessage::WAITING, &result),
    };
    decided.map_err(|error: HistoryError| StoreError::Unreadable {
        what: "step",
        why: error.to_string(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
