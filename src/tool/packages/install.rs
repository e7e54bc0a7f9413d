//! `jb_install`: what `jsonnetfile.json` lists, and more packages beside it.

use super::{Shelf, told};
use crate::bundler;
use crate::model::Effect;
use crate::tool::ToolError;
use crate::tool::arguments::Arguments;
use crate::tool::work::Work;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct Install;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InstallArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
    /// Packages to add, as `github.com/org/repo/dir@version` or a directory; none installs what is listed.
    #[serde(default)]
    packages: Vec<String>,
}

impl Arguments for InstallArguments {
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl Work for Install {
    type Arguments = InstallArguments;
    type On = Shelf;

    const NAME: &'static str = "jb_install";
    const DESCRIPTION: &'static str = "Installs Jsonnet packages into `vendor/` at their locked versions, and adds packages to `jsonnetfile.json`. Versions that are locked stay; `jb_update` moves them.";
    const EFFECT: Effect = Effect::WriteWorkspace;

    fn run(shelf: &Shelf, arguments: InstallArguments) -> Result<String, ToolError> {
        let project = shelf.project(&arguments.path)?;
        shelf.admit(project)?;
        let order = bundler::Install {
            packages: arguments.packages,
            ..bundler::Install::default()
        };
        let prepared = bundler::install(project, &order, shelf.fetch.as_ref(), &shelf.desk.watch)?;
        shelf.put(project, &prepared)?;
        Ok(told(&prepared, "everything was in place"))
    }
}
