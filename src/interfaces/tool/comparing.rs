//! The context of the tools that compare a workspace with its base, or check a file by its uses.

use super::adapter::{ToolBody as _, stopped, unless_stopped};
use super::tanka_show::TankaShow;
use super::{Context, ToolError};
use crate::rendering::compare::{CompareError, Comparer, Sides};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The tool that renders an environment.
const SHOW: &str = TankaShow::NAME;

/// A function that reads both sides of a comparison. It may block.
type SidesReader = Arc<dyn Fn() -> Result<Sides, CompareError> + Send + Sync>;

/// The two sides of a workspace and their comparer.
pub(super) struct ComparingContext {
    /// The comparer.
    pub(super) comparer: Arc<Comparer>,
    /// Fires when the turn is stopped, and when it runs out of time.
    pub(super) cancel: CancellationToken,
    read_sides: SidesReader,
}

impl ComparingContext {
    /// Returns the context of calls that use this comparer.
    pub(super) fn with(comparer: &Arc<Comparer>) -> impl Fn(Context<'_>) -> Self + Send + Sync + 'static {
        let comparer = Arc::clone(comparer);
        move |cx| {
            let workspace = cx.workspace.clone();
            Self {
                comparer: Arc::clone(&comparer),
                cancel: cx.cancel.clone(),
                read_sides: Arc::new(move || Sides::from_workspace(&workspace)),
            }
        }
    }

    /// Reads the base and the workspace.
    pub(super) async fn sides(&self) -> Result<Sides, ToolError> {
        let read = Arc::clone(&self.read_sides);
        unless_stopped(&self.cancel, move || Ok(read()?)).await
    }
}

impl From<CompareError> for ToolError {
    fn from(err: CompareError) -> Self {
        match err {
            CompareError::Cancelled => stopped(),
            CompareError::Tanka(err) => err.into(),
            CompareError::Ignored(path) => Self::Failed(format!(
                "`{path}` is ignored by git, so there is no base to compare it with; `{SHOW}` renders it"
            )),
            other => Self::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Tests of these tools with calls as a model makes them, on plain JSON files.

    #![allow(clippy::unwrap_used)]

    use super::ComparingContext;
    use crate::base::model::{FileChange, RepoPath};
    use crate::base::redact::Redactor;
    use crate::interfaces::tool::ToolError;
    use crate::interfaces::tool::adapter::ToolBody;
    use crate::interfaces::tool::testing::call_async;
    use crate::rendering::compare::{Comparer, Sides};
    use crate::rendering::tanka::testing::{JsonEvaluator, ReadOnlyTree};
    use crate::state::workspace::Tree;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    pub(crate) async fn call<T: ToolBody<CallContext = ComparingContext>>(
        base: &[(&str, &str)],
        workspace: &[(&str, &str)],
        arguments: Value,
    ) -> Result<String, ToolError> {
        let names: BTreeSet<&str> = base.iter().chain(workspace).map(|(name, _)| *name).collect();
        let (base, workspace): (_, Arc<dyn Tree>) = (ReadOnlyTree::new(base), ReadOnlyTree::new(workspace));
        let changes = names.into_iter().map(|name| {
            let path = RepoPath::parse(name).unwrap();
            let (before, after) = (base.read(&path).ok(), workspace.read(&path).ok());
            FileChange { path, before, after }
        });
        let changes: Vec<FileChange> = changes.filter(|change| change.before != change.after).collect();
        let comparer = Comparer::new(
            Arc::new(JsonEvaluator::default()),
            Arc::new(Redactor::new([])),
            b"key".to_vec(),
        );
        let context = ComparingContext {
            comparer: Arc::new(comparer),
            cancel: CancellationToken::new(),
            read_sides: Arc::new(move || Sides::from_changes(Arc::clone(&workspace), changes.clone())),
        };
        call_async::<T>(&context, arguments).await
    }
}
