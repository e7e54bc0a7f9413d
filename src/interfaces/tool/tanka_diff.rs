//! `tanka_diff`: returns the effect of the workspace's changes on the objects of one or all environments.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::comparing::ComparingContext;
use crate::base::model::Effect;
use crate::rendering::compare::{CompareRequest, Comparison};
use crate::rendering::inspect;
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of characters of the summary.
const SUMMARY_CHARS_MAX: usize = 6_000;
/// The maximum number of characters of one environment's difference.
const PATCH_CHARS_MAX: usize = 30_000;
/// The path that means all environments.
const ALL: &str = ".";
const NO_CLUSTER: &str = "no cluster is configured, so nothing can be compared with one; leave `cluster` out to see what the \
                          workspace changes against its base, which needs no cluster";

pub(super) struct TankaDiff;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TankaDiffArguments {
    /// Directory or name of the environment, such as `environments/dev`; `.` is every environment the changes affect.
    env_path: String,
    /// Name of the environment, where one file holds several.
    #[serde(default)]
    name: Option<String>,
    /// Compare with the cluster instead of the base; needs a cluster that is configured.
    #[serde(default)]
    cluster: bool,
}

impl ToolArguments for TankaDiffArguments {
    const SUBJECT: Option<&'static str> = Some("env_path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("path", "env_path"),
        ("env", "env_path"),
        ("environment", "env_path"),
    ];
}

impl ToolBody for TankaDiff {
    type Arguments = TankaDiffArguments;
    type CallContext = ComparingContext;

    const NAME: &'static str = "tanka_diff";
    const DESCRIPTION: &'static str = "Renders an environment on the base and from this workspace and shows how its Kubernetes objects differ, with risks and \
                                       checks. The values of Secrets are hidden, and no cluster is contacted.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"env_path":"environments/dev"}"#];
    const COMMAND: Option<&'static str> = Some("tanka env diff");
    const RUN: ToolFunction<Self> =
        ToolFunction::Async(|context, arguments| Box::pin(run(context, arguments)));
}

async fn run(context: &ComparingContext, arguments: TankaDiffArguments) -> Result<String, ToolError> {
    let sides = context.sides().await?;
    let TankaDiffArguments {
        env_path,
        name,
        cluster,
    } = arguments;
    if cluster {
        return Err(ToolError::Failed(NO_CLUSTER.to_owned()));
    }
    let is_all = env_path.trim_end_matches('/') == ALL && name.is_none();
    // The cross-check is deferred: at the end of the turn, both engines check the result again.
    let mut asked = match is_all {
        true => CompareRequest::all(sides, "").defer_cross_check(),
        false => CompareRequest::environment(sides, env_path).defer_cross_check(),
    };
    if let Some(only) = &mut asked.only {
        only.name = name;
    }
    let comparison = context.comparer.compare(asked, &context.cancel).await?;
    let patches = comparison.report.environments.iter();
    let patch: String = match is_all {
        true => String::new(),
        false => patches.map(|environment| environment.patch()).collect(),
    };
    Ok(shown(&comparison, &cut(&patch)))
}

fn shown(comparison: &Comparison, patch: &str) -> String {
    let (summary, checks) = (
        comparison.report.text(SUMMARY_CHARS_MAX),
        inspect::checks(&comparison.checks),
    );
    match patch {
        "" => format!("{summary}\n\n{checks}"),
        patch => format!("{summary}\n\n{patch}\n{checks}"),
    }
}

