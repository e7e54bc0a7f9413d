//! `export`: sends a person their own conversation as a file. A file in a group would be visible to others, so it is sent in
//! the private chat only.

use super::{AcceptedCommand, CommandAnswer, CommandRunner};
use crate::base::model::{Action, ConversationId, Op, Reply, pluralize};
use crate::engine::gateway::compose::Address;
use crate::state::access::Identity;
use crate::state::recording::{self, ExportedRecording, RecordedEvent, SessionError};
use crate::state::store::Conversation;
use bytes::Bytes;
use std::sync::Arc;

/// The maximum number of bytes of an exported conversation. Older lines are left out.
const EXPORT_BYTES_MAX: usize = 1 << 20;
/// The answer to the id of a conversation of another person, and of none.
const UNKNOWN: &str =
    "You have no conversation of this name. `!export` in the thread of one says what to write.";
/// The answer to a person who joined the conversation of another.
const OF_ANOTHER: &str = "Only the person whose conversation this is can export it.";
/// The answer for a conversation without a turn.
const NOTHING: &str = "There is nothing to export in this conversation.";

impl CommandRunner {
    /// Sends the conversation, or the one that `arguments` names, to its person. An export is stored here with its record
    /// and its answer, so that the returned answer, which is empty then, changes nothing.
    pub(super) async fn export(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let answer = |text: &str| CommandAnswer::post(address, Reply::text(text));
        let store = &self.parts.store;
        let named = match arguments {
            "" => Some(conversation),
            which => store.find_conversation(which).await?,
        };
        let found = match named {
            Some(id) => Some(store.conversation(id).await?),
            None => None,
        };
        let Some(found) = found.filter(|found| self.is_own(identity, found)) else {
            return Ok(answer(match arguments {
                "" => OF_ANOTHER,
                _ => UNKNOWN,
            }));
        };
        let Some(exported) = self.read_recording(&found).await? else {
            return Ok(answer(NOTHING));
        };
        if let Some(why) = self.export_refusal(identity, &found, &exported).await? {
            return Ok(answer(&why));
        }
        if !asked.inbound.direct {
            return Ok(answer(&format!(
                "Others would see a file here. Write `!export {}` in our private chat, and I send it to you there.",
                found.id
            )));
        }
        // The reading may have taken long.
        if identity.is_revoked() {
            return Ok(CommandAnswer::ops(Vec::new()));
        }
        let export = (found.id, exported.records.len());
        let ops = vec![
            address.post("answer", Reply::text(description(&found, &exported))),
            upload(address, &found, exported),
        ];
        let now = (self.parts.now)();
        store.finish_export_command(asked.inbox, export, ops, now).await?;
        Ok(CommandAnswer::ops(Vec::new()))
    }

    /// True for a conversation of this person, with whichever account they write now. Nobody owns that of a hook.
    fn is_own(&self, identity: &Identity, conversation: &Conversation) -> bool {
        let owner = &conversation.key.user;
        let admitted = self.parts.access.admit(owner);
        owner == identity.sender() || admitted.is_some_and(|owner| owner.user() == identity.user())
    }

    /// Returns the newest lines of the recording of a conversation; `None` if there are none.
    async fn read_recording(&self, conversation: &Conversation) -> anyhow::Result<Option<ExportedRecording>> {
        let (config, session) = (Arc::clone(&self.parts.config), conversation.session.clone());
        let redactor = Arc::clone(&self.parts.redactor);
        let redact: recording::Redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        let reading = tokio::task::spawn_blocking(move || {
            recording::export(&config.data.directory, &session, &redact, EXPORT_BYTES_MAX)
        });
        match reading.await? {
            Ok(exported) if exported.records.is_empty() && !exported.is_cut => Ok(None),
            Ok(exported) => Ok(Some(exported)),
            Err(SessionError::Missing(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns why the files in a conversation may not be shown to its person any more.
    async fn export_refusal(
        &self,
        identity: &Identity,
        conversation: &Conversation,
        exported: &ExportedRecording,
    ) -> anyhow::Result<Option<String>> {
        let changed = exported.records.iter().filter_map(|record| match &record.event {
            RecordedEvent::Change { repository, .. } => Some(repository),
            _ => None,
        });
        let mut repositories = conversation.repository.iter().chain(changed);
        if let Some(repository) = repositories.find(|repository| identity.role(repository).is_none()) {
            let why =
                format!("This conversation is about `{repository}`, and you have no grant for it any more.");
            return Ok(Some(why));
        }
        let change = self.parts.store.current_change(conversation.id).await?;
        Ok(change.and_then(|change| {
            let why = identity.may_prepare(&change.repository, &change.needs).err()?;
            Some(format!(
                "{change} is prepared in this conversation: {why}. Nothing is exported; `discard` ends the change."
            ))
        }))
    }
}

fn description(conversation: &Conversation, exported: &ExportedRecording) -> String {
    let lines = pluralize(exported.records.len(), "line", "lines");
    let times = match (exported.records.first(), exported.records.last()) {
        (Some(first), Some(last)) => format!(", from {:.0} to {:.0}", first.at, last.at),
        (None, _) | (_, None) => String::new(),
    };
    let cut = match exported.is_cut {
        true => " Older lines are left out, because the file has at most 1 MiB.",
        false => "",
    };
    format!(
        "Conversation {}: {lines} of JSON{times}. Known secrets are masked.{cut}",
        conversation.id
    )
}

fn upload(address: &Address, conversation: &Conversation, exported: ExportedRecording) -> Op {
    let file_name = format!("conversation-{}.jsonl", conversation.id);
    let action = Action::Upload {
        file_name: file_name.clone(),
        content: Bytes::from(exported.lines),
        caption: String::new(),
    };
    // The file is for the private chat alone, also if it cannot be delivered there.
    Op {
        response_url: None,
        ..address.op(&file_name, action)
    }
}
