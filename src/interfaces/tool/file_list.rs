//! `file_list`: lists the files that match a glob.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::pattern::GlobPattern;
use super::text::PageRange;
use super::write_policy::WritePolicy;
use crate::base::model::{Effect, RepoPath, pluralize};
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of files on a page.
const FILES_MAX: usize = 200;

pub(super) struct FileList;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileListArguments {
    /// Glob over paths from the repository root, such as `**/*.jsonnet`; `**` crosses directories.
    glob_pattern: String,
    /// Files to skip before the page.
    #[serde(default)]
    offset: usize,
    /// Files to list, at most 200.
    #[serde(default = "files_max")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
}

fn files_max() -> usize {
    FILES_MAX
}

impl ToolArguments for FileListArguments {
    const SUBJECT: Option<&'static str> = Some("glob_pattern");
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("glob", "glob_pattern"), ("pattern", "glob_pattern")];
}

impl ToolBody for FileList {
    type Arguments = FileListArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "file_list";
    const DESCRIPTION: &'static str = "Lists files whose path matches a glob, sorted by path. Dot-files are left out unless the glob names one.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"glob_pattern":"environments/dev/*"}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: FileListArguments) -> Result<String, ToolError> {
    let FileListArguments {
        glob_pattern: glob,
        offset,
        limit,
    } = arguments;
    let pattern = GlobPattern::parse(&glob)?;
    let files = policy.tree.files()?;
    let listed: Vec<&RepoPath> = files.iter().filter(|path| pattern.lists(path)).collect();
    let total = listed.len();
    if total == 0 {
        return Ok(no_match(&glob, &files));
    }
    if offset >= total {
        let files = pluralize(total, "file matches", "files match");
        return Err(ToolError::Failed(format!(
            "only {files} \"{glob}\"; use an offset below {total}"
        )));
    }
    let shown = limit.min(FILES_MAX).min(total - offset);
    let page = PageRange { offset, shown, total };
    let names = listed.into_iter().skip(offset).take(shown);
    let names: String = names.map(|path| format!("{path}\n")).collect();
    if !page.is_part() {
        return Ok(names);
    }
    let header = format!(
        "[{} of {total} files matching \"{glob}\"]{}",
        page.range(),
        page.rest("")
    );
    Ok(format!("{header}\n{names}"))
}

fn no_match(glob: &str, files: &[RepoPath]) -> String {
    let directory = glob.trim_start_matches("./").trim_end_matches('/');
    let below = format!("{directory}/");
    if files.iter().any(|path| path.as_str().starts_with(&below)) {
        return format!("no files match \"{glob}\"; it is a directory: use \"{below}**\"");
    }
    format!("no files match \"{glob}\"")
}

#[cfg(test)]
mod tests {
    use super::FileList;
    use crate::interfaces::tool::testing::{answer, call, failure, refuses_globs_outside, write_policy};
    use serde_json::json;

    /// TK-29
    #[test]
    fn files_are_listed_by_path() {
        let policy = write_policy(&[
            ("b/x.jsonnet", ""),
            ("a.jsonnet", ""),
            ("b/x.txt", ""),
            (".hidden.jsonnet", ""),
        ]);
        for name in ["glob_pattern", "glob", "pattern"] {
            assert_eq!(
                answer::<FileList>(&policy, json!({ name: "**/*.jsonnet" })),
                "a.jsonnet\nb/x.jsonnet\n"
            );
        }
        assert_eq!(
            answer::<FileList>(&policy, json!({ "glob": ".*" })),
            ".hidden.jsonnet\n"
        );
    }

    /// TK-32
    #[test]
    fn a_long_list_comes_in_pages_with_the_exact_header() {
        let names: Vec<String> = (1..=350).map(|number| format!("e/{number:03}.jsonnet")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let policy = write_policy(&files);
        let first = answer::<FileList>(&policy, json!({ "glob_pattern": "**/*.jsonnet", "limit": 9_999 }));
        let header = "[1–200 of 350 files matching \"**/*.jsonnet\"] (150 more, use offset=200 to continue)";
        assert_eq!(first.lines().next(), Some(header));
        assert_eq!(first.lines().count(), 201);
        let last = answer::<FileList>(&policy, json!({ "glob_pattern": "**/*.jsonnet", "offset": 349 }));
        assert_eq!(
            last,
            "[350–350 of 350 files matching \"**/*.jsonnet\"]\ne/350.jsonnet\n"
        );
        let past = call::<FileList>(&policy, json!({ "glob_pattern": "**/*.jsonnet", "offset": 350 }));
        assert_eq!(
            failure(past),
            "only 350 files match \"**/*.jsonnet\"; use an offset below 350"
        );
    }

    #[test]
    fn no_match_says_what_would_match() {
        let policy = write_policy(&[("environments/dev/main.jsonnet", "")]);
        assert_eq!(
            answer::<FileList>(&policy, json!({ "glob": "*.yaml" })),
            "no files match \"*.yaml\""
        );
        assert_eq!(
            answer::<FileList>(&policy, json!({ "glob": "environments/dev/" })),
            "no files match \"environments/dev/\"; it is a directory: use \"environments/dev/**\""
        );
    }

    /// T35
    #[test]
    fn globs_outside_are_refused() {
        refuses_globs_outside::<FileList>(|glob| json!({ "glob_pattern": glob }));
    }

    /// T65
    #[test]
    fn a_file_name_hides_nothing() {
        let policy = write_policy(&[("a\u{202e}txt.exe", "")]);
        assert_eq!(
            answer::<FileList>(&policy, json!({ "glob": "**" })),
            "⚠ contains 1 invisible character\na<U+202E>txt.exe\n"
        );
    }
}
