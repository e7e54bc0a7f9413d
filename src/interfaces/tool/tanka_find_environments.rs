//! `tanka_find_environments`: lists the environments and their destinations.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::rendering::RenderingContext;
use crate::base::model::Effect;
use crate::rendering::inspect;
use crate::rendering::tanka::EnvironmentList;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The maximum number of environments in one answer.
const ENVIRONMENTS_MAX: usize = 500;

pub(super) struct TankaFindEnvironments;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FindArguments {
    /// Directory to look below; `.` is the whole repository.
    #[serde(default = "everywhere")]
    path: String,
}

fn everywhere() -> String {
    ".".to_owned()
}

impl ToolArguments for FindArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

impl ToolBody for TankaFindEnvironments {
    type Arguments = FindArguments;
    type CallContext = RenderingContext;

    const NAME: &'static str = "tanka_find_environments";
    const DESCRIPTION: &'static str = "Lists the Tanka environments below a directory, with name, namespace, API server and labels. \
                                       Those that cannot be loaded are listed with the reason.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &["{}"];
    const COMMAND: Option<&'static str> = Some("tanka env list");
    const RUN: ToolFunction<Self> =
        ToolFunction::Async(|context, arguments| Box::pin(run(context, arguments)));
}

async fn run(context: &RenderingContext, FindArguments { path }: FindArguments) -> Result<String, ToolError> {
    let RenderingContext {
        renderer,
        tree,
        cancel,
    } = context;
    let list = inspect::list_and_learn(renderer, tree, &path, cancel).await?;
    Ok(listed(&path, &list))
}

fn listed(path: &str, list: &EnvironmentList) -> String {
    let mut out = inspect::list_environments(list, &BTreeMap::new(), ENVIRONMENTS_MAX);
    if out.is_empty() {
        return format!("no environments below `{path}`");
    }
    if list.environments.len() > ENVIRONMENTS_MAX {
        out.push_str("\n[not all are shown; list one directory with `path`]\n");
    }
    out.extend(list.warnings.iter().map(|warning| format!("\n{warning}\n")));
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::TankaFindEnvironments;
    use crate::interfaces::tool::rendering::testing::call;
    use crate::interfaces::tool::testing::failure;
    use serde_json::json;

    const FILES: [(&str, &str); 6] = [
        ("jsonnetfile.json", "{}"),
        (
            "environments/dev/spec.json",
            r#"{"metadata":{"labels":{"stage":"dev","team":"a"}},"spec":{"namespace":"web","apiServer":"h:6443"}}"#,
        ),
        ("environments/dev/main.jsonnet", "{}"),
        (
            "environments/inline/main.jsonnet",
            r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{"name":"eu"},"spec":{"namespace":"","contextNames":["c"]}}"#,
        ),
        ("broken/main.jsonnet", "{"),
        ("vendor/x/main.jsonnet", "{"),
    ];

    /// TK-38
    #[tokio::test]
    async fn environments_are_listed_with_where_they_go() {
        let listed = call::<TankaFindEnvironments>(&FILES, json!({})).await.unwrap();
        assert_eq!(
            listed,
            "environments/dev: namespace web, API server https://h:6443, labels stage=dev team=a \
             (`environments/dev/main.jsonnet`)\n\
             eu: namespace none, contexts c (`environments/inline/main.jsonnet`)\n\n\
             1 entry point could not be loaded:\n\
             `broken/main.jsonnet`: evaluating jsonnet: EOF while parsing an object at line 1 column 1: {\n"
        );
    }

    #[tokio::test]
    async fn a_directory_without_environments_says_so() {
        let nothing = call::<TankaFindEnvironments>(&FILES, json!({ "path": "lib" })).await;
        assert_eq!(nothing.unwrap(), "no environments below `lib`");
        let outside = call::<TankaFindEnvironments>(&FILES, json!({ "dir": "../other" })).await;
        assert!(failure(outside).contains("outside the repository"));
        let no_project = call::<TankaFindEnvironments>(&[("a", "")], json!({})).await;
        assert!(failure(no_project).starts_with("unable to identify the project root."));
    }
}
