//! `tanka_format_jsonnet`: formats a file like `tk fmt`.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::{PathArgument, ToolArguments};
use super::write_policy::WritePolicy;
use crate::base::model::Effect;
use crate::rendering::jsonnet::format::format;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct FormatJsonnet;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FormatArguments {
    /// Path of the Jsonnet file, relative to the repository root.
    file_path: PathArgument,
}

impl ToolArguments for FormatArguments {
    const SUBJECT: Option<&'static str> = Some("file_path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("path", "file_path"), ("file", "file_path")];
}

impl ToolBody for FormatJsonnet {
    type Arguments = FormatArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "tanka_format_jsonnet";
    const DESCRIPTION: &'static str = "Returns a Jsonnet file in the standard style, as `tk fmt` would write it, and leaves the file as it is. Write the text with `file_write` to keep it.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"file_path":"environments/dev/main.jsonnet"}"#];
    const COMMAND: Option<&'static str> = Some("tanka fmt");
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: FormatArguments) -> Result<String, ToolError> {
    let path = arguments.file_path.parse()?;
    format(&policy.text(&path)?)
        .map_err(|error| ToolError::Failed(format!("{path}:{error}; fix it, then format again")))
}

#[cfg(test)]
mod tests {
    use super::FormatJsonnet;
    use crate::interfaces::tool::testing::{answer, call, failure, refuses_paths_outside, write_policy};
    use serde_json::json;

    /// TK-42
    #[test]
    fn a_file_is_shown_formatted_and_stays_as_it_is() {
        let policy = write_policy(&[("main.jsonnet", "{\"a\":1,\n b: [1,2]}")]);
        for name in ["file_path", "path"] {
            let text = answer::<FormatJsonnet>(&policy, json!({ name: "main.jsonnet" }));
            assert_eq!(text, "{\n  a: 1,\n  b: [1, 2],\n}\n");
        }
        assert!(policy.tree.changes().is_ok_and(|changes| changes.is_empty()));
    }

    #[test]
    fn invalid_jsonnet_is_reported_with_its_position() {
        let policy = write_policy(&[("main.jsonnet", "{\n  a: 1\n  b: 2 }")]);
        assert_eq!(
            failure(call::<FormatJsonnet>(
                &policy,
                json!({ "file_path": "main.jsonnet" })
            )),
            "main.jsonnet:3:3-4 Expected a comma before next field; fix it, then format again"
        );
    }

    /// T35
    #[test]
    fn paths_outside_are_refused() {
        refuses_paths_outside::<FormatJsonnet>(|path| json!({ "file_path": path }));
    }
}
