//! `tanka_find_environments`: which environments there are, and where each goes.

use super::ToolError;
use super::arguments::Arguments;
use super::rendering::Rendering;
use super::text::counted;
use crate::tanka::{EnvironmentFailure, EnvironmentList, Found, Renderer};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

/// Environments of one answer.
const ENVIRONMENTS_MAX: usize = 500;
/// Failures of one answer.
const FAILURES_MAX: usize = 20;

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

impl Arguments for FindArguments {
    const ALIASES: &'static [(&'static str, &'static str)] = &[("directory", "path"), ("dir", "path")];
}

#[async_trait]
impl Rendering for TankaFindEnvironments {
    type Arguments = FindArguments;

    const NAME: &'static str = "tanka_find_environments";
    const DESCRIPTION: &'static str = "Lists the Tanka environments below a directory, with name, namespace, API server and labels. \
                                       Those that cannot be loaded are listed with the reason.";

    async fn run(
        renderer: &Renderer,
        FindArguments { path }: FindArguments,
        cancel: &CancellationToken,
    ) -> Result<String, ToolError> {
        let list = renderer.list(&path, cancel).await?;
        Ok(listed(&path, &list))
    }
}

fn listed(path: &str, list: &EnvironmentList) -> String {
    let EnvironmentList {
        environments,
        failures,
        warnings,
    } = list;
    if environments.is_empty() && failures.is_empty() {
        return format!("no environments below `{path}`");
    }
    let mut out: String = environments.iter().take(ENVIRONMENTS_MAX).map(line).collect();
    if let Some(more) = environments
        .len()
        .checked_sub(ENVIRONMENTS_MAX)
        .filter(|more| *more > 0)
    {
        out.push_str(&format!("[… {more} more; list one directory with `path`]\n"));
    }
    if !failures.is_empty() {
        let failed = counted(failures.len(), "entry point", "entry points");
        out.push_str(&format!("\n{failed} could not be loaded:\n"));
        out.extend(failures.iter().take(FAILURES_MAX).map(reason));
        if let Some(more) = failures.len().checked_sub(FAILURES_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("[… {more} more]\n"));
        }
    }
    out.extend(warnings.iter().map(|warning| format!("\n{warning}\n")));
    out
}

fn line(found: &Found) -> String {
    let metadata = &found.environment.metadata;
    let spec = &found.environment.spec;
    let mut line = format!("{}: namespace {}", metadata.name, shown(&spec.namespace));
    if !spec.api_server.is_empty() {
        line.push_str(&format!(", API server {}", spec.api_server));
    }
    if !spec.context_names.is_empty() {
        line.push_str(&format!(", contexts {}", spec.context_names.join(" ")));
    }
    if !metadata.labels.is_empty() {
        let labels = metadata
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        line.push_str(&format!(", labels {}", labels.collect::<Vec<_>>().join(" ")));
    }
    format!("{line} (`{}`)\n", found.entrypoint)
}

fn shown(namespace: &str) -> &str {
    if namespace.is_empty() { "none" } else { namespace }
}

fn reason(failure: &EnvironmentFailure) -> String {
    let why = failure.error.to_string();
    let first = why.lines().next().unwrap_or_default();
    format!("`{}`: {first}\n", failure.entrypoint)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::TankaFindEnvironments;
    use crate::tool::rendering::testing::call;
    use crate::tool::testing::failure;
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
             `broken/main.jsonnet`: evaluating jsonnet: EOF while parsing an object at line 1 column 1\n"
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