/// Returns the whole lines of a difference within the limit; omitted lines are counted.
fn cut(patch: &str) -> String {
    let (mut shown, mut room) = (String::new(), PATCH_CHARS_MAX);
    let mut lines = patch.lines();
    for line in lines.by_ref() {
        let chars = line.chars().count() + 1;
        if chars > room {
            let left = lines.count() + 1;
            shown.push_str(&format!(
                "[… {left} more lines; `tanka_show` with `include` shows one object]\n"
            ));
            break;
        }
        room -= chars;
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{PATCH_CHARS_MAX, TankaDiff, cut};
    use crate::interfaces::tool::ToolError;
    use crate::interfaces::tool::comparing::testing::call;
    use crate::interfaces::tool::testing::{failure, paths_outside};
    use serde_json::{Value, json};

    fn main(replicas: u32, password: &str) -> String {
        format!(
            r#"{{"d":{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web"}},"spec":{{"replicas":{replicas}}}}},
                "s":{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"s"}},"stringData":{{"p":"{password}"}}}}}}"#
        )
    }

    async fn diff(arguments: Value) -> Result<String, ToolError> {
        let (before, after) = (main(2, "hunter-one"), main(3, "hunter-two"));
        let files = |main: &str| {
            [
                ("tkrc.yaml", String::new()),
                ("environments/dev/main.jsonnet", main.to_owned()),
                (
                    "environments/dev/spec.json",
                    r#"{"spec":{"namespace":"dev"}}"#.to_owned(),
                ),
                ("environments/other/main.jsonnet", "{}".to_owned()),
                ("environments/other/spec.json", "{}".to_owned()),
            ]
        };
        let (before, after) = (files(&before), files(&after));
        let base = before.each_ref().map(|(name, text)| (*name, text.as_str()));
        let workspace = after.each_ref().map(|(name, text)| (*name, text.as_str()));
        call::<TankaDiff>(&base, &workspace, arguments).await
    }

    /// TK-40
    #[tokio::test]
    async fn an_environment_is_compared_with_its_base() {
        let shown = diff(json!({ "env_path": "environments/dev" })).await.unwrap();
        assert!(
            shown.starts_with("1 of 1 environment changes: 2 objects changed, 0 added, 0 removed."),
            "{shown}"
        );
        assert!(
            shown.contains("-  replicas: 2\n") && shown.contains("+  replicas: 3\n"),
            "{shown}"
        );
        assert!(!shown.contains("hunter-"), "{shown}");
        assert!(
            shown.contains("✓ every affected environment renders\n"),
            "{shown}"
        );
        // One engine is enough to show the difference, but not to report it as checked.
        assert!(
            shown.contains("– both engines agree: the second engine runs before this counts as checked"),
            "{shown}"
        );
        let same = diff(json!({ "path": "environments/other" })).await.unwrap();
        assert!(
            same.contains("Proven unaffected: 1 environment (1 imports no changed file)."),
            "{same}"
        );
    }

    #[tokio::test]
    async fn all_environments_are_compared_at_once() {
        let shown = diff(json!({ "env_path": "." })).await.unwrap();
        assert!(
            shown.starts_with("1 of 2 environments changes") && !shown.contains("hunter-"),
            "{shown}"
        );
    }

    /// TK-40
    #[tokio::test]
    async fn without_a_cluster_there_is_nothing_to_compare_with_one() {
        let refused = failure(diff(json!({ "env_path": "environments/dev", "cluster": true })).await);
        assert!(refused.starts_with("no cluster is configured"), "{refused}");
    }

    #[test]
    fn a_long_difference_is_cut_between_lines() {
        let long = "+ line\n".repeat(PATCH_CHARS_MAX);
        let cut = cut(&long);
        assert!(cut.chars().count() < PATCH_CHARS_MAX + 100);
        let left = PATCH_CHARS_MAX - PATCH_CHARS_MAX / 7;
        assert!(cut.contains(&format!("+ line\n[… {left} more lines;")), "{left}");
    }

    /// T35
    #[tokio::test]
    async fn paths_outside_are_refused() {
        for text in paths_outside() {
            if ["", ".", "./", "./."].contains(&text.as_str()) || text.trim_end_matches('/').is_empty() {
                continue;
            }
            let refused = failure(diff(json!({ "env_path": text })).await);
            let says = [
                "outside the repository",
                "git metadata",
                "found no matching environments",
            ];
            assert!(
                says.iter().any(|why| refused.contains(why)),
                "{text:.60}: {refused}"
            );
        }
    }
}
