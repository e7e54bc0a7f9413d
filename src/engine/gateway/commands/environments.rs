//! Commands about environments: list them, render one, show its differences, importers and risks. They read the
//! conversation's workspace, or the newest commit if there is none, and change nothing.

use super::{CommandRunner, ShuttingDown};
use crate::base::model::{Action, ConversationId, Op, Reply, ReplyPart, group_thousands};
use crate::engine::command::Command;
use crate::engine::gateway::choice::RepositoryChoiceError;
use crate::engine::gateway::compose::{Address, FILE_BYTES_MAX};
use crate::engine::gateway::turn::locked_out_text;
use crate::rendering::inspect::{AnswerDocument, InspectAnswer, InspectError, Inspector, Question};
use crate::state::access::Identity;
use crate::state::store::Conversation;
use crate::state::workspace::{Overlay, RepositoryError, Workspace, WorkspaceEdits};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The longest time of a command that evaluates files.
pub(super) const INSPECTION_TIME_MAX: Duration = Duration::from_secs(120);

/// The answer to a question about environments.
pub(super) enum LookedInto {
    /// The operations that show the answer.
    Answered(Vec<Op>),
    /// The operations that say why there is none.
    Refused(Vec<Op>),
}

impl CommandRunner {
    /// Answers a command about environments. Ends early on a timeout or a stop.
    pub(super) async fn inspect(
        &self,
        command: Command<'_>,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        let said = |text: &str| Ok(self.posts(address, &Reply::text(text)));
        let row = self.parts.store.conversation(conversation).await?;
        let (name, words) =
            match self
                .parts
                .resolve_repository(identity, &address.channel, &row, command.arguments)
            {
                Ok(chosen) => chosen,
                Err(why) => return said(&how_to_choose(command, &why)),
            };
        let question = match command.verb.question(&words) {
            Some(Ok(question)) => question,
            Some(Err(missing)) => return said(&missing.hint("")),
            // `diff infra:` names no environment.
            None => return self.diff(&words, address, identity, conversation).await,
        };
        let edits = match row.repository.as_deref() == Some(&name) {
            true => self.parts.store.edits(row.id).await?,
            false => WorkspaceEdits::new(),
        };
        let looking = self.look_into((&name, edits), &question, &row, address, identity);
        let looked = Box::pin(looking).await?;
        Ok(match looked {
            LookedInto::Answered(ops) | LookedInto::Refused(ops) => ops,
        })
    }

    /// Answers a question about the environments of a repository with these edits of a conversation.
    pub(super) async fn look_into(
        &self,
        (name, edits): (&str, WorkspaceEdits),
        question: &Question,
        row: &Conversation,
        address: &Address,
        identity: &Identity,
    ) -> anyhow::Result<LookedInto> {
        let said = |text: &str| Ok(LookedInto::Refused(self.posts(address, &Reply::text(text))));
        let Some(inspection) = self.inspections.begin(row.id, identity.user()) else {
            return said("Too many queries about environments are running. Try again when one has ended.");
        };
        let looking = self.run_inspection(name, row, edits, question, &inspection.stop);
        let looked = tokio::select! {
            biased;
            () = inspection.stop.cancelled() => Err(InspectError::Cancelled),
            () = identity.wait_until_locked_out(name) => Err(InspectError::NoAnswer(locked_out_text(identity, name))),
            looked = looking => looked,
            () = self.shutdown.cancelled() => return Err(ShuttingDown.into()),
            () = tokio::time::sleep(INSPECTION_TIME_MAX) => {
                let seconds = INSPECTION_TIME_MAX.as_secs();
                Err(InspectError::NoAnswer(format!("It took more than {seconds} s, so I stopped.")))
            }
        };
        match looked {
            Ok(answer) => Ok(LookedInto::Answered(self.shown(address, row, answer))),
            Err(InspectError::NoAnswer(why) | InspectError::Fails { why, .. }) => said(&why),
            Err(InspectError::Cancelled) => said("Stopped."),
        }
    }

