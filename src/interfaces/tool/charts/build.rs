//! `helm_dependency_build`: packs a chart's dependencies at the versions in its lock file.

use super::ChartContext;
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::{PathArgument, ToolArguments};
use crate::rendering::helm::PackMode;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct HelmDependencyBuild;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HelmBuildArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl ToolArguments for HelmBuildArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl ToolBody for HelmDependencyBuild {
    type Arguments = HelmBuildArguments;
    type CallContext = ChartContext;

    const NAME: &'static str = "helm_dependency_build";
    const DESCRIPTION: &'static str = "Packs the dependencies of a Helm chart into its `charts/` at the versions of `Chart.lock`; they are charts of this repository (`file://`) or come from https repositories on hosts the operator allows. Use `helm_dependency_update` after `Chart.yaml` was changed.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":"charts/web"}"#];
    const COMMAND: Option<&'static str> = Some("tanka charts build");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &ChartContext, arguments: HelmBuildArguments) -> Result<String, ToolError> {
    context.pack(&arguments.path.parse()?, PackMode::Build)
}
