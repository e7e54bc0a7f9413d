//! `export`: sends a person their own conversation as a file, and an auditor any conversation. A file in a group would be
//! visible to others, so it is sent in the private chat only.

use super::{AcceptedCommand, CommandAnswer, CommandRunner, may_be_without_bot};
use crate::base::model::{Action, ConversationId, Inbound, Op, Reply, pluralize};
use crate::engine::gateway::compose::Address;
use crate::state::access::Identity;
use crate::state::recording::{self, ExportedRecording, RecordedEvent, SessionError};
use crate::state::store::{Conversation, ConversationReader, EXPORT, ExportOutcome};
use bytes::Bytes;
use std::sync::Arc;

/// The maximum number of bytes of an exported conversation. Older lines are left out.
const EXPORT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of conversations that are read at once. Further exports wait.
pub(super) const EXPORTS_AT_ONCE_MAX: usize = 2;
/// The answer for a conversation of another person, and for none.
const UNKNOWN: &str = "No such session. `!export` in the thread of your own conversation says what to write.";
/// The answer for a conversation without a turn.
const NOTHING: &str = "There is nothing to export in this conversation.";
/// The answer if a turn of an unknown repository could be of one without a grant.
const UNKNOWN_REPOSITORY: &str = "A part of this conversation does not say which repository it is about, and you have no \
                                  grant for every repository here. Nothing is exported; an administrator can read it \
                                  with `drydock session show`.";
/// The answer if the newest line alone is larger than a file may be.
const TOO_LONG: &str = "The newest line of this conversation is longer than 1 MiB, so it does not fit into a file, and \
                        nothing is exported. An administrator can read it with `drydock session show`.";
/// The answer while a file waits.
const WAITING: &str =
    "The file of your last export is not delivered yet, so nothing is exported. Ask again once you have it.";

