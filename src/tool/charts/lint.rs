//! `helm_lint`: what helm says is wrong with a chart.

use super::Bench;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::{Arguments, PathArgument};
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct Lint;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LintArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl Arguments for LintArguments {
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl Work for Lint {
    type Arguments = LintArguments;
    type On = Bench;

    const NAME: &'static str = "helm_lint";
    const DESCRIPTION: &'static str =
        "Examines a Helm chart with `helm lint` and answers what is wrong with it.";
    const EFFECT: Effect = Effect::Read;

    fn run(bench: &Bench, arguments: LintArguments) -> Result<String, ToolError> {
        let tree = bench.desk.tree.as_ref();
        Ok(bench
            .helm
            .lint(tree, &arguments.path.checked()?, &|| bench.stopped())?)
    }
}
