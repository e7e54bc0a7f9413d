//! The record of a conversation that was sent to its person as a file.

use super::audit::audit_in;
use super::{Store, StoreError, command};
use crate::base::model::{ConversationId, InboxId, Op};
use jiff::Timestamp;

impl Store {
    /// Marks a command as answered, enqueues its answers, which have so many lines of a conversation as a file, and records
    /// this in the audit log, in one transaction. A repeated call changes nothing.
    pub async fn finish_export_command(
        &self,
        inbox: InboxId,
        (conversation, lines): (ConversationId, usize),
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            if !command::finish(tx, inbox, &ops, at)? {
                return Ok(());
            }
            let data = serde_json::json!({ "command": inbox, "conversation": conversation, "lines": lines });
            audit_in(tx, "session.exported", data, at)
        })
        .await
    }
}
