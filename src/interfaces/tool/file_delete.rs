//! `file_delete`: deletes a file.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::{PathArgument, ToolArguments};
use super::write_policy::WritePolicy;
use crate::base::model::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct FileDelete;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteArguments {
    /// Path of the file, relative to the repository root.
    path: PathArgument,
}

impl ToolArguments for DeleteArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("file", "path")];
}

impl ToolBody for FileDelete {
    type Arguments = DeleteArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "file_delete";
    const DESCRIPTION: &'static str = "Deletes one file from the workspace.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"path":"environments/dev/main.jsonnet"}"#,
        r#"{"path":"README.md"}"#,
    ];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: DeleteArguments) -> Result<String, ToolError> {
    let path = arguments.path.parse()?;
    policy.delete(&path)?;
    Ok(format!("deleted {path} ({})", policy.delta(&path)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::FileDelete;
    use crate::interfaces::tool::testing::{
        answer, call, failure, path, refuses_paths_outside, write_policy,
    };
    use serde_json::json;

    /// TK-31
    #[test]
    fn a_file_is_deleted() {
        let policy = write_policy(&[("a/b", "x\n"), ("c", "y\n")]);
        let said = answer::<FileDelete>(&policy, json!({ "path": "a/b" }));
        assert_eq!(
            said,
            format!("deleted a/b ({})", policy.delta(&path("a/b")).unwrap())
        );
        assert_eq!(*policy.tree.files().unwrap(), [path("c")]);
        assert_eq!(
            failure(call::<FileDelete>(&policy, json!({ "file": "a/b" }))),
            "no file `a/b`"
        );
    }

    #[test]
    fn deleting_a_new_file_leaves_no_change() {
        let policy = write_policy(&[("c", "y\n")]);
        policy.write(&path("new"), "x".to_owned(), "x").unwrap();
        assert_eq!(
            answer::<FileDelete>(&policy, json!({ "path": "new" })),
            "deleted new (same as the base)"
        );
        assert_eq!(policy.tree.changes().unwrap(), []);
    }

    /// T35
    #[test]
    fn paths_outside_are_refused() {
        refuses_paths_outside::<FileDelete>(|path| json!({ "path": path }));
    }
}
