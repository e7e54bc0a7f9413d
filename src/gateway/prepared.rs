//! What a workspace differs from its base by: the patch, what it does to environments, and the checks.
//! All of it is made by us.

use super::Gateway;
use crate::compare::{Asked, CompareError, Sides, not_run};
use crate::model::Check;
use crate::store::NewChange;
use crate::verify::{self, Standing};
use crate::workspace::{Workspace, patch};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the environments of one change may take to be rendered.
const COMPARE_MAX: Duration = Duration::from_secs(120);
/// Characters of an answer that say what a change does to environments.
const EFFECTS_CHARS_MAX: usize = 1_500;

/// What a change is prepared for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Onto<'a> {
    /// The branch's newest commit.
    pub(super) head: &'a str,
    /// The branch.
    pub(super) branch: &'a str,
}

impl Gateway {
    /// What the workspace differs from its base, checked by us; `None` when it does not. `request` is what
    /// the person asked for, to tell what they did not ask for.
    pub(super) async fn prepared(
        &self,
        workspace: &Workspace,
        onto: Onto<'_>,
        request: &str,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Option<NewChange>> {
        let seen = workspace.clone();
        let sides = tokio::task::spawn_blocking(move || Sides::of(&seen)).await??;
        if sides.changes.is_empty() {
            return Ok(None);
        }
        let base = workspace.base.clone().unwrap_or_default();
        let standing = Standing {
            base: &base,
            head: onto.head,
            branch: onto.branch,
        };
        let mut checks = verify::checks(&sides.changes, standing, &self.parts.redactor);
        let patch = patch::write(&sides.changes);
        let (effects, rendered) = self.effects(sides, request, cancel).await;
        checks.extend(rendered);
        Ok(Some(NewChange {
            repository: workspace.repository.name().to_owned(),
            base,
            patch: patch.text,
            stats: patch.stats,
            checks,
            effects,
        }))
    }

    /// What a change does to environments, in words, and what was checked to find out.
    async fn effects(&self, sides: Sides, request: &str, cancel: &CancellationToken) -> (String, Vec<Check>) {
        let enough = cancel.child_token();
        let comparing = self.parts.comparer.compare(Asked::all(sides, request), &enough);
        let compared = match tokio::time::timeout(COMPARE_MAX, comparing).await {
            Ok(compared) => compared,
            Err(_) => {
                enough.cancel();
                Err(CompareError::Broken(format!(
                    "it took more than {} s",
                    COMPARE_MAX.as_secs()
                )))
            }
        };
        match compared {
            Ok(compared) => compared.told(EFFECTS_CHARS_MAX),
            Err(error) => {
                let why = error.to_string();
                (String::new(), vec![not_run(&self.parts.redactor.redact(&why))])
            }
        }
    }
}
