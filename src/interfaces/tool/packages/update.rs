//! `jb_update`: updates locked packages to the newest commit of the required version.

use super::{PackageContext, format_changes};
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::ToolArguments;
use crate::rendering::bundler;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct JbUpdate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JbUpdateArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
    /// Packages to update, such as `github.com/org/repo/dir`; all of them when left out.
    #[serde(default)]
    packages: Vec<String>,
}

impl ToolArguments for JbUpdateArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl ToolBody for JbUpdate {
    type Arguments = JbUpdateArguments;
    type CallContext = PackageContext;

    const NAME: &'static str = "jb_update";
    const DESCRIPTION: &'static str = "Moves locked Jsonnet packages to the newest commit of the version that \
                                       `jsonnetfile.json` declares. Use `jb_plan` to see what would change.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":".","packages":["github.com/org/c"]}"#];
    const COMMAND: Option<&'static str> = Some("jb update");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &PackageContext, arguments: JbUpdateArguments) -> Result<String, ToolError> {
    let project = context.project(&arguments.path)?;
    context.admit(project)?;
    let watch = &context.policy.watch;
    let prepared = bundler::update(project, &arguments.packages, context.fetch.as_ref(), watch)?;
    context.put(project, &prepared)?;
    Ok(format_changes(&prepared, "everything was up to date"))
}
