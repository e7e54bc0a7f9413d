//! `jb_install`: installs the packages of `jsonnetfile.json`, and adds further ones.

use super::{PackageContext, format_changes};
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::ToolArguments;
use crate::rendering::bundler;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct JbInstall;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JbInstallArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
    /// Packages to add, as `github.com/org/repo/dir@version` or a directory; none installs what is listed.
    #[serde(default)]
    packages: Vec<String>,
}

impl ToolArguments for JbInstallArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl ToolBody for JbInstall {
    type Arguments = JbInstallArguments;
    type CallContext = PackageContext;

    const NAME: &'static str = "jb_install";
    const DESCRIPTION: &'static str = "Installs Jsonnet packages into `vendor/` at their locked versions, and adds packages to `jsonnetfile.json`. Versions that are locked stay; `jb_update` moves them.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":".","packages":["github.com/org/c"]}"#];
    const COMMAND: Option<&'static str> = Some("jb install");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &PackageContext, arguments: JbInstallArguments) -> Result<String, ToolError> {
    let project = context.project(&arguments.path)?;
    context.admit(project)?;
    let order = bundler::InstallRequest {
        packages: arguments.packages,
        ..bundler::InstallRequest::default()
    };
    let prepared = bundler::install(project, &order, context.fetch.as_ref(), &context.policy.watch)?;
    context.put(project, &prepared)?;
    Ok(format_changes(&prepared, "everything was already installed"))
}
