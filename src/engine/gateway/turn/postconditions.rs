//! The conditions that a workspace must meet before a turn ends as done. The change is prepared exactly as it will be
//! sent.

use super::OpenedTurn;
use crate::engine::agent::Postconditions;
use crate::engine::agent::prompt;
use crate::engine::gateway::change_preparation::{ChangeTarget, PreparedChange, prepare_change};
use crate::engine::gateway::parts::Parts;
use crate::rendering::change_checks::CheckOutcome;
use crate::rendering::compare::CompareProgress;
use crate::state::store::StoreError;
use crate::state::workspace::WorkspaceEdits;
use async_trait::async_trait;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The latest prepared change and the edits it belongs to.
// Held only to take or put the value.
#[derive(Default)]
pub(super) struct LatestPreparation(Mutex<Option<(WorkspaceEdits, Option<PreparedChange>)>>);

/// The preparation of a turn's change, reusable within the turn.
pub(super) struct ChangePreparer<'a> {
    pub(super) parts: &'a Parts,
    pub(super) opened: &'a OpenedTurn,
    pub(super) latest: &'a LatestPreparation,
}

impl ChangePreparer<'_> {
    /// Returns the change of the current workspace, unless the turn can have none. It is prepared again only after edits.
    pub(super) async fn change(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<PreparedChange>> {
        let edits = self.opened.overlay.edits();
        // Who may only ask has edited nothing, and the prepared change is that of somebody else.
        if edits.is_empty() || self.opened.only_asks.is_some() {
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
        let comparer = &self.parts.comparer;
        let prepared = prepare_change(comparer, workspace, onto, &request, progress, stop).await?;
        *self.latest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((edits, prepared.clone()));
        Ok(prepared)
    }

    /// Returns all messages of the person in this conversation, newest last. They show what was requested. Quotes and
    /// event data are not requests.
    async fn request(&self) -> Result<String, StoreError> {
        let said = self
            .parts
            .store
            .user_messages(self.opened.conversation.id)
            .await?;
        let own: Vec<String> = said.iter().map(|text| prompt::own_words(text)).collect();
        Ok(own.join("\n"))
    }
}

/// Returns the failed condition for a change that the person may not see.
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
