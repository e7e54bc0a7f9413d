//! The record of a conversation that was sent to its person as a file.

use super::audit::audit_in;
use super::{Store, StoreError, command};
use crate::base::model::{ConversationId, InboxId, Op};
use jiff::Timestamp;

/// A conversation that an answer has as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExport {
    /// The conversation.
    pub conversation: ConversationId,
    /// The number of lines in the file.
    pub lines: usize,
}

impl Store {
    /// Marks a command as answered, enqueues its answers and records the export in the audit log, in one transaction. A
    /// repeated call changes nothing.
    pub async fn finish_export_command(
        &self,
        inbox: InboxId,
        export: SessionExport,
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            if !command::finish(tx, inbox, &ops, at)? {
                return Ok(());
            }
            let SessionExport { conversation, lines } = export;
            let data = serde_json::json!({ "command": inbox, "conversation": conversation, "lines": lines });
            audit_in(tx, "session.exported", data, at)
        })
        .await
    }
}
