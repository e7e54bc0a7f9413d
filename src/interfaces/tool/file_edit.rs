//! `file_edit`: replaces one passage of a file, which is given by its text.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::{PathArgument, ToolArguments};
use super::write_policy::WritePolicy;
use crate::base::model::{Effect, RepoPath};
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of line numbers that are listed if a text is not unique.
const LINES_LISTED_MAX: usize = 5;

pub(super) struct FileEdit;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditArguments {
    /// Path of the file, relative to the repository root.
    path: PathArgument,
    /// The exact text to replace, with its whitespace; it must occur once in the file.
    old: String,
    /// The text to put in its place; empty to remove it.
    new: String,
}

impl ToolArguments for EditArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("file", "path")];
}

impl ToolBody for FileEdit {
    type Arguments = EditArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "file_edit";
    const DESCRIPTION: &'static str = "Replaces one piece of text in a file and keeps the rest. The text must occur \
                                       exactly once.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"path":"environments/dev/main.jsonnet","old":"web:1.8.3","new":"web:1.9.0"}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: EditArguments) -> Result<String, ToolError> {
    let path = arguments.path.parse()?;
    let EditArguments { old, new, .. } = arguments;
    if old.is_empty() {
        return failed(
            "`old` is empty; use `file_write` to create a file or to replace all of it".to_owned(),
        );
    }
    if old == new {
        return failed("`old` and `new` are the same: there is nothing to change".to_owned());
    }
    let text = policy.text(&path)?;
    let places: Vec<usize> = text.match_indices(&old).map(|(place, _)| place).collect();
    match places.as_slice() {
        [] => failed(not_found(&path, &text, &old)),
        [place] => {
            let line = line_at(&text, *place);
            policy.write(&path, text.replacen(&old, &new, 1), &new)?;
            Ok(format!("edited {path} (line {line}, {})", policy.delta(&path)?))
        }
        many => failed(ambiguous(&path, &text, many)),
    }
}

fn failed(why: String) -> Result<String, ToolError> {
    Err(ToolError::Failed(why))
}

fn ambiguous(path: &RepoPath, text: &str, places: &[usize]) -> String {
    let mut lines: Vec<String> = places
        .iter()
        .take(LINES_LISTED_MAX)
        .map(|place| line_at(text, *place).to_string())
        .collect();
    if places.len() > LINES_LISTED_MAX {
        lines.push("…".to_owned());
    }
    format!(
        "found {} matches of `old` in `{path}`, at lines {}; add lines around it to make it unique",
        places.len(),
        lines.join(", ")
    )
}

fn not_found(path: &RepoPath, text: &str, old: &str) -> String {
    let found = format!("found 0 matches of `old` in `{path}`");
    if let Some(line) = line_ignoring_whitespace(text, old) {
        let line_ends = if text.contains("\r\n") && !old.contains("\r\n") {
            " (the file has CRLF line ends)"
        } else {
            ""
        };
        return format!(
            "{found}; the text at line {line} differs only in whitespace{line_ends}: copy it exactly as \
             `file_read` shows it"
        );
    }
    if old.contains("<U+") {
        return format!(
            "{found}; `<U+…>` stands for one invisible character: leave it out of `old` and match the text beside it"
        );
    }
    format!("{found}; read the file again, it may have changed")
}

/// Returns the line of `old`, ignoring all whitespace.
fn line_ignoring_whitespace(text: &str, old: &str) -> Option<usize> {
    let bare = |text: &str| {
        text.chars()
            .filter(|character| !character.is_whitespace())
            .collect::<String>()
    };
    let old = bare(old);
    let place = bare(text).find(&old).filter(|_| !old.is_empty())?;
    let mut bytes = 0;
    let visible = text
        .char_indices()
        .filter(|(_, character)| !character.is_whitespace());
    for (position, character) in visible {
        if bytes == place {
            return Some(line_at(text, position));
        }
        bytes += character.len_utf8();
    }
    None
}

