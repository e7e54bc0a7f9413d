//! `helm_dependency_update`: packs a chart's dependencies at the versions that the chart requires.

use super::ChartContext;
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::{PathArgument, ToolArguments};
use crate::rendering::helm::PackMode;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct HelmDependencyUpdate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HelmUpdateArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl ToolArguments for HelmUpdateArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl ToolBody for HelmDependencyUpdate {
    type Arguments = HelmUpdateArguments;
    type CallContext = ChartContext;

    const NAME: &'static str = "helm_dependency_update";
    const DESCRIPTION: &'static str = "Packs the dependencies of a Helm chart into its `charts/` at the versions \
                                       that `Chart.yaml` declares, and writes `Chart.lock`. Dependencies are charts \
                                       of this repository (`file://`) or come from https repositories on hosts the \
                                       operator allows.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":"charts/web"}"#];
    const COMMAND: Option<&'static str> = Some("tanka charts update");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &ChartContext, arguments: HelmUpdateArguments) -> Result<String, ToolError> {
    context.pack(&arguments.path.parse()?, PackMode::Update)
}
