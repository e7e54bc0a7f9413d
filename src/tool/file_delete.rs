//! `file_delete`: one file less.

use super::ToolError;
use super::arguments::{Arguments, PathArgument};
use super::desk::Desk;
use super::work::Work;
use crate::model::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct FileDelete;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteArguments {
    /// Path of the file, relative to the repository root.
    path: PathArgument,
}

impl Arguments for DeleteArguments {
    const ALIASES: &'static [(&'static str, &'static str)] = &[("file", "path")];
}

impl Work for FileDelete {
    type Arguments = DeleteArguments;
    type On = Desk;

    const NAME: &'static str = "file_delete";
    const DESCRIPTION: &'static str = "Deletes one file from the workspace.";
    const EFFECT: Effect = Effect::WriteWorkspace;

    fn run(desk: &Desk, arguments: DeleteArguments) -> Result<String, ToolError> {
        let path = arguments.path.checked()?;
        desk.delete(&path)?;
        Ok(format!("deleted {path} ({})", desk.delta(&path)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::FileDelete;
    use crate::tool::testing::{answer, call, desk, failure, path, refuses_paths_outside};
    use serde_json::json;

    /// TK-31
    #[test]
    fn a_file_is_deleted() {
        let desk = desk(&[("a/b", "x\n"), ("c", "y\n")]);
        let said = answer::<FileDelete>(&desk, json!({ "path": "a/b" }));
        assert_eq!(
            said,
            format!("deleted a/b ({})", desk.delta(&path("a/b")).unwrap())
        );
        assert_eq!(*desk.tree.files().unwrap(), [path("c")]);
        assert_eq!(
            failure(call::<FileDelete>(&desk, json!({ "file": "a/b" }))),
            "no file `a/b`"
        );
    }

    #[test]
    fn deleting_a_new_file_leaves_no_change() {
        let desk = desk(&[("c", "y\n")]);
        desk.write(&path("new"), "x".to_owned(), "x").unwrap();
        assert_eq!(
            answer::<FileDelete>(&desk, json!({ "path": "new" })),
            "deleted new (same as the base)"
        );
        assert_eq!(desk.tree.changes().unwrap(), []);
    }

    /// T35
    #[test]
    fn paths_outside_are_refused() {
        refuses_paths_outside::<FileDelete>(|path| json!({ "path": path }));
    }
}
