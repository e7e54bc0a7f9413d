//! The recordings and the stored data, for operators.

use super::{Admin, AdminError, AdminReply};
use crate::engine::gateway::RoundStart;
use crate::state::recording;
use crate::state::store::Prune;

impl Admin {
    pub(super) async fn session(&self, which: &str) -> Result<AdminReply, AdminError> {
        let found = self.store.find_conversation(which).await?;
        let id = found.ok_or_else(|| AdminError::Other(format!("no session `{which}`")))?;
        let session = self.store.conversation(id).await?.session;
        let records =
            recording::read(&self.data, &session).map_err(|error| AdminError::Other(error.to_string()))?;
        let data = serde_json::json!({ "by": "operator", "conversation": id, "lines": records.len() });
        // The records are readable also while the store cannot be written, such as on a full disk.
        if let Err(error) = self.store.audit("session.exported", data, (self.now)()).await {
            tracing::warn!(%error, conversation = %id, "a recording is shown, but the audit log has no line about it");
        }
        Ok(AdminReply::Session { records })
    }

    pub(super) async fn holdings(&self) -> Result<AdminReply, AdminError> {
        let (kinds, database) = self.retention.holdings().await?;
        Ok(AdminReply::Data { kinds, database })
    }

    pub(super) async fn prune(&self, begin: RoundStart, prune: Prune) -> Result<AdminReply, AdminError> {
        let round = self.retention.run_requested(begin, prune, (self.now)()).await;
        let round = round.map_err(AdminError::Other)?;
        Ok(AdminReply::Pruned {
            pruned: round.pruned,
            failed: round.failed,
            is_done: round.is_done,
        })
    }
}