impl CommandRunner {
    /// Sends the conversation, or the one that `arguments` names, to its person or to an auditor. An export is stored here
    /// with its record and its answer, so that the returned answer, which is empty then, changes nothing.
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
        let is_auditor = store.is_auditor(identity.user()).await?;
        let found = found.and_then(|found| {
            let by_right = || is_auditor.then(|| as_auditor(identity, &found));
            let reader = self.as_owner(identity, &found).or_else(by_right)?;
            Some((found, reader))
        });
        let Some((found, reader)) = found else {
            return Ok(answer(UNKNOWN));
        };
        let person = &asked.inbound.sender;
        if store.has_waiting_export(person).await? {
            return Ok(answer(WAITING));
        }
        // Held until the file is stored, because it takes memory as well.
        let _slot = self.export_slots.acquire().await?;
        let Some(exported) = self.read_recording(&found).await? else {
            return Ok(answer(NOTHING));
        };
        // An auditor reads what people did, whatever it is about.
        if reader == ConversationReader::Owner
            && let Some(why) = self.export_refusal(identity, &found, &exported).await?
        {
            return Ok(answer(&why));
        }
        if !asked.inbound.direct {
            return Ok(answer(&format!(
                "Others would see a file here. Write `!export {}` in our private chat, and I send it to you there.",
                found.id
            )));
        }
        if !is_own_chat(&asked.inbound) {
            return Ok(answer(&format!(
                "Others may see a file here, because a slash command does not say whose chat this is. Write `!export {}` as \
                 a message in our private chat, and I send it to you there.",
                found.id
            )));
        }
        if exported.records.is_empty() {
            return Ok(answer(TOO_LONG));
        }
        // The reading may have taken long.
        if identity.is_revoked() {
            return Ok(CommandAnswer::ops(Vec::new()));
        }
        let export = (found.id, exported.records.len());
        let ops = vec![
            address.post("answer", Reply::text(description(&found, &reader, &exported))),
            upload(address, &found, exported),
        ];
        let now = (self.parts.now)();
        let command = (asked.inbox, person);
        let stored = store.finish_export_command(command, export, reader, ops, now);
        Ok(match stored.await? {
            ExportOutcome::Stored => CommandAnswer::ops(Vec::new()),
            ExportOutcome::Waiting => answer(WAITING),
            ExportOutcome::Refused => answer(UNKNOWN),
        })
    }

    /// Returns the owner for a conversation of this person, with whichever account they write now. Nobody owns that of a hook.
    fn as_owner(&self, identity: &Identity, conversation: &Conversation) -> Option<ConversationReader> {
        let owner = &conversation.key.user;
        let admitted = self.parts.access.admit(owner);
        let is_own =
            owner == identity.sender() || admitted.is_some_and(|owner| owner.user() == identity.user());
        is_own.then_some(ConversationReader::Owner)
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
        let recorded = exported.records.iter().filter_map(|record| match &record.event {
            RecordedEvent::Began { repository, .. } => repository.as_ref(),
            RecordedEvent::Change { repository, .. } => Some(repository),
            _ => None,
        });
        let mut repositories = conversation.repository.iter().chain(recorded);
        if let Some(repository) = repositories.find(|repository| identity.role(repository).is_none()) {
            let why =
                format!("This conversation is about `{repository}`, and you have no grant for it any more.");
            return Ok(Some(why));
        }
        let mut configured = self.parts.config.repositories.keys();
        if has_unknown_repository(exported)
            && configured.any(|repository| identity.role(repository).is_none())
        {
            return Ok(Some(UNKNOWN_REPOSITORY.to_owned()));
        }
        if let Some(why) = self.parts.store.withheld(conversation.id).await? {
            let why = format!(
                "Edits in this conversation are withheld: {why}. Nothing is exported; `undo` removes the newest of them, \
                 `discard` all."
            );
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

fn as_auditor(identity: &Identity, conversation: &Conversation) -> ConversationReader {
    ConversationReader::Auditor {
        user: identity.user(),
        name: identity.name().to_owned(),
        owner: conversation.key.user.clone(),
    }
}

/// True if a turn does not say which repository it read: that of an older recording, or one whose first line is left out
/// or unreadable.
fn has_unknown_repository(exported: &ExportedRecording) -> bool {
    let is_unknown = |event: &RecordedEvent| {
        matches!(
            event,
            RecordedEvent::Began { repository: None, .. } | RecordedEvent::Unreadable { .. }
        )
    };
    let mut records = exported.records.iter();
    let begins = exported
        .records
        .first()
        .is_none_or(|first| matches!(first.event, RecordedEvent::Began { .. }));
    !begins || records.any(|record| is_unknown(&record.event))
}

/// True if a message was sent in the private chat of its person with the bot.
fn is_own_chat(inbound: &Inbound) -> bool {
    inbound.direct && !may_be_without_bot(inbound)
}

fn description(
    conversation: &Conversation,
    reader: &ConversationReader,
    exported: &ExportedRecording,
) -> String {
    let lines = pluralize(exported.records.len(), "line", "lines");
    let times = match (exported.records.first(), exported.records.last()) {
        (Some(first), Some(last)) => format!(", from {:.0} to {:.0}", first.at, last.at),
        (None, _) | (_, None) => String::new(),
    };
    let cut = match exported.is_cut {
        true => " Older lines are left out, because the file has at most 1 MiB.",
        false => "",
    };
    let owner = match reader {
        ConversationReader::Owner => String::new(),
        ConversationReader::Auditor { owner, .. } => format!(" of `{owner}`"),
    };
    format!(
        "Conversation {}{owner}: {lines} of JSON{times}. Known secrets are masked.{cut}",
        conversation.id
    )
}

fn upload(address: &Address, conversation: &Conversation, exported: ExportedRecording) -> Op {
    let file_name = format!("conversation-{}.jsonl", conversation.id);
    let action = Action::Upload {
        file_name,
        content: Bytes::from(exported.lines),
        caption: String::new(),
    };
    // The store gives an operation of this name no response URL, so the file is for the private chat alone.
    address.op(EXPORT, action)
}
