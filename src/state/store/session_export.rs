//! Conversations that are sent to their person as a file. The outbox keeps operations for a while, so the content of these
//! is replaced as soon as they are delivered or given up.

use super::audit::audit_in;
use super::column::{json, parse};
use super::{Store, StoreError, command};
use crate::base::model::{Action, ConversationId, InboxId, Op, Reply, Sender};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The name of an operation that sends a conversation as a file. Those of its fallbacks begin with it and a slash.
pub const EXPORT: &str = "export";
/// The text in the place of a file.
const FORGOTTEN: &str = "This exported conversation is not kept here. `export` sends it again.";

impl Store {
    /// Marks a command as answered, enqueues its answers, which have so many lines of a conversation as a file, and records
    /// this in the audit log, in one transaction. A repeated call changes nothing. Returns false, and changes nothing, if
    /// an earlier file of the person is not delivered yet.
    pub async fn finish_export_command(
        &self,
        (inbox, person): (InboxId, &Sender),
        (conversation, lines): (ConversationId, usize),
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let person = person.clone();
        self.write(move |tx| {
            if is_waiting(tx, &person)? {
                return Ok(false);
            }
            if command::finish(tx, inbox, &ops, at)? {
                let data =
                    serde_json::json!({ "command": inbox, "conversation": conversation, "lines": lines });
                audit_in(tx, "session.exported", data, at)?;
            }
            Ok(true)
        })
        .await
    }

    /// True if a file of an earlier export of a person is not delivered yet.
    pub async fn has_waiting_export(&self, person: &Sender) -> Result<bool, StoreError> {
        let person = person.clone();
        self.read(move |tx| is_waiting(tx, &person)).await
    }
}

fn is_waiting(tx: &Transaction<'_>, person: &Sender) -> Result<bool, StoreError> {
    let is_waiting = tx
        .prepare_cached(
            "SELECT 1 FROM outbox INDEXED BY outbox_open
             JOIN inbox ON inbox.id = CAST(substr(outbox.op, 7) AS INTEGER)
             JOIN conversation ON conversation.id = inbox.conversation
             WHERE outbox.done_at IS NULL AND outbox.op GLOB 'inbox-*/' || ?1 || '*' AND conversation.sender = ?2",
        )?
        .exists(params![EXPORT, json(person)?])?;
    Ok(is_waiting)
}

/// True for an operation that sends a conversation as a file, and for its fallbacks.
pub(super) fn is_export(op: &str) -> bool {
    op.starts_with("inbox-") && op.split('/').nth(1) == Some(EXPORT)
}

/// Replaces the content of an operation if it sends a conversation.
pub(super) fn forget(tx: &Transaction<'_>, op: &str) -> Result<(), StoreError> {
    if !is_export(op) {
        return Ok(());
    }
    let body: Option<String> = tx
        .prepare_cached("SELECT body FROM outbox WHERE op = ?1")?
        .query_row([op], |row| row.get(0))
        .optional()?;
    let Some(body) = body else { return Ok(()) };
    let mut sent: Op = parse("operation", &body)?;
    sent.action = Action::Post {
        reply: Reply::text(FORGOTTEN),
        reply_to: None,
        placeholder: false,
    };
    tx.prepare_cached("UPDATE outbox SET body = ?2 WHERE op = ?1")?
        .execute(params![op, json(&sent)?])?;
    Ok(())
}
