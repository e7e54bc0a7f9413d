//! `jb_update`: locked packages moved to the newest commit of the version that is asked for.

use super::{Shelf, told};
use crate::bundler;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::Arguments;
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct Update;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
    /// Packages to update, such as `github.com/org/repo/dir`; all of them when left out.
    #[serde(default)]
    packages: Vec<String>,
}

impl Arguments for UpdateArguments {
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl Work for Update {
    type Arguments = UpdateArguments;
    type On = Shelf;

    const NAME: &'static str = "jb_update";
    const DESCRIPTION: &'static str = "Moves locked Jsonnet packages to the newest commit of the version `jsonnetfile.json` asks for. Use `jb_plan` to see what would change.";
    const EFFECT: Effect = Effect::WriteWorkspace;

    fn run(shelf: &Shelf, arguments: UpdateArguments) -> Result<String, ToolError> {
        let project = shelf.project(&arguments.path)?;
        shelf.admit(project)?;
        let watch = &shelf.desk.watch;
        let prepared = bundler::update(project, &arguments.packages, shelf.fetch.as_ref(), watch)?;
        shelf.put(project, &prepared)?;
        Ok(told(&prepared, "everything was up to date"))
    }
}
