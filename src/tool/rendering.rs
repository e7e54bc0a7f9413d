//! The adapter of tools that render environments. It is like the other adapters, but awaits an evaluation instead of
//! blocking a thread.

use super::adapter::{escape_error, stopped};
use super::arguments::{ToolArguments, bind};
use super::tanka_find_environments::TankaFindEnvironments;
use super::{Context, Tool, ToolError, invisible, schema};
use crate::compare;
use crate::model::{Effect, quoted};
use crate::provider::ToolSpec;
use crate::tanka::{self, Evaluate, Renderer, TankaError};
use crate::workspace::{GuardedTree, Tree};
use async_trait::async_trait;
use serde_json::Value;
use std::marker::PhantomData;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The tool that lists environments.
const FIND: &str = TankaFindEnvironments::NAME;

/// A read-only tool that renders.
#[async_trait]
pub(super) trait RenderingTool: Send + Sync + 'static {
    /// The arguments of the tool.
    type Arguments: ToolArguments;

    /// The name of the tool.
    const NAME: &'static str;
    /// The description for the model, in one or two sentences.
    const DESCRIPTION: &'static str;

    /// Runs one call.
    async fn run(
        renderer: &Renderer,
        tree: &Arc<GuardedTree>,
        arguments: Self::Arguments,
        cancel: &CancellationToken,
    ) -> Result<String, ToolError>;
}

/// An adapter from a [`RenderingTool`] to a [`Tool`].
pub(super) struct RenderingToolAdapter<R> {
    spec: ToolSpec,
    evaluator: Arc<dyn Evaluate>,
    rendering: PhantomData<fn() -> R>,
}

impl<R: RenderingTool> RenderingToolAdapter<R> {
    /// Creates the tool and renders its schema.
    pub(super) fn new(evaluator: Arc<dyn Evaluate>) -> Self {
        let spec = ToolSpec {
            name: R::NAME,
            description: R::DESCRIPTION,
            schema: schema::render::<R::Arguments>().into(),
        };
        Self {
            spec,
            evaluator,
            rendering: PhantomData,
        }
    }
}

#[async_trait]
impl<R: RenderingTool> Tool for RenderingToolAdapter<R> {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn call(&self, cx: Context<'_>, arguments: Value) -> Result<String, ToolError> {
        let arguments = bind::<R::Arguments>(R::NAME, &self.spec.schema, arguments).map_err(escape_error)?;
        if cx.cancel.is_cancelled() {
            return Err(stopped());
        }
        let tree = cx.workspace.guarded_tree();
        let renderer = Renderer::new(Arc::clone(&tree) as Arc<dyn Tree>, Arc::clone(&self.evaluator));
        let answer = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Err(stopped()),
            answer = R::run(&renderer, &tree, arguments, cx.cancel) => answer,
        };
        match answer {
            Ok(answer) => Ok(invisible::reveal(&answer).into_owned()),
            Err(err) => Err(escape_error(err)),
        }
    }
}

impl From<TankaError> for ToolError {
    /// Converts the error. An invalid object is reported by its place, without its content, because it may be a
    /// secret. Advice names tools and their arguments instead of terminal commands.
    fn from(err: TankaError) -> Self {
        Self::Failed(match err {
            TankaError::Primitive { .. } | TankaError::Schema { .. } => compare::reason(&err),
            TankaError::NoMatch { path } => format!(
                "found no matching environments; `{FIND}` lists what is below {}",
                quoted(&path)
            ),
            TankaError::NotFound { path } => format!(
                "found no matching environments; `{FIND}` lists what there is.\n{}",
                tanka::not_found_message(&path)
            ),
            err @ TankaError::Ambiguous { .. } => err.to_string().replacen("`--name`", "`name`", 1),
            err => err.to_string(),
        })
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Tests of rendering tools with calls as a model makes them, on plain JSON files.

    #![allow(clippy::unwrap_used)]

    use super::{RenderingTool, bind, escape_error, schema};
    use crate::tanka::Renderer;
    use crate::tanka::testing::{JsonEvaluator, ReadOnlyTree};
    use crate::tool::ToolError;
    use crate::tool::testing::guarded;
    use crate::workspace::Tree;
    use serde_json::Value;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    pub(crate) async fn call<R: RenderingTool>(
        files: &[(&str, &str)],
        arguments: Value,
    ) -> Result<String, ToolError> {
        let schema = schema::render::<R::Arguments>();
        let arguments = bind::<R::Arguments>(R::NAME, &schema, arguments).map_err(escape_error)?;
        let tree = guarded(ReadOnlyTree::new(files));
        let renderer = Renderer::new(Arc::clone(&tree) as Arc<dyn Tree>, Arc::new(JsonEvaluator));
        R::run(&renderer, &tree, arguments, &CancellationToken::new()).await
    }
}
