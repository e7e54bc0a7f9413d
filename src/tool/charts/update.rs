//! `helm_dependency_update`: the dependencies of a chart, packed at the versions that are asked for.

use super::Bench;
use crate::helm::Pack;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::{Arguments, PathArgument};
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct Update;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl Arguments for UpdateArguments {
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl Work for Update {
    type Arguments = UpdateArguments;
    type On = Bench;

    const NAME: &'static str = "helm_dependency_update";
    const DESCRIPTION: &'static str = "Packs the dependencies of a Helm chart into its `charts/` at the versions `Chart.yaml` asks for, and writes `Chart.lock`. Dependencies are charts of this repository (`file://`) or come from https repositories on hosts the operator allows.";
    const EFFECT: Effect = Effect::WriteWorkspace;

    fn run(bench: &Bench, arguments: UpdateArguments) -> Result<String, ToolError> {
        bench.pack(&arguments.path.checked()?, Pack::Update)
    }
}
