//! Slash commands of their own that start pipelines, such as `/review 7`. Their answers are for the person alone, and reach
//! them also where the bot is not in the chat.

use super::{AcceptedCommand, CommandAnswer, CommandRunner};
use crate::base::model::{ChatPlace, InboundKind, Reply, quoted};
use crate::engine::gateway::choice::RepositoryChoiceError;
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::runs::{SlashRequest, is_slash_command, unknown_command};
use crate::state::access::Identity;
use crate::state::store::RunCreation;
use tokio_util::sync::CancellationToken;

/// Returns the command with the words after it, if it is one that starts a pipeline.
pub(super) fn of_pipelines(kind: &InboundKind) -> Option<(&str, &str)> {
    match kind {
        InboundKind::Command { verb, arguments } if is_slash_command(verb) => {
            Some((verb.as_str(), arguments.as_str()))
        }
        _ => None,
    }
}

impl CommandRunner {
    /// Starts the pipeline that has this slash command.
    pub(super) async fn start_by_command(
        &self,
        (command, words): (&str, &str),
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
    ) -> anyhow::Result<CommandAnswer> {
        let store = &self.parts.store;
        // It may have been started before a restart.
        if let Some(created) = store.run_of_command(asked.inbox).await? {
            return self.begun_by_command(created, command, (address, identity)).await;
        }
        let refused = |why: String| Ok(self.posted(address, Reply::text(why)));
        let conversation = store.conversation(asked.conversation).await?;
        let channel = &asked.inbound.channel;
        let chosen = self
            .parts
            .resolve_repository(identity, channel, &conversation, words);
        let (repository, words) = match chosen {
            Ok(chosen) => chosen,
            Err(RepositoryChoiceError::NoGrant) => return refused(unknown_command(command)),
            Err(RepositoryChoiceError::Ambiguous(names)) => {
                return refused(format!(
                    "Which repository? Write its name and a colon after the command, as in `{command} infra: …`; you have \
                     {}.",
                    names.join(", ")
                ));
            }
        };
        let request = SlashRequest {
            command,
            words: &words,
        };
        let (runs, repository) = (&self.runs, repository.as_str());
        let planning = |place: (String, ChatPlace), stop: CancellationToken| async move {
            let planning = runs.planned_by_command(identity, repository, request, place, &stop);
            Box::pin(planning).await
        };
        let created = self
            .create_run((asked, asked.conversation), (identity, repository), planning)
            .await?;
        match created {
            Ok(created) => self.begun_by_command(created, command, (address, identity)).await,
            Err(why) => refused(why),
        }
    }

    /// Returns the answer about a run that was started.
    async fn begun_by_command(
        &self,
        created: RunCreation,
        command: &str,
        (address, identity): (&Address, &Identity),
    ) -> anyhow::Result<CommandAnswer> {
        let text = match created {
            RunCreation::Created(run) => {
                let command = quoted(command);
                format!(
                    "{command} is run {run}; its result comes here, to you alone. `!runs show {run}` shows its steps."
                )
            }
            other => self.not_started(other, identity).await?,
        };
        Ok(self.posted(address, Reply::text(text)))
    }
}
