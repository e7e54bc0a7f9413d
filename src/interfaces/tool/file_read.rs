//! `file_read`: returns a page of a text file.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::{PathArgument, ToolArguments};
use super::text::{PageRange, bounded_line};
use super::write_policy::WritePolicy;
use crate::base::model::{Effect, pluralize};
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of lines on a page.
const LINES_MAX: usize = 500;

pub(super) struct FileRead;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// Path of the file, relative to the repository root.
    path: PathArgument,
    /// Lines to skip before the page.
    #[serde(default)]
    offset: usize,
    /// Lines to read, at most 500.
    #[serde(default = "lines_max")]
    #[schemars(range(min = 1, max = 500))]
    limit: usize,
}

fn lines_max() -> usize {
    LINES_MAX
}

impl ToolArguments for ReadArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("file", "path")];
}

impl ToolBody for FileRead {
    type Arguments = ReadArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "file_read";
    const DESCRIPTION: &'static str = "Reads a text file of the repository as the workspace has it now. Long files come in pages of 500 lines.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"path":"environments/dev/main.jsonnet"}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: ReadArguments) -> Result<String, ToolError> {
    let path = arguments.path.parse()?;
    let text = policy.text(&path)?;
    let total = text.split_inclusive('\n').count();
    if total == 0 {
        return Ok(format!("`{path}` is empty"));
    }
    let offset = arguments.offset;
    if offset >= total {
        let lines = pluralize(total, "line", "lines");
        return Err(ToolError::Failed(format!(
            "`{path}` has only {lines}; use an offset below {total}"
        )));
    }
    let shown = arguments.limit.min(LINES_MAX).min(total - offset);
    let page = PageRange { offset, shown, total };
    let lines = text.split_inclusive('\n').skip(offset).take(shown);
    let lines: String = lines
        .map(|line| bounded_line(line, &policy.guard.redactor))
        .collect();
    if !page.is_part() {
        return Ok(lines);
    }
    let header = format!(
        "[{path}: lines {} of {total}]{}",
        page.range(),
        page.rest(" lines")
    );
    Ok(format!("{header}\n{lines}"))
}

#[cfg(test)]
mod tests {
    use super::FileRead;
    use crate::interfaces::tool::testing::{answer, call, failure, refuses_paths_outside, write_policy};
    use serde_json::json;

    fn numbered(lines: usize) -> String {
        (1..=lines).map(|line| format!("line {line}\n")).collect()
    }

    /// TK-27
    #[test]
    fn a_short_file_is_read_as_it_is() {
        let policy = write_policy(&[("a/main.jsonnet", "{\n  a: 1,\n}")]);
        assert_eq!(
            answer::<FileRead>(&policy, json!({ "path": "a/main.jsonnet" })),
            "{\n  a: 1,\n}"
        );
        assert_eq!(
            answer::<FileRead>(&policy, json!({ "file": "./a/main.jsonnet" })),
            "{\n  a: 1,\n}"
        );
    }

    /// TK-32
    #[test]
    fn a_long_file_comes_in_pages_with_the_exact_header() {
        let policy = write_policy(&[("file.go", numbered(1_200))]);
        let first = answer::<FileRead>(&policy, json!({ "path": "file.go" }));
        let header = "[file.go: lines 1–500 of 1200] (700 more lines, use offset=500 to continue)";
        assert_eq!(first, format!("{header}\n{}", numbered(500)));
        let last = answer::<FileRead>(&policy, json!({ "path": "file.go", "offset": 1_198 }));
        assert_eq!(last, "[file.go: lines 1199–1200 of 1200]\nline 1199\nline 1200\n");
        let middle = answer::<FileRead>(&policy, json!({ "path": "file.go", "offset": "2", "limit": 1 }));
        assert_eq!(
            middle,
            "[file.go: lines 3–3 of 1200] (1197 more lines, use offset=3 to continue)\nline 3\n"
        );
    }

    /// TK-27
    #[test]
    fn a_page_never_has_more_than_500_lines() {
        let policy = write_policy(&[("file.go", numbered(1_200)), ("exact", numbered(500))]);
        let page = answer::<FileRead>(&policy, json!({ "path": "file.go", "limit": 100_000 }));
        assert!(page.starts_with("[file.go: lines 1–500 of 1200] (700 more lines, use offset=500"));
        assert_eq!(
            answer::<FileRead>(&policy, json!({ "path": "exact" })),
            numbered(500)
        );
    }

    #[test]
    fn an_offset_past_the_end_says_how_long_the_file_is() {
        let policy = write_policy(&[("a", "x\ny\n"), ("one", "x"), ("empty", "")]);
        assert_eq!(
            failure(call::<FileRead>(&policy, json!({ "path": "a", "offset": 2 }))),
            "`a` has only 2 lines; use an offset below 2"
        );
        assert_eq!(
            failure(call::<FileRead>(
                &policy,
                json!({ "path": "one", "offset": u64::MAX })
            )),
            "`one` has only 1 line; use an offset below 1"
        );
        assert_eq!(
            answer::<FileRead>(&policy, json!({ "path": "empty" })),
            "`empty` is empty"
        );
    }

    #[test]
    fn what_is_not_text_is_refused_with_its_size() {
        let policy = write_policy(&[
            ("logo.png", vec![0; 12_345]),
            ("latin1.txt", b"gr\xfc\xdfe".to_vec()),
        ]);
        let refused = |path: &str| failure(call::<FileRead>(&policy, json!({ "path": path })));
        assert_eq!(refused("logo.png"), "`logo.png` is binary (12,345 bytes)");
        assert_eq!(refused("latin1.txt"), "`latin1.txt` is not UTF-8 text (5 bytes)");
        assert_eq!(refused("nowhere"), "no file `nowhere`");
    }

    #[test]
    fn a_line_of_20000_characters_is_cut() {
        let policy = write_policy(&[("a", "é".repeat(20_000) + "\nnext\n")]);
        let expected = "é".repeat(2_000) + "[… 18,000 more characters]\nnext\n";
        assert_eq!(answer::<FileRead>(&policy, json!({ "path": "a" })), expected);
    }

    /// T65
    #[test]
    fn hidden_instructions_are_shown_and_counted() {
        let tags: String = std::iter::repeat_n('\u{e0041}', 120).collect();
        let policy = write_policy(&[("a", format!("x{tags}\n"))]);
        let shown = answer::<FileRead>(&policy, json!({ "path": "a" }));
        let expected = format!(
            "⚠ contains 120 invisible characters\nx{}\n",
            "<U+E0041>".repeat(120)
        );
        assert_eq!(shown, expected);
    }

    /// T35
    #[test]
    fn paths_outside_are_refused() {
        refuses_paths_outside::<FileRead>(|path| json!({ "path": path }));
    }
}
