//! The adapter of tools that compare a workspace with its base, or check a file by its uses.

use super::adapter::{escape_error, stopped};
use super::arguments::{ToolArguments, bind};
use super::rendering::RenderingTool as _;
use super::tanka_show::TankaShow;
use super::{Context, Tool, ToolError, invisible, schema};
use crate::compare::{CompareError, Comparer, Sides};
use crate::model::Effect;
use crate::provider::ToolSpec;
use crate::workspace::Workspace;
use async_trait::async_trait;
use serde_json::Value;
use std::marker::PhantomData;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The tool that renders an environment.
const SHOW: &str = TankaShow::NAME;

/// A read-only tool that compares.
#[async_trait]
pub(super) trait ComparingTool: Send + Sync + 'static {
    /// The arguments of the tool.
    type Arguments: ToolArguments;

    /// The name of the tool.
    const NAME: &'static str;
    /// The description for the model, in one or two sentences.
    const DESCRIPTION: &'static str;

    /// Runs one call.
    async fn run(
        comparer: &Arc<Comparer>,
        sides: Sides,
        arguments: Self::Arguments,
        cancel: &CancellationToken,
    ) -> Result<String, ToolError>;
}

/// An adapter from a [`ComparingTool`] to a [`Tool`].
pub(super) struct ComparingToolAdapter<C> {
    spec: ToolSpec,
    comparer: Arc<Comparer>,
    comparing: PhantomData<fn() -> C>,
}

impl<C: ComparingTool> ComparingToolAdapter<C> {
    /// Creates the tool and renders its schema.
    pub(super) fn new(comparer: Arc<Comparer>) -> Self {
        let spec = ToolSpec {
            name: C::NAME,
            description: C::DESCRIPTION,
            schema: schema::render::<C::Arguments>().into(),
        };
        Self {
            spec,
            comparer,
            comparing: PhantomData,
        }
    }
}

#[async_trait]
impl<C: ComparingTool> Tool for ComparingToolAdapter<C> {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn call(&self, cx: Context<'_>, arguments: Value) -> Result<String, ToolError> {
        let arguments = bind::<C::Arguments>(C::NAME, &self.spec.schema, arguments).map_err(escape_error)?;
        if cx.cancel.is_cancelled() {
            return Err(stopped());
        }
        let sides = sides(cx.workspace).await?;
        let answer = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Err(stopped()),
            answer = C::run(&self.comparer, sides, arguments, cx.cancel) => answer,
        };
        match answer {
            Ok(answer) => Ok(invisible::reveal(&answer).into_owned()),
            Err(err) => Err(escape_error(err)),
        }
    }
}

async fn sides(workspace: &Workspace) -> Result<Sides, ToolError> {
    let workspace = workspace.clone();
    match tokio::task::spawn_blocking(move || Sides::from_workspace(&workspace)).await {
        Ok(sides) => Ok(sides?),
        Err(err) => Err(ToolError::Fatal(
            anyhow::Error::new(err).context("a tool ended with an internal error"),
        )),
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

    use super::{ComparingTool, bind, escape_error, schema};
    use crate::compare::{Comparer, Sides};
    use crate::model::{FileChange, RepoPath};
    use crate::redact::Redactor;
    use crate::tanka::testing::{JsonEvaluator, ReadOnlyTree};
    use crate::tool::ToolError;
    use crate::workspace::Tree;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    pub(crate) async fn call<C: ComparingTool>(
        base: &[(&str, &str)],
        workspace: &[(&str, &str)],
        arguments: Value,
    ) -> Result<String, ToolError> {
        let schema = schema::render::<C::Arguments>();
        let arguments = bind::<C::Arguments>(C::NAME, &schema, arguments).map_err(escape_error)?;
        let names: BTreeSet<&str> = base.iter().chain(workspace).map(|(name, _)| *name).collect();
        let (base, workspace) = (ReadOnlyTree::new(base), ReadOnlyTree::new(workspace));
        let changes = names.into_iter().map(|name| {
            let path = RepoPath::parse(name).unwrap();
            let (before, after) = (base.read(&path).ok(), workspace.read(&path).ok());
            FileChange { path, before, after }
        });
        let changes = changes.filter(|change| change.before != change.after).collect();
        let comparer = Comparer::new(
            Arc::new(JsonEvaluator),
            Arc::new(Redactor::new([])),
            b"key".to_vec(),
        );
        let sides = Sides::from_changes(workspace, changes)?;
        C::run(&Arc::new(comparer), sides, arguments, &CancellationToken::new()).await
    }
}
