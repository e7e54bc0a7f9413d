//! `file_search`: finds lines that contain a text.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::pattern::GlobPattern;
use super::text::PageRange;
use super::write_policy::WritePolicy;
use crate::base::model::{Effect, pluralize};
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of matches on a page.
const MATCHES_MAX: usize = 200;

/// The maximum length of the search text, in bytes.
const QUERY_BYTES_MAX: usize = 1_000;

pub(super) struct FileSearch;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// Glob over paths from the repository root, such as `**/*.libsonnet`; `**` searches all files.
    glob_pattern: String,
    /// The exact text to find, within one line; case matters and nothing is a wildcard.
    text_query: String,
    /// Matches to skip before the page.
    #[serde(default)]
    offset: usize,
    /// Matches to show, at most 200.
    #[serde(default = "matches_max")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
}

fn matches_max() -> usize {
    MATCHES_MAX
}

impl ToolArguments for SearchArguments {
    const SUBJECT: Option<&'static str> = Some("glob_pattern");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("glob", "glob_pattern"),
        ("pattern", "glob_pattern"),
        ("query", "text_query"),
        ("text", "text_query"),
    ];
}

impl ToolBody for FileSearch {
    type Arguments = SearchArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "file_search";
    const DESCRIPTION: &'static str = "Finds every line that contains a text, in the files that match a glob. Answers `file:line:` and the line.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"glob_pattern":"**","text_query":"web"}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: SearchArguments) -> Result<String, ToolError> {
    let SearchArguments {
        glob_pattern: glob,
        text_query: query,
        offset,
        limit,
    } = arguments;
    let pattern = GlobPattern::parse(&glob)?;
    check_query(&query)?;
    let (matches, total) = policy.tree.search(
        &|path| pattern.matcher().is_match(path),
        &query,
        offset,
        limit.min(MATCHES_MAX),
    )?;
    if total == 0 {
        return Ok(format!("no matches for \"{query}\" in files matching \"{glob}\""));
    }
    if offset >= total {
        let matches = pluralize(total, "match", "matches");
        return Err(ToolError::Failed(format!(
            "only {matches} for \"{query}\"; use an offset below {total}"
        )));
    }
    let page = PageRange {
        offset,
        shown: matches.len(),
        total,
    };
    let lines: String = matches
        .iter()
        .map(|found| format!("{}:{}:{}\n", found.path, found.line, found.text))
        .collect();
    if !page.is_part() {
        return Ok(lines);
    }
    let header = format!(
        "[{} of {total} matches for \"{query}\"]{}",
        page.range(),
        page.rest("")
    );
    Ok(format!("{header}\n{lines}"))
}

fn check_query(query: &str) -> Result<(), ToolError> {
    let why = if query.is_empty() {
        "`text_query` is empty; use `file_list` to find files by name".to_owned()
    } else if query.contains(['\n', '\r']) {
        "`text_query` has more than one line; search for one of them".to_owned()
    } else if query.len() > QUERY_BYTES_MAX {
        format!(
            "`text_query` has {} bytes; the limit is {QUERY_BYTES_MAX}",
            query.len()
        )
    } else {
        return Ok(());
    };
    Err(ToolError::Failed(why))
}

#[cfg(test)]
mod tests {
    use super::FileSearch;
    use crate::interfaces::tool::testing::{answer, call, failure, refuses_globs_outside, write_policy};
    use serde_json::json;

    /// TK-30
    #[test]
    fn matches_are_prefixed_with_file_and_line() {
        let policy = write_policy(&[
            ("b.jsonnet", "x\n  replicas: 2,\n"),
            ("a.jsonnet", "  replicas: 1,\n"),
            ("a.txt", "replicas: 3\n"),
        ]);
        for (glob, query) in [
            ("glob_pattern", "text_query"),
            ("glob", "query"),
            ("pattern", "text"),
        ] {
            assert_eq!(
                answer::<FileSearch>(&policy, json!({ glob: "**/*.jsonnet", query: "replicas:" })),
                "a.jsonnet:1:  replicas: 1,\nb.jsonnet:2:  replicas: 2,\n"
            );
        }
    }

    /// TK-32
    #[test]
    fn many_matches_come_in_pages_with_the_exact_header() {
        let policy = write_policy(&[("a.yaml", "apiVersion: v1\n".repeat(412))]);
        let search = |offset: usize| {
            call::<FileSearch>(
                &policy,
                json!({ "glob": "**", "query": "apiVersion", "offset": offset }),
            )
        };
        let first = search(0).unwrap_or_default();
        let header = "[1–200 of 412 matches for \"apiVersion\"] (212 more, use offset=200 to continue)";
        assert_eq!(first.lines().next(), Some(header));
        assert_eq!(first.lines().last(), Some("a.yaml:200:apiVersion: v1"));
        let last = search(411).unwrap_or_default();
        assert_eq!(
            last,
            "[412–412 of 412 matches for \"apiVersion\"]\na.yaml:412:apiVersion: v1\n"
        );
        assert_eq!(
            failure(search(412)),
            "only 412 matches for \"apiVersion\"; use an offset below 412"
        );
    }

    #[test]
    fn nothing_found_is_an_answer() {
        let policy = write_policy(&[("a", "x\n")]);
        assert_eq!(
            answer::<FileSearch>(&policy, json!({ "glob": "**", "query": "y" })),
            "no matches for \"y\" in files matching \"**\""
        );
    }

    #[test]
    fn a_query_that_cannot_match_a_line_is_refused() {
        let policy = write_policy(&[("a", "x\n")]);
        for (query, why) in [
            (
                String::new(),
                "`text_query` is empty; use `file_list` to find files by name",
            ),
            (
                "a\nb".to_owned(),
                "`text_query` has more than one line; search for one of them",
            ),
            (
                "x".repeat(1_001),
                "`text_query` has 1001 bytes; the limit is 1000",
            ),
        ] {
            let refused = call::<FileSearch>(&policy, json!({ "glob": "**", "query": query }));
            assert_eq!(failure(refused), why);
        }
    }

    /// T35
    #[test]
    fn globs_outside_are_refused() {
        refuses_globs_outside::<FileSearch>(|glob| json!({ "glob_pattern": glob, "text_query": "root" }));
    }
}
