//! `undo` and `discard`: they take edits of the conversation back, and replace or close its change.

use super::change::{NOTHING_PREPARED, invalid_name_reply, named, replaced_text};
use super::conversation::busy_reply;
use super::{AcceptedCommand, CommandAnswer, CommandRunner, Revision, ShuttingDown, is_passing};
use crate::base::model::{ConversationId, Op, Reply};
use crate::engine::command::Verb;
use crate::engine::gateway::change_preparation::{ChangeTarget, PreparedChange, prepare_change};
use crate::engine::gateway::compose::Address;
use crate::state::access::Identity;
use crate::state::store::{DiscardOutcome, UndoOutcome};
use crate::state::workspace::{Overlay, Workspace};
use anyhow::Context;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Number of crashes after which the result of an undo is no longer rendered. The rendering may have caused them.
const RENDERED_CRASHES_MAX: u32 = 2;

impl CommandRunner {
    /// Reverts the newest message that edited files. The remaining change is prepared again after the undo is stored. Does
    /// nothing if `arguments` names another change or none.
    pub(super) async fn undo(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let said = |text: &str| Ok(CommandAnswer::post(address, Reply::text(text)));
        let Ok(meant) = named(arguments) else {
            return Ok(CommandAnswer::post(
                address,
                invalid_name_reply(Verb::Undo, "undone"),
            ));
        };
        let undone = self
            .parts
            .store
            .undo(conversation, asked.inbox, meant, (self.parts.now)())
            .await?;
        // The undo is stored, so a waiting message can start now. It need not wait for the rendering.
        self.scheduler.wake();
        let snapshot = match undone {
            UndoOutcome::Busy => return Ok(CommandAnswer::post(address, busy_reply())),
            UndoOutcome::Nothing => return said("There is nothing to undo."),
            UndoOutcome::Later => {
                return said(
                    "Edits that are withheld came later, so nothing was undone. `undo` alone reverts the newest of them.",
                );
            }
            UndoOutcome::Another { name } => {
                let replaced = meant.zip(name.as_deref());
                let why = replaced.and_then(|(meant, name)| replaced_text(meant, name));
                return said(&why.unwrap_or_else(|| {
                    let meant = meant.map_or_else(|| "That change".to_owned(), |meant| meant.to_string());
                    format!(
                        "{meant} is not prepared here any more, so nothing is undone; `undo` alone reverts the newest \
                         edits."
                    )
                }));
            }
            UndoOutcome::Everything => {
                return said("Undone; the workspace equals the base again, and nothing is prepared.");
            }
            UndoOutcome::Newest { snapshot } => snapshot,
        };
        let prepared = self.prepare_at(asked, conversation, &snapshot).await;
        match prepared {
            Ok(prepared) => {
                let revision = Revision {
                    conversation,
                    identity: identity.clone(),
                    snapshot,
                    change: prepared.map(|prepared| prepared.change),
                    address: address.clone(),
                };
                Ok(CommandAnswer {
                    revision: Some(revision),
                    ..CommandAnswer::ops(Vec::new())
                })
            }
            Err(error) if is_passing(&error) => Err(error),
            Err(error) => Ok(self.unprepared_answer(address, &error)),
        }
    }

    /// Returns the answer to an undo whose remaining change cannot be prepared.
    pub(super) fn unprepared_answer(&self, address: &Address, error: &anyhow::Error) -> CommandAnswer {
        let reference = self
            .parts
            .log_internal_error(error, "preparing the edits that remain after an undo");
        let text = format!(
            "Undone. The remaining edits could not be prepared again, so `diff` and `patch` show the last prepared \
             change until the next one. (ref {reference})"
        );
        CommandAnswer::post(address, Reply::text(text))
    }

    /// Prepares the change of a conversation's workspace at a snapshot. Returns `None` if the snapshot equals the base.
    async fn prepare_at(
        &self,
        asked: &AcceptedCommand,
        conversation: ConversationId,
        snapshot: &str,
    ) -> anyhow::Result<Option<PreparedChange>> {
        let row = self.parts.store.conversation(conversation).await?;
        let (Some(repository), Some(base)) = (row.repository, row.base) else {
            return Ok(None);
        };
        let edits = self.parts.store.edits_of_snapshot(snapshot).await?;
        let repositories = &self.parts.repositories;
        let opening = async {
            let workspace = Workspace {
                repository: repositories.get(&repository).await?,
                tree: Arc::new(Overlay::new(repositories.base(&repository, &base).await?, edits)),
                base: Some(base),
                guard: self.parts.guard(),
            };
            anyhow::Ok((workspace, repositories.head(&repository).await?))
        };
        let time_max = self.parts.config.limits.turn.turn_time_max;
        let (workspace, head) = tokio::select! {
            opened = tokio::time::timeout(time_max, opening) => opened
                .with_context(|| format!("{repository} could not be opened within {} s", time_max.as_secs()))??,
            () = self.shutdown.cancelled() => return Err(ShuttingDown.into()),
        };
        let onto = ChangeTarget {
            head: &head,
            branch: repositories.branch(&repository),
        };
        let stop = CancellationToken::new();
        if asked.crashes >= RENDERED_CRASHES_MAX {
            stop.cancel();
        }
        let (comparer, mut progress) = (&self.parts.comparer, |_| {});
        tokio::select! {
            prepared = prepare_change(comparer, &workspace, onto, "", &mut progress, &stop) => prepared,
            () = self.shutdown.cancelled() => Err(ShuttingDown.into()),
        }
    }

    /// Discards the prepared change. Does nothing if `arguments` names another change or none. Returns the reply, and the
    /// operation that closes the tab of the change.
    pub(super) async fn discard(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        address: &Address,
        conversation: ConversationId,
    ) -> anyhow::Result<(Reply, Option<Op>)> {
        let Ok(meant) = named(arguments) else {
            return Ok((invalid_name_reply(Verb::Discard, "discarded"), None));
        };
        let store = &self.parts.store;
        let discarded = store
            .discard(conversation, asked.inbox, meant, (self.parts.now)())
            .await?;
        let closing = match &discarded {
            DiscardOutcome::Change { name: Some(change) } => {
                self.tab_closing(address, conversation, change).await?
            }
            DiscardOutcome::Change { name: None }
            | DiscardOutcome::Busy
            | DiscardOutcome::Nothing
            | DiscardOutcome::Another { .. } => None,
        };
        let reply = match discarded {
            DiscardOutcome::Busy => busy_reply(),
            DiscardOutcome::Nothing => Reply::text(NOTHING_PREPARED),
            DiscardOutcome::Another { name } => {
                let replaced = meant.zip(name.as_ref());
                if let Some(text) = replaced.and_then(|(meant, name)| replaced_text(meant, name)) {
                    return Ok((Reply::text(text), None));
                }
                let meant = meant.map_or_else(|| "That change".to_owned(), |meant| meant.to_string());
                let stays = name.unwrap_or_else(|| "what is edited here".to_owned());
                Reply::text(format!(
                    "{meant} is not prepared here any more, so nothing is discarded; `discard` removes {stays}."
                ))
            }
            DiscardOutcome::Change { name: Some(change) } => Reply::text(format!(
                "{change} is discarded; the workspace equals the base again."
            )),
            DiscardOutcome::Change { name: None } => {
                Reply::text("The edits are discarded; the workspace equals the base again.")
            }
        };
        Ok((reply, closing))
    }
}
