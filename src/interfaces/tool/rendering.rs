//! The context of the tools that render environments, with the renderer of the workspace's files.

use super::adapter::ToolBody as _;
use super::tanka_find_environments::TankaFindEnvironments;
use super::{Context, ToolError};
use crate::base::model::quoted;
use crate::rendering::compare;
use crate::rendering::tanka::{self, Evaluate, Renderer, TankaError};
use crate::state::workspace::{GuardedTree, Tree};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The tool that lists environments.
const FIND: &str = TankaFindEnvironments::NAME;

/// A tree and its renderer.
pub(super) struct RenderingContext {
    /// The renderer of the tree.
    pub(super) renderer: Renderer,
    /// The files.
    pub(super) tree: Arc<GuardedTree>,
    /// Fires when the turn is stopped, and when it runs out of time.
    pub(super) cancel: CancellationToken,
}

impl RenderingContext {
    /// Returns the context of calls that render with this evaluator.
    pub(super) fn with(
        evaluator: &Arc<dyn Evaluate>,
    ) -> impl Fn(Context<'_>) -> Self + Send + Sync + 'static {
        let evaluator = Arc::clone(evaluator);
        move |cx| Self::new(cx.workspace.guarded_tree(), &evaluator, cx.cancel)
    }

    fn new(tree: Arc<GuardedTree>, evaluator: &Arc<dyn Evaluate>, cancel: &CancellationToken) -> Self {
        Self {
            renderer: Renderer::new(Arc::clone(&tree) as Arc<dyn Tree>, Arc::clone(evaluator)),
            tree,
            cancel: cancel.clone(),
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
                "found no matching environments; `{FIND}` lists what there is.\n{} A chat on a server sees only \
                 committed files and changes to them, without files that git ignores",
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

    use super::RenderingContext;
    use crate::interfaces::tool::ToolError;
    use crate::interfaces::tool::adapter::ToolBody;
    use crate::interfaces::tool::testing::{call_async, guarded};
    use crate::rendering::tanka::Evaluate;
    use crate::rendering::tanka::testing::{JsonEvaluator, ReadOnlyTree};
    use serde_json::Value;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    pub(crate) async fn call<T: ToolBody<CallContext = RenderingContext>>(
        files: &[(&str, &str)],
        arguments: Value,
    ) -> Result<String, ToolError> {
        let evaluator: Arc<dyn Evaluate> = Arc::new(JsonEvaluator::default());
        let tree = guarded(ReadOnlyTree::new(files));
        let context = RenderingContext::new(tree, &evaluator, &CancellationToken::new());
        call_async::<T>(&context, arguments).await
    }
}
