//! `helm_dependency_list`: lists a chart's dependencies and whether they are present.

use super::ChartContext;
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::{PathArgument, ToolArguments};
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct HelmDependencyList;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HelmListArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl ToolArguments for HelmListArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl ToolBody for HelmDependencyList {
    type Arguments = HelmListArguments;
    type CallContext = ChartContext;

    const NAME: &'static str = "helm_dependency_list";
    const DESCRIPTION: &'static str = "Lists the dependencies of a Helm chart: name, version, repository, and whether each is in `charts/`.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":"charts/web"}"#];
    const COMMAND: Option<&'static str> = Some("tanka charts dependencies");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &ChartContext, arguments: HelmListArguments) -> Result<String, ToolError> {
    let tree = context.policy.tree.as_ref();
    Ok(context
        .helm
        .dependencies(tree, &arguments.path.parse()?, &|| context.stopped())?)
}
