//! `helm_dependency_list`: the dependencies of a chart, and whether they are there.

use super::Bench;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::{Arguments, PathArgument};
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct List;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArguments {
    /// Directory of the chart, relative to the repository root.
    path: PathArgument,
}

impl Arguments for ListArguments {
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("chart", "path"), ("directory", "path"), ("dir", "path")];
}

impl Work for List {
    type Arguments = ListArguments;
    type On = Bench;

    const NAME: &'static str = "helm_dependency_list";
    const DESCRIPTION: &'static str = "Lists the dependencies of a Helm chart: name, version, repository, and whether each is in `charts/`.";
    const EFFECT: Effect = Effect::Read;

    fn run(bench: &Bench, arguments: ListArguments) -> Result<String, ToolError> {
        let tree = bench.desk.tree.as_ref();
        Ok(bench
            .helm
            .dependencies(tree, &arguments.path.checked()?, &|| bench.stopped())?)
    }
}
