//! The commands of a person who joined a conversation and may only ask there.

use super::{AcceptedCommand, CommandRunner, pressed_at, stopped_message};
use crate::base::model::{ConversationId, Reply};
use crate::engine::command::{Command, Verb};
use crate::engine::gateway::joined::ConversationRights;
use crate::state::access::Identity;
use crate::state::store::StopTarget;

impl CommandRunner {
    /// Returns the answer to a command that touches nothing of the others: `status`, or a `stop` of a turn of this person.
    /// `None` for any other command, and for a person who may not ask.
    pub(super) async fn answer_to_asker(
        &self,
        command: Command<'_>,
        asked: &AcceptedCommand,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Option<Reply>> {
        if !matches!(command.verb, Verb::Status | Verb::Stop) {
            return Ok(None);
        }
        let store = &self.parts.store;
        let row = store.conversation(conversation).await?;
        let rights = self.parts.conversation_rights(identity, &row).await?;
        if !matches!(rights, ConversationRights::Questions(_)) {
            return Ok(None);
        }
        if command.verb == Verb::Status {
            return Ok(Some(self.status(asked, identity, conversation).await?));
        }
        let meant = match (stopped_message(command.arguments), pressed_at(command.arguments)) {
            (Some(message), _) => StopTarget::Message(message),
            (None, Some(pressed)) => StopTarget::BegunAt(pressed),
            (None, None) => StopTarget::Oldest,
        };
        // Exactly this message is stopped: the turn of another person may begin meanwhile.
        match store
            .own_message_to_stop(conversation, asked.inbox, meant, identity.user())
            .await?
        {
            Some(message) => Ok(Some(self.stop_message(asked, conversation, message).await?)),
            None => Ok(None),
        }
    }
}
