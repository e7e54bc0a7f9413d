//! The conditions a workspace must meet before a turn ends as done: the change is prepared as it would be sent, and sent as it was
//! prepared.

use super::Opened;
use crate::agent::{Finding, Postconditions};
use crate::compare::Progress;
use crate::gateway::Gateway;
use crate::gateway::prepared::{Onto, Prepared};
use crate::prompt;
use crate::store::StoreError;
use crate::workspace::Edits;
use async_trait::async_trait;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The change that was prepared last, and the edits it was prepared for.
// Held to take or to put.
#[derive(Default)]
pub(super) struct Latest(Mutex<Option<(Edits, Option<Prepared>)>>);

/// The change of a turn, as often as somebody asks for it.
pub(super) struct Preparing<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) opened: &'a Opened,
    pub(super) latest: &'a Latest,
}

impl Preparing<'_> {
    /// The change as the workspace is now; prepared anew only after edits.
    pub(super) async fn change(
        &self,
        progress: &mut (dyn FnMut(Progress) + Send),
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<Prepared>> {
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
        progress(Progress::default());
        let onto = Onto {
            head: &self.opened.head,
            branch: &self.opened.branch,
        };
        let (workspace, request) = (&self.opened.workspace, self.request().await?);
        let prepared = self
            .gateway
            .prepared(workspace, onto, &request, progress, stop)
            .await?;
        *self.latest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((edits, prepared.clone()));
        Ok(prepared)
    }

    /// Returns all that the person said in this conversation, newest last: what they may have asked for. What they quote, and what an event
    /// brings along, nobody asked for.
    async fn request(&self) -> Result<String, StoreError> {
        let said = self.gateway.parts.store.said(self.opened.conversation.id).await?;
        let own: Vec<String> = said.iter().map(|text| prompt::own_words(text)).collect();
        Ok(own.join("\n"))
    }
}

/// Returns the failed condition of a change that the person may not have.
fn ungranted(why: &str) -> String {
    format!("the grant covers the change: no, {why}")
}

#[async_trait]
impl Postconditions for Preparing<'_> {
    async fn look(
        &self,
        progress: &mut (dyn FnMut(Progress) + Send),
        cancel: &CancellationToken,
    ) -> anyhow::Result<Finding> {
        let Some(Prepared { change, finding }) = self.change(progress, cancel).await? else {
            return Ok(Finding::Unchanged);
        };
        let identity = &self.opened.identity;
        Ok(
            match (identity.may_prepare(&change.repository, &change.needs), finding) {
                (Ok(()), finding) => finding,
                (Err(why), Finding::Fail(failing)) => {
                    Finding::Fail([vec![ungranted(&why)], failing].concat())
                }
                (Err(why), Finding::Hold | Finding::Unchanged | Finding::Unknown(_)) => {
                    Finding::Fail(vec![ungranted(&why)])
                }
            },
        )
    }
}
