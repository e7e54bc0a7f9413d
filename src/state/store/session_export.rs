//! Conversations that are sent to their person as a file. The outbox keeps operations for a while, so the content of these
//! is replaced as soon as they are delivered or given up.

use super::audit::audit_in;
use super::column::{json, parse};
use super::people::is_auditor;
use super::{Store, StoreError, command};
use crate::base::model::{Action, ConversationId, InboxId, Op, Reply, Sender, UserId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The name of an operation that sends a conversation as a file. Those of its fallbacks begin with it and a slash.
pub const EXPORT: &str = "export";
/// The text in the place of a file.
const FORGOTTEN: &str = "This exported conversation is not kept here. `export` sends it again.";

/// The person who gets a conversation as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationReader {
    /// The person of the conversation.
    Owner,
    /// An auditor.
    Auditor {
        /// The auditor.
        user: UserId,
        /// The name of the auditor.
        name: String,
        /// The person of the conversation.
        owner: Sender,
    },
}

/// The outcome of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportOutcome {
    /// The export is stored, now or by an earlier call.
    Stored,
    /// Nothing is stored, because an earlier file of the person is not delivered yet.
    Waiting,
    /// Nothing is stored, because the person is no auditor any more.
    Refused,
}

impl Store {
    /// Marks a command as answered, enqueues its answers, which have so many lines of a conversation as a file, and records
    /// this in the audit log, in one transaction. A repeated call changes nothing.
    pub async fn finish_export_command(
        &self,
        (inbox, person): (InboxId, &Sender),
        (conversation, lines): (ConversationId, usize),
        reader: ConversationReader,
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<ExportOutcome, StoreError> {
        let person = person.clone();
        self.write(move |tx| {
            let mut data =
                serde_json::json!({ "command": inbox, "conversation": conversation, "lines": lines });
            if let ConversationReader::Auditor { user, name, owner } = &reader {
                if !is_auditor(tx, *user)? {
                    return Ok(ExportOutcome::Refused);
                }
                data["by"] = name.as_str().into();
                data["by_user"] = user.0.into();
                data["owner"] = owner.to_string().into();
            }
            if is_waiting(tx, &person)? {
                return Ok(ExportOutcome::Waiting);
            }
            if command::finish(tx, inbox, &ops, at)? {
                audit_in(tx, "session.exported", data, at)?;
            }
            Ok(ExportOutcome::Stored)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ConversationReader, ExportOutcome};
    use crate::base::model::{ConversationId, UserId};
    use crate::state::store::fixture::{at, command, fresh, person};
    use crate::state::store::people::{AuditorRight, add_person, revoke, set_auditor};

    /// T33
    #[tokio::test]
    async fn a_person_who_is_no_auditor_any_more_exports_nothing() {
        let (_directory, store) = fresh();
        let inbox = command(&store, "export 7", "1", 0).await;
        let grant = ("viewer".to_owned(), "*".to_owned(), vec!["**".to_owned()]);
        let user = store
            .write(move |tx| add_person(tx, "bob", "operator", &person("U1"), &grant, at(0)))
            .await
            .unwrap();
        let set = async |right| {
            let changed = store.write(move |tx| set_auditor(tx, user, right)).await;
            assert_eq!(changed, Ok(true));
        };
        let export = async |user: UserId| {
            let reader = ConversationReader::Auditor {
                user,
                name: "bob".to_owned(),
                owner: person("U2"),
            };
            let (sender, export) = (person("U1"), (ConversationId(7), 3));
            let finished = store.finish_export_command((inbox, &sender), export, reader, Vec::new(), at(1));
            finished.await.unwrap()
        };
        let audited = async || store.audit_lines(10).await.unwrap().len();
        let before = audited().await;
        assert_eq!(export(user).await, ExportOutcome::Refused);
        set(AuditorRight::Given).await;
        set(AuditorRight::Withdrawn).await;
        assert_eq!(export(user).await, ExportOutcome::Refused);
        set(AuditorRight::Given).await;
        assert_eq!(export(UserId(99)).await, ExportOutcome::Refused);
        assert_eq!(audited().await, before);
        // Twice, as after a restart between the answer and its record.
        assert_eq!(export(user).await, ExportOutcome::Stored);
        assert_eq!(export(user).await, ExportOutcome::Stored);
        assert_eq!(audited().await, before + 1);
        assert_eq!(store.is_auditor(user).await, Ok(true));
        store.write(move |tx| revoke(tx, user, at(2))).await.unwrap();
        assert_eq!(store.is_auditor(user).await, Ok(false));
        assert_eq!(export(user).await, ExportOutcome::Refused);
    }
}
