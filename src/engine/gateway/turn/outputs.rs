//! The outputs of a conversation in the store.

use crate::base::model::{ConversationId, OutputNumber};
use crate::interfaces::tool::Outputs;
use crate::state::store::Store;
use async_trait::async_trait;
use std::sync::Arc;

/// The outputs of one conversation. Its id comes from the claimed message, so no text can name another one.
pub(super) struct StoredOutputs {
    store: Store,
    conversation: ConversationId,
}

impl StoredOutputs {
    /// Returns the outputs of a conversation.
    pub(super) fn of_conversation(store: &Store, conversation: ConversationId) -> Arc<dyn Outputs> {
        Arc::new(Self {
            store: store.clone(),
            conversation,
        })
    }
}

impl std::fmt::Debug for StoredOutputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "outputs of conversation {}", self.conversation)
    }
}

#[async_trait]
impl Outputs for StoredOutputs {
    async fn text(&self, number: OutputNumber) -> anyhow::Result<Option<String>> {
        Ok(self.store.output(self.conversation, number).await?)
    }
}
