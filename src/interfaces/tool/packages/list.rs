//! `jb_list`: lists the required and the locked packages of a project.

use super::PackageContext;
use crate::base::model::{Effect, one_line};
use crate::interfaces::tool::ToolError;
use crate::interfaces::tool::adapter::{ToolBody, ToolFunction};
use crate::interfaces::tool::arguments::ToolArguments;
use crate::rendering::bundler;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct JbList;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JbListArguments {
    /// Directory of the project, relative to the repository root; `.` is the root.
    path: String,
}

impl ToolArguments for JbListArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl ToolBody for JbList {
    type Arguments = JbListArguments;
    type CallContext = PackageContext;

    const NAME: &'static str = "jb_list";
    const DESCRIPTION: &'static str = "Lists the Jsonnet packages of a project: the version that `jsonnetfile.json` \
                                       declares and the locked commit.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":"."}"#];
    const COMMAND: Option<&'static str> = Some("jb list");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &PackageContext, arguments: JbListArguments) -> Result<String, ToolError> {
    let listed = bundler::list(context.project(&arguments.path)?)?;
    if listed.is_empty() {
        return Ok("no packages are listed or locked".to_owned());
    }
    let lines = listed.into_iter().map(|package| {
        let declared = package
            .declared
            .as_deref()
            .unwrap_or("only a dependency needs it");
        let locked = package.locked.as_deref().unwrap_or("not installed");
        let place = package
            .local
            .map_or_else(String::new, |directory| format!(" in `{directory}`"));
        one_line(&format!("{}{place}: {declared}, locked: {locked}", package.name))
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
