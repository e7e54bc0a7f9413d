//! `tanka_validate_jsonnet`: returns the problems of a file, and whether the environments that use it render.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::{PathArgument, ToolArguments};
use super::comparing::ComparingContext;
use crate::base::model::{Effect, pluralize, quoted};
use crate::rendering::compare::Validation;
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of findings in one answer.
const FINDINGS_MAX: usize = 100;
/// The maximum number of failing environments in one answer.
const FAILURES_MAX: usize = 20;

pub(super) struct ValidateJsonnet;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ValidateArguments {
    /// Path of the Jsonnet file, relative to the repository root.
    file_path: PathArgument,
}

impl ToolArguments for ValidateArguments {
    const SUBJECT: Option<&'static str> = Some("file_path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("path", "file_path"), ("file", "file_path")];
}

impl ToolBody for ValidateJsonnet {
    type Arguments = ValidateArguments;
    type CallContext = ComparingContext;

    const NAME: &'static str = "tanka_validate_jsonnet";
    const DESCRIPTION: &'static str = "Checks a Jsonnet file: syntax, names, imports and types, then renders every \
                                       environment that uses it. Returns `✓ valid`, or the problems with their \
                                       locations.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"file_path":"environments/dev/main.jsonnet"}"#];
    const COMMAND: Option<&'static str> = Some("tanka lint");
    const RUN: ToolFunction<Self> =
        ToolFunction::Async(|context, arguments| Box::pin(run(context, arguments)));
}

async fn run(context: &ComparingContext, arguments: ValidateArguments) -> Result<String, ToolError> {
    let sides = context.sides().await?;
    let path = arguments.file_path.parse()?;
    let validation = context.comparer.validate(sides, path, &context.cancel).await?;
    Ok(shown(&validation))
}

fn shown(validation: &Validation) -> String {
    let Validation {
        findings,
        environments,
        left_out,
        ..
    } = validation;
    let mut out = match validation.is_valid() {
        true => "✓ valid\n".to_owned(),
        false => "✗ not valid\n".to_owned(),
    };
    for finding in findings.iter().take(FINDINGS_MAX) {
        out.push_str(&format!("{finding}\n"));
    }
    out.push_str(&more(findings.len(), FINDINGS_MAX));
    let failed: Vec<_> = environments
        .iter()
        .filter_map(|user| Some((&user.name, user.failure.as_ref()?)))
        .collect();
    for (name, failure) in failed.iter().take(FAILURES_MAX) {
        let name = quoted(name);
        out.push_str(&format!("error: {name} does not render: {}\n", failure.message));
    }
    out.push_str(&more(failed.len(), FAILURES_MAX));
    let render = environments.len() - failed.len();
    out.push_str(&match (environments.len(), left_out) {
        (0, 0) => "No environment uses this file, so none was rendered.\n".to_owned(),
        (_, 0) => format!(
            "{render} of {} that use it rendered.\n",
            pluralize(environments.len(), "environment", "environments")
        ),
        (_, left_out) => format!(
            "{render} of {} rendered; {} more that use it were not rendered.\n",
            pluralize(environments.len(), "environment", "environments"),
            pluralize(*left_out, "entry point", "entry points")
        ),
    });
    out
}

fn more(all: usize, shown_max: usize) -> String {
    match all.saturating_sub(shown_max) {
        0 => String::new(),
        left => format!("[… {left} more]\n"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::ValidateJsonnet;
    use crate::interfaces::tool::ToolError;
    use crate::interfaces::tool::comparing::testing::call;
    use crate::interfaces::tool::testing::{failure, paths_outside};
    use serde_json::json;

    async fn validate(path: &str) -> Result<String, ToolError> {
        let files = [
            ("tkrc.yaml", ""),
            ("environments/dev/main.jsonnet", "{}"),
            ("environments/dev/spec.json", "{}"),
            ("environments/bad/main.jsonnet", "{ a: 1 b: 2 }"),
            ("environments/bad/spec.json", "{}"),
            (
                "lib/a.libsonnet",
                "local unused = 1; (import 'b.libsonnet') + (import 'none.libsonnet')",
            ),
            ("lib/b.libsonnet", "{ a: unknown }"),
            (
                "environments/uses/main.jsonnet",
                "local c = import 'c.libsonnet'; { a: c.n, b():: c.n.x }",
            ),
            ("environments/uses/spec.json", "{}"),
            ("lib/c.libsonnet", "{ n: 1 }"),
        ];
        call::<ValidateJsonnet>(&files, &files, json!({ "file_path": path })).await
    }

    /// TK-41
    #[tokio::test]
    async fn a_file_is_valid_or_what_is_wrong_is_named_with_its_place() {
        assert_eq!(
            validate("environments/dev/main.jsonnet").await.unwrap(),
            "✓ valid\n1 of 1 environment that use it rendered.\n"
        );
        let bad = validate("environments/bad/main.jsonnet").await.unwrap();
        assert!(
            bad.starts_with("✗ not valid\nerror: environments/bad/main.jsonnet:1:8-9 Expected a comma"),
            "{bad}"
        );
        assert!(
            bad.contains("error: `environments/bad` does not render: "),
            "{bad}"
        );
        let unused = validate("lib/a.libsonnet").await.unwrap();
        assert!(
            unused.contains("warning: lib/a.libsonnet:1:7-17")
                && unused.contains("couldn't open import \"none.libsonnet\"")
                && !unused.contains("b.libsonnet\"")
                && unused.ends_with("No environment uses this file, so none was rendered.\n"),
            "{unused}"
        );
        let used = validate("environments/uses/main.jsonnet").await.unwrap();
        let wrong =
            "error: environments/uses/main.jsonnet:1:49-54 Indexed value is neither an array nor an object";
        assert!(used.contains(wrong), "{used}");
        let unknown = validate("lib/b.libsonnet").await.unwrap();
        assert!(unknown.contains("error: lib/b.libsonnet:1:6-13"), "{unknown}");
    }

    #[tokio::test]
    async fn validating_a_missing_file_is_refused() {
        let refused = failure(validate("lib/none.libsonnet").await);
        assert!(refused.starts_with("no file `lib/none.libsonnet`"), "{refused}");
    }

    /// T35
    #[tokio::test]
    async fn paths_outside_are_refused() {
        for text in paths_outside() {
            let refused = failure(validate(&text).await);
            let says = refused.contains("outside the repository") || refused.contains("git metadata");
            assert!(says, "{text:.60}: {refused}");
        }
    }
}
