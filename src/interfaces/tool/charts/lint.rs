//! `helm_lint`: returns helm's findings about a chart.

use super::ChartContext;
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::{PathArgument, ToolArguments};
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct HelmLint;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HelmLintArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl ToolArguments for HelmLintArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl ToolBody for HelmLint {
    type Arguments = HelmLintArguments;
    type CallContext = ChartContext;

    const NAME: &'static str = "helm_lint";
    const DESCRIPTION: &'static str = "Checks a Helm chart with `helm lint` and reports its problems.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":"charts/web"}"#];
    const COMMAND: Option<&'static str> = Some("tanka charts lint");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &ChartContext, arguments: HelmLintArguments) -> Result<String, ToolError> {
    let tree = context.policy.tree.as_ref();
    Ok(context
        .helm
        .lint(tree, &arguments.path.parse()?, &|| context.stopped())?)
}
