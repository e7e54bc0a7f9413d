//! `jb_init`: an empty `jsonnetfile.json`.

use super::Shelf;
use crate::bundler;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::Arguments;
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct Init;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InitArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
}

impl Arguments for InitArguments {
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl Work for Init {
    type Arguments = InitArguments;
    type On = Shelf;

    const NAME: &'static str = "jb_init";
    const DESCRIPTION: &'static str =
        "Begins a jsonnet-bundler project: creates an empty `jsonnetfile.json` in a directory.";
    const EFFECT: Effect = Effect::WriteWorkspace;

    fn run(shelf: &Shelf, arguments: InitArguments) -> Result<String, ToolError> {
        let project = shelf.project(&arguments.path)?;
        shelf.put(project, &bundler::init(project)?)?;
        Ok(format!("wrote {}", project.path(bundler::FILE)?))
    }
}
