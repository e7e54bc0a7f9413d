//! `file_write`: creates or replaces a whole file.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::{PathArgument, ToolArguments};
use super::write_policy::WritePolicy;
use crate::base::model::{Effect, pluralize};
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct FileWrite;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteArguments {
    /// Path of the file, relative to the repository root; missing directories are created.
    path: PathArgument,
    /// The whole new content of the file; a JSON value is written out as indented JSON.
    content: String,
}

impl ToolArguments for WriteArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("file", "path")];
    const ANY_JSON: &'static [&'static str] = &["content"];
}

impl ToolBody for FileWrite {
    type Arguments = WriteArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "file_write";
    const DESCRIPTION: &'static str = "Creates a file or replaces all of its content. Use `file_edit` for a small change to an existing file.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"path":"environments/dev/new.txt","content":"x\n"}"#,
        r#"{"path":"lib/new.libsonnet","content":"{}\n"}"#,
    ];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: WriteArguments) -> Result<String, ToolError> {
    let path = arguments.path.parse()?;
    let content = arguments.content;
    let lines = pluralize(content.lines().count(), "line", "lines");
    policy.write(&path, content.clone(), &content)?;
    Ok(format!("wrote {path} ({lines}, {})", policy.delta(&path)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::FileWrite;
    use crate::interfaces::tool::testing::{
        answer, call, failure, path, refuses_paths_outside, write_policy,
    };
    use serde_json::json;

    /// TK-28
    #[test]
    fn a_new_file_is_written_and_counted() {
        let policy = write_policy(&[("a", "x\n")]);
        let said = answer::<FileWrite>(&policy, json!({ "path": "b/c.txt", "content": "one\ntwo\n" }));
        assert_eq!(
            said,
            format!(
                "wrote b/c.txt (2 lines, {})",
                policy.delta(&path("b/c.txt")).unwrap()
            )
        );
        assert_eq!(policy.text(&path("b/c.txt")).unwrap(), "one\ntwo\n");
        assert_eq!(policy.text(&path("a")).unwrap(), "x\n");
    }

    #[test]
    fn content_as_json_is_written_out_indented() {
        let policy = write_policy(&[("a", "x\n")]);
        answer::<FileWrite>(
            &policy,
            json!({ "path": "spec.json", "content": { "spec": { "b": [1] } } }),
        );
        let expected = "{\n  \"spec\": {\n    \"b\": [\n      1\n    ]\n  }\n}\n";
        assert_eq!(policy.text(&path("spec.json")).unwrap(), expected);
        answer::<FileWrite>(&policy, json!({ "path": "n", "content": 7 }));
        assert_eq!(policy.text(&path("n")).unwrap(), "7\n");
    }

    #[test]
    fn writing_what_the_base_has_is_no_change() {
        let policy = write_policy(&[("a", "x\n")]);
        let said = answer::<FileWrite>(&policy, json!({ "file": "a", "content": "x\n" }));
        assert_eq!(said, "wrote a (1 line, same as the base)");
    }

    /// T87
    #[test]
    fn a_hidden_secret_is_not_written_over() {
        let policy = write_policy(&[("a", "x\n")]);
        let refused = failure(call::<FileWrite>(
            &policy,
            json!({ "path": "a", "content": { "t": "⟦secret:1⟧" } }),
        ));
        assert!(refused.starts_with("the text contains `⟦secret:…⟧`, which stands for a value"));
        assert_eq!(policy.text(&path("a")).unwrap(), "x\n");
    }

    /// T35
    #[test]
    fn paths_outside_are_refused() {
        refuses_paths_outside::<FileWrite>(|path| json!({ "path": path, "content": "evil" }));
    }
}
