//! `jb_init`: creates an empty `jsonnetfile.json`.

use super::PackageContext;
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::ToolArguments;
use crate::rendering::bundler;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct JbInit;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JbInitArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
}

impl ToolArguments for JbInitArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl ToolBody for JbInit {
    type Arguments = JbInitArguments;
    type CallContext = PackageContext;

    const NAME: &'static str = "jb_init";
    const DESCRIPTION: &'static str =
        "Starts a jsonnet-bundler project: creates an empty `jsonnetfile.json` in a directory.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":"environments/dev"}"#, r#"{"path":"lib"}"#];
    const COMMAND: Option<&'static str> = Some("jb init");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &PackageContext, arguments: JbInitArguments) -> Result<String, ToolError> {
    let project = context.project(&arguments.path)?;
    context.put(project, &bundler::init(project)?)?;
    Ok(format!("wrote {}", project.path(bundler::FILE)?))
}
