//! The conditions a workspace must meet before a turn ends as done: the change is prepared as it would be sent, and sent as it was
//! prepared.

use super::OpenedTurn;
use crate::agent::{CheckOutcome, Postconditions};
use crate::compare::CompareProgress;
use crate::gateway::Gateway;
use crate::gateway::change_preparation::{ChangeTarget, PreparedChange};
use crate::prompt;
use crate::store::StoreError;
use crate::workspace::WorkspaceEdits;
use async_trait::async_trait;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The change that was prepared last, and the edits it was prepared for.
// Held to take or to put.
#[derive(Default)]
pub(super) struct LatestPreparation(Mutex<Option<(WorkspaceEdits, Option<PreparedChange>)>>);

/// The change of a turn, as often as somebody asks for it.
pub(super) struct ChangePreparer<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) opened: &'a OpenedTurn,
    pub(super) latest: &'a LatestPreparation,
}

impl ChangePreparer<'_> {
    /// The change as the workspace is now; prepared anew only after edits.
    pub(super) async fn change(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<PreparedChange>> {
        let edits = self.opened.overlay.edits();
        if edits.is_empty() {
            return Ok(None);
        }
        let known = self
            .latest
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((_, prepared)) = known.filter(|(seen, _)| *seen == edits) {
            return Ok(prepared);
        }
        progress(CompareProgress::default());
        let onto = ChangeTarget {
            head: &self.opened.head,
            branch: &self.opened.branch,
        };
        let (workspace, request) = (&self.opened.workspace, self.request().await?);
        let prepared = self
            .gateway
            .prepare_change(workspace, onto, &request, progress, stop)
            .await?;
        *self.latest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((edits, prepared.clone()));
        Ok(prepared)
    }

    /// Returns all that the person said in this conversation, newest last: what they may have asked for. What they quote, and what an event
    /// brings along, nobody asked for.
    async fn request(&self) -> Result<String, StoreError> {
        let said = self
            .gateway
            .parts
            .store
            .user_messages(self.opened.conversation.id)
            .await?;
        let own: Vec<String> = said.iter().map(|text| prompt::own_words(text)).collect();
        Ok(own.join("\n"))
    }
}

/// Returns the failed condition of a change that the person may not have.
fn ungranted(why: &str) -> String {
    format!("the grant covers the change: no, {why}")
}

#[async_trait]
impl Postconditions for ChangePreparer<'_> {
    async fn check(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> anyhow::Result<CheckOutcome> {
        let Some(PreparedChange { change, outcome }) = self.change(progress, cancel).await? else {
            return Ok(CheckOutcome::Unchanged);
        };
        let identity = &self.opened.identity;
        Ok(
            match (identity.may_prepare(&change.repository, &change.needs), outcome) {
                (Ok(()), outcome) => outcome,
                (Err(why), CheckOutcome::Failed(failing)) => {
                    CheckOutcome::Failed([vec![ungranted(&why)], failing].concat())
                }
                (Err(why), CheckOutcome::Passed | CheckOutcome::Unchanged | CheckOutcome::Incomplete(_)) => {
                    CheckOutcome::Failed(vec![ungranted(&why)])
                }
            },
        )
    }
}
