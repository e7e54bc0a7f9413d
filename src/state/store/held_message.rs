//! Messages that end with a question to their sender: which repository they mean, or whose conversation. The message is
//! done, and its content is kept. The press of a button stores the content as a new message, in the transaction that uses
//! the button, and removes it. So one of the buttons of a question counts, once.

use super::action::{self, NewAction, PressOutcome};
use super::claim::{Claim, check_fence};
use super::column::{json, millis, parse};
use super::command::apply_once;
use super::inbox::{self, QueueKind};
use super::{Store, StoreError, beginning, conversation, turn};
use crate::base::model::{ConversationId, Inbound, InboundKind, InboxId, Op, Sender};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

/// The outcome of the choice for a held message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "held", rename_all = "snake_case")]
pub enum ReleaseOutcome {
    /// The content waits for a turn as a new message.
    Released {
        /// The new row.
        message: InboxId,
    },
    /// The content is not held any more: a choice was made before, or it was too old.
    Gone,
}

impl Store {
    /// Ends the message of a claimed conversation with a question, and holds `content`. `question` are the operations that
    /// ask it and its buttons.
    pub async fn hold(
        &self,
        claim: &Claim,
        (inbox, content): (InboxId, Inbound),
        question: (Vec<Op>, Vec<NewAction>),
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let claim = *claim;
        self.write(move |tx| {
            check_fence(tx, claim)?;
            let (ops, buttons) = question;
            inbox::check_unfinished(tx, claim.conversation, inbox)?;
            insert(tx, inbox, &content)?;
            turn::dismiss(tx, claim, inbox, &ops, at)?;
            action::insert(tx, &buttons)
        })
        .await
    }

    /// Uses a button that answers the question of a held message: see [`choice_argument`]. A repeated run returns the first
    /// result.
    pub async fn press_choice(
        &self,
        token_hash: [u8; 32],
        by: &Sender,
        press: InboxId,
        at: Timestamp,
    ) -> Result<(PressOutcome, Option<ReleaseOutcome>), StoreError> {
        let by = by.clone();
        crash_point::before("effect");
        let pressed = self
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
                let (held, repository) = choice(argument);
                let outcome = apply_once(tx, press, || {
                    release(tx, held, repository, (*conversation, press), at)
                })?;
                Ok((pressed, Some(outcome)))
            })
            .await;
        crash_point::after("effect");
        pressed
    }

    /// Returns the content of a held message; `None` if it is not held any more.
    pub async fn held_message(&self, held: InboxId) -> Result<Option<Inbound>, StoreError> {
        self.read(move |tx| content(tx, held)).await
    }
}

/// Returns the argument of a button that answers the question of a held message, with the chosen repository if it chooses
/// one.
pub fn choice_argument(held: InboxId, repository: Option<&str>) -> String {
    match repository {
        Some(repository) => format!("{held} {repository}"),
        None => held.to_string(),
    }
}

/// Reads the argument of such a button.
pub fn choice(argument: &str) -> (InboxId, Option<&str>) {
    let (held, repository) = match argument.split_once(' ') {
        Some((held, repository)) => (held, Some(repository)),
        None => (argument, None),
    };
    // No message has the number 0.
    (InboxId(held.parse().unwrap_or(0)), repository)
}

/// Holds the content of a message that just ended.
pub(super) fn insert(tx: &Transaction<'_>, inbox: InboxId, inbound: &Inbound) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT INTO held_message (inbox, inbound) VALUES (?1, ?2)")?
        .execute(params![inbox.0, json(inbound)?])?;
    Ok(())
}

pub(super) fn content(tx: &Transaction<'_>, held: InboxId) -> Result<Option<Inbound>, StoreError> {
    tx.prepare_cached("SELECT inbound FROM held_message WHERE inbox = ?1")?
        .query_row([held.0], |row| row.get::<_, String>(0))
        .optional()?
        .map(|text| parse("message", &text))
        .transpose()
}

/// Stores a held message as a new message of a conversation, for a turn of its own. `press` is what chose it.
pub(super) fn release(
    tx: &Transaction<'_>,
    held: InboxId,
    repository: Option<&str>,
    (conversation, press): (ConversationId, InboxId),
    at: Timestamp,
) -> Result<ReleaseOutcome, StoreError> {
    let Some(mut inbound) = content(tx, held)? else {
        return Ok(ReleaseOutcome::Gone);
    };
    tx.prepare_cached("DELETE FROM held_message WHERE inbox = ?1")?
        .execute([held.0])?;
    if !conversation::has_turn_message(tx, conversation)? {
        beginning::remember(tx, conversation, &inbound, at)?;
    }
    inbound.delivery = vec![format!("choice:{press}")];
    // A person would write the same.
    if let (Some(repository), InboundKind::Text { text, .. }) = (repository, &mut inbound.kind) {
        *text = format!("{repository}: {text}");
    }
    conversation::add_pending(tx, conversation, &inbound, at)?;
    tx.prepare_cached(
        "INSERT INTO inbox (conversation, lane, inbound, accepted_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        conversation.0,
        QueueKind::Turn.as_str(),
        json(&inbound)?,
        millis(at)
    ])?;
    Ok(ReleaseOutcome::Released {
        message: InboxId(tx.last_insert_rowid()),
    })
}
