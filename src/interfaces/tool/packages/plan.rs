//! `jb_plan`: returns the changes that an install or an update would make. It does the same work and writes nothing.

use super::{PackageContext, format_changes};
use crate::base::model::Effect;
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::ToolArguments;
use crate::rendering::bundler;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct JbPlan;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JbPlanArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
    /// Packages that would be installed or updated; none means what is listed.
    #[serde(default)]
    packages: Vec<String>,
    /// Plan an update instead of an install.
    #[serde(default)]
    update: bool,
}

impl ToolArguments for JbPlanArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl ToolBody for JbPlan {
    type Arguments = JbPlanArguments;
    type CallContext = PackageContext;

    const NAME: &'static str = "jb_plan";
    const DESCRIPTION: &'static str = "Shows what `jb_install` or `jb_update` would change: each package with the commit it is at and the one it would be at. Nothing is written.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":".","packages":["github.com/org/c"]}"#];
    const COMMAND: Option<&'static str> = Some("jb plan");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &PackageContext, arguments: JbPlanArguments) -> Result<String, ToolError> {
    let project = context.project(&arguments.path)?;
    let (fetch, watch) = (context.fetch.as_ref(), &context.policy.watch);
    let prepared = match arguments.update {
        true => bundler::update(project, &arguments.packages, fetch, watch)?,
        false => {
            let order = bundler::InstallRequest {
                packages: arguments.packages,
                ..bundler::InstallRequest::default()
            };
            bundler::install(project, &order, fetch, watch)?
        }
    };
    Ok(format!(
        "{}\nnothing was written",
        format_changes(&prepared, "nothing would change")
    ))
}
