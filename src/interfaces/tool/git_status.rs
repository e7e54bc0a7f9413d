//! `git_status`: lists the files that the workspace changed.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::write_policy::WritePolicy;
use crate::base::model::{Effect, FileChange};
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct GitStatus;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArguments {}

impl ToolArguments for StatusArguments {
    const SUBJECT: Option<&'static str> = None;
}

impl ToolBody for GitStatus {
    type Arguments = StatusArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "git_status";
    const DESCRIPTION: &'static str =
        "Lists the files this workspace added (A), modified (M) or deleted (D) against its base commit.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &["{}"];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, StatusArguments {}: StatusArguments) -> Result<String, ToolError> {
    // Only names are shown, not the content of the files.
    let changes = policy.tree.changes()?;
    if changes.is_empty() {
        return Ok("nothing changed against the base".to_owned());
    }
    Ok(changes.iter().map(status_line).collect())
}

fn status_line(change: &FileChange) -> String {
    let letter = match (&change.before, &change.after) {
        (None, _) => 'A',
        (Some(_), None) => 'D',
        (Some(_), Some(_)) => 'M',
    };
    format!("{letter} {}\n", change.path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::GitStatus;
    use crate::interfaces::tool::testing::{answer, path, write_policy};
    use serde_json::json;

    /// TK-86
    #[test]
    fn added_modified_and_deleted_files_are_listed() {
        let policy = write_policy(&[("b", "x\n"), ("c", "x\n"), ("d", "x\n")]);
        assert_eq!(
            answer::<GitStatus>(&policy, json!({})),
            "nothing changed against the base"
        );
        policy.write(&path("b"), "y\n".to_owned(), "").unwrap();
        policy.write(&path("a"), "y\n".to_owned(), "").unwrap();
        policy.delete(&path("d")).unwrap();
        assert_eq!(answer::<GitStatus>(&policy, json!({})), "A a\nM b\nD d\n");
    }
}
