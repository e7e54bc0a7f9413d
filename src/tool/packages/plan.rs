//! `jb_plan`: what an install or an update would change. It does the same work and writes nothing.

use super::{Shelf, told};
use crate::bundler;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::Arguments;
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct Plan;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
    /// Packages that would be installed or updated; none means what is listed.
    #[serde(default)]
    packages: Vec<String>,
    /// Plan an update instead of an install.
    #[serde(default)]
    update: bool,
}

impl Arguments for PlanArguments {
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl Work for Plan {
    type Arguments = PlanArguments;
    type On = Shelf;

    const NAME: &'static str = "jb_plan";
    const DESCRIPTION: &'static str = "Shows what `jb_install` or `jb_update` would change: each package with the commit it is at and the one it would be at. Nothing is written.";
    const EFFECT: Effect = Effect::Read;

    fn run(shelf: &Shelf, arguments: PlanArguments) -> Result<String, ToolError> {
        let project = shelf.project(&arguments.path)?;
        let (fetch, watch) = (shelf.fetch.as_ref(), &shelf.desk.watch);
        let prepared = match arguments.update {
            true => bundler::update(project, &arguments.packages, fetch, watch)?,
            false => {
                let order = bundler::Install {
                    packages: arguments.packages,
                    ..bundler::Install::default()
                };
                bundler::install(project, &order, fetch, watch)?
            }
        };
        Ok(format!(
            "{}\nnothing was written",
            told(&prepared, "nothing would change")
        ))
    }
}
