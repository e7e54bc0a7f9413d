//! Tools of programs that embed Drydock: a name, a description and a function.

use super::adapter::{show_invisible, stopped};
use super::arguments::{ToolArguments, bind};
use super::{Context, Tool, ToolError, schema};
use crate::base::model::Effect;
use crate::interfaces::provider::ToolSpec;
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Arguments of a type outside of this crate.
#[derive(Deserialize)]
#[serde(transparent)]
struct ForeignArguments<A>(A);

impl<A: JsonSchema> JsonSchema for ForeignArguments<A> {
    fn schema_name() -> Cow<'static, str> {
        A::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        A::json_schema(generator)
    }
}

impl<A: DeserializeOwned + JsonSchema + Send + 'static> ToolArguments for ForeignArguments<A> {
    const SUBJECT: Option<&'static str> = None;
}

type ToolFuture = BoxFuture<'static, Result<String, String>>;

struct FunctionTool<A> {
    spec: ToolSpec,
    effect: Effect,
    run: Box<dyn Fn(A) -> ToolFuture + Send + Sync>,
}

/// Creates a tool from a function. The schema of its arguments comes from their type: a struct with
/// `#[serde(deny_unknown_fields)]` whose fields have doc comments. The model reads an error and continues. An
/// `Effect::Read` call may run in parallel to others; other calls run alone, and their tools are offered to editors only.
pub fn function_tool<A, F>(
    name: &'static str,
    description: &'static str,
    effect: Effect,
    run: impl Fn(A) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    Arc::new(FunctionTool {
        spec: ToolSpec {
            name,
            description,
            schema: schema::render::<A>().into(),
        },
        effect,
        run: Box::new(move |arguments| Box::pin(run(arguments))),
    })
}

#[async_trait]
impl<A: DeserializeOwned + JsonSchema + Send + 'static> Tool for FunctionTool<A> {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    async fn call(&self, cx: Context<'_>, arguments: Value) -> Result<String, ToolError> {
        let ForeignArguments(arguments) = bind(self.spec.name, &self.spec.schema, arguments)?;
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Err(stopped()),
            answer = (self.run)(arguments) => show_invisible(answer.map_err(ToolError::Failed)),
        }
    }
}
