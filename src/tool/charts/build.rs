//! `helm_dependency_build`: the dependencies of a chart, packed at the versions of its lock.

use super::Bench;
use crate::helm::Pack;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::{Arguments, PathArgument};
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct Build;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BuildArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl Arguments for BuildArguments {
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl Work for Build {
    type Arguments = BuildArguments;
    type On = Bench;

    const NAME: &'static str = "helm_dependency_build";
    const DESCRIPTION: &'static str = "Packs the dependencies of a Helm chart into its `charts/` at the versions of `Chart.lock`; they are charts of this repository (`file://`) or come from https repositories on hosts the operator allows. Use `helm_dependency_update` after `Chart.yaml` was changed.";
    const EFFECT: Effect = Effect::WriteWorkspace;

    fn run(bench: &Bench, arguments: BuildArguments) -> Result<String, ToolError> {
        bench.pack(&arguments.path.checked()?, Pack::Build)
    }
}