/// Returns the line number, from 1, of a byte position.
fn line_at(text: &str, position: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', text.as_bytes())
        .take_while(|line_end| *line_end < position)
        .count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::FileEdit;
    use crate::interfaces::tool::testing::{
        answer, call, failure, path, refuses_paths_outside, write_policy,
    };
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
    use serde_json::json;

    const MAIN: &str = "{\n  a: { replicas: 1 },\n  b: { replicas: 1 },\n  c: 3,\n}\n";

    fn refused(content: &str, old: &str, new: &str) -> String {
        let policy = write_policy(&[("main.jsonnet", content)]);
        let refused = failure(call::<FileEdit>(
            &policy,
            json!({ "path": "main.jsonnet", "old": old, "new": new }),
        ));
        assert_eq!(policy.tree.changes().unwrap(), []);
        refused
    }

    #[test]
    fn a_unique_text_is_replaced_and_nothing_else() {
        let policy = write_policy(&[("main.jsonnet", MAIN)]);
        let said = answer::<FileEdit>(
            &policy,
            json!({ "path": "main.jsonnet", "old": "b: { replicas: 1 }", "new": "b: { replicas: 3 }" }),
        );
        let delta = policy.delta(&path("main.jsonnet")).unwrap();
        assert_eq!(said, format!("edited main.jsonnet (line 3, {delta})"));
        let expected = "{\n  a: { replicas: 1 },\n  b: { replicas: 3 },\n  c: 3,\n}\n";
        assert_eq!(policy.text(&path("main.jsonnet")).unwrap(), expected);
    }

    #[test]
    fn a_text_that_occurs_more_than_once_is_counted_and_placed() {
        assert_eq!(
            refused(MAIN, "replicas: 1", "replicas: 2"),
            "found 2 matches of `old` in `main.jsonnet`, at lines 2, 3; add lines around it to make it unique"
        );
        assert_eq!(
            refused(&"x\n".repeat(9), "x", "y"),
            "found 9 matches of `old` in `main.jsonnet`, at lines 1, 2, 3, 4, 5, …; add lines around it to make it \
             unique"
        );
    }

    #[test]
    fn a_text_that_differs_in_whitespace_is_found_for_the_model() {
        assert_eq!(
            refused(MAIN, "b: {replicas: 1}", "x"),
            "found 0 matches of `old` in `main.jsonnet`; the text at line 3 differs only in whitespace: copy it \
             exactly as `file_read` shows it"
        );
        let crlf = refused("a: 1\r\nb: 2\r\n", "a: 1\nb: 2", "x");
        assert!(
            crlf.contains("at line 1 differs only in whitespace (the file has CRLF line ends)"),
            "{crlf}"
        );
    }

    #[test]
    fn a_text_that_is_not_there_is_said_to_be_missing() {
        let missing = "found 0 matches of `old` in `main.jsonnet`; read the file again, it may have changed";
        assert_eq!(refused(MAIN, "d: 4", "x"), missing);
        assert_eq!(refused(MAIN, "\n\n", "x"), missing);
        assert!(refused("a\u{202e}b", "a<U+202E>b", "x").contains("stands for one invisible character"));
    }

    #[test]
    fn an_edit_that_says_nothing_is_refused() {
        assert_eq!(
            refused(MAIN, "", "x"),
            "`old` is empty; use `file_write` to create a file or to replace all of it"
        );
        assert_eq!(
            refused(MAIN, "c: 3", "c: 3"),
            "`old` and `new` are the same: there is nothing to change"
        );
    }

    /// T87
    #[test]
    fn a_hidden_secret_is_neither_written_nor_in_the_way() {
        assert!(refused(MAIN, "c: 3", "c: '⟦secret:1⟧'").starts_with("the text contains `⟦secret:…⟧`"));
        // The file itself may contain such a text: only the model's text is checked.
        let policy = write_policy(&[("a", "⟦secret: is how a placeholder begins\nx\n")]);
        answer::<FileEdit>(&policy, json!({ "path": "a", "old": "x", "new": "y" }));
    }

    #[test]
    fn a_binary_file_is_not_edited() {
        let policy = write_policy(&[("a", b"x\0y")]);
        let refused = failure(call::<FileEdit>(
            &policy,
            json!({ "path": "a", "old": "x", "new": "z" }),
        ));
        assert_eq!(refused, "`a` is binary (3 bytes)");
    }

    /// T35
    #[test]
    fn paths_outside_are_refused() {
        refuses_paths_outside::<FileEdit>(|path| json!({ "path": path, "old": "x", "new": "evil" }));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn any_unique_text_can_be_replaced_and_put_back(before in "[a-c ä\n]{0,20}", after in "[a-c ä\n]{0,20}") {
            let content = format!("{before}OLD{after}");
            let policy = write_policy(&[("a", &content)]);
            answer::<FileEdit>(&policy, json!({ "path": "a", "old": "OLD", "new": "NÉW" }));
            prop_assert_eq!(policy.text(&path("a")).unwrap(), format!("{before}NÉW{after}"));
            answer::<FileEdit>(&policy, json!({ "path": "a", "old": "NÉW", "new": "OLD" }));
            prop_assert_eq!(policy.text(&path("a")).unwrap(), content);
        }

        #[test]
        fn a_hint_about_whitespace_never_splits_a_character(text in "\\PC{0,40}", old in "\\PC{1,10}") {
            let policy = write_policy(&[("a", &text)]);
            let _ = call::<FileEdit>(&policy, json!({ "path": "a", "old": old, "new": "" }));
        }
    }
}