    async fn run_inspection(
        &self,
        name: &str,
        conversation: &Conversation,
        edits: WorkspaceEdits,
        question: &Question,
        stop: &CancellationToken,
    ) -> Result<InspectAnswer, InspectError> {
        let workspace = self.workspace(name, conversation, edits).await;
        let workspace = workspace.map_err(|error| InspectError::NoAnswer(error.to_string()))?;
        let inspector = Inspector {
            workspace: &workspace,
            comparer: &self.parts.comparer,
            cancel: stop,
        };
        inspector.answer(question).await
    }

    /// Opens the workspace that a turn would start with: the edits on their base, or the newest commit without edits.
    async fn workspace(
        &self,
        name: &str,
        conversation: &Conversation,
        edits: WorkspaceEdits,
    ) -> Result<Workspace, RepositoryError> {
        let repositories = &self.parts.repositories;
        let bound = conversation.base.clone().filter(|_| !edits.is_empty());
        let base = match bound {
            Some(base) => base,
            None => repositories.head(name).await?,
        };
        let loaded = repositories.base(name, &base).await?;
        Ok(Workspace {
            repository: repositories.get(name).await?,
            base: Some(base),
            tree: Arc::new(Overlay::new(loaded, edits)),
            guard: self.parts.guard(),
        })
    }

    /// Returns the answer. A small document is shown in the message, and a large one is sent as a file.
    fn shown(&self, address: &Address, conversation: &Conversation, answer: InspectAnswer) -> Vec<Op> {
        let InspectAnswer {
            summary, document, ..
        } = answer;
        let reply = Reply::text(&summary);
        let Some(document) = document else {
            return self.posts(address, &reply);
        };
        if document.text.len() <= self.parts.config.limits.inline_diff_bytes_max {
            let code = ReplyPart::Code {
                language: document.language.to_owned(),
                text: document.text.clone(),
            };
            let whole = reply.clone().with(code);
            if !self.is_long(address, &whole) {
                return self.posts(address, &whole);
            }
        }
        let bytes = group_thousands(document.text.len() as u64);
        let place = match address.ephemeral_to {
            // A file cannot be ephemeral, so it goes to the thread of its conversation.
            Some(_) => Some(conversation.key.place.clone()).filter(|place| place.thread.is_some()),
            None => Some(address.place.clone()),
        };
        let note = |text: String| self.posts(address, &reply.clone().with(ReplyPart::Text { text }));
        let Some(place) = place.filter(|_| document.text.len() <= FILE_BYTES_MAX) else {
            return note(match document.text.len() <= FILE_BYTES_MAX {
                true => format!(
                    "The full result has {bytes} bytes and needs a file, and I cannot show a file to you alone. Ask \
                     in a thread, with `!` before the command."
                ),
                false => format!("The full result has {bytes} bytes, too many for a file in a chat."),
            });
        };
        let mut ops = note(format!(
            "The full result has {bytes} bytes; it follows as `{}`.",
            document.file_name
        ));
        let address = Address {
            place,
            ..address.clone()
        };
        ops.push(upload(&address, document, &summary));
        ops
    }
}

fn upload(address: &Address, document: AnswerDocument, summary: &str) -> Op {
    let AnswerDocument { file_name, text, .. } = document;
    let action = Action::Upload {
        file_name: file_name.clone(),
        content: Bytes::from(text),
        caption: summary.lines().next().unwrap_or_default().to_owned(),
    };
    address.op(&file_name, action)
}

fn how_to_choose(command: Command<'_>, why: &RepositoryChoiceError) -> String {
    match why {
        RepositoryChoiceError::NoGrant => {
            "You have no grant for a repository here; ask an administrator for one.".to_owned()
        }
        RepositoryChoiceError::Ambiguous(names) => {
            let example = names.first().map_or("", String::as_str);
            let line = format!("{} {example}: {}", command.verb.word(), command.arguments);
            format!(
                "Which repository? Name one of `{}` first, as in `{}`.",
                names.join("`, `"),
                line.trim_end()
            )
        }
    }
}
