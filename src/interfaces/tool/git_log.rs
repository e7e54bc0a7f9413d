//! `git_log`: lists the newest commits.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::history::HistoryContext;
use super::text::bounded_line;
use crate::base::model::Effect;
use crate::base::redact::Redactor;
use crate::state::workspace::Commit;
use schemars::JsonSchema;
use serde::Deserialize;

/// The default number of commits.
const COMMITS_DEFAULT: usize = 10;

/// The number of hash characters that identify a commit in practice.
const SHORT_HASH_CHARS: usize = 12;

pub(super) struct GitLog;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogArguments {
    /// Commits to show, at most 100.
    #[serde(default = "commits_default")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

fn commits_default() -> usize {
    COMMITS_DEFAULT
}

impl ToolArguments for LogArguments {
    const SUBJECT: Option<&'static str> = None;
}

impl ToolBody for GitLog {
    type Arguments = LogArguments;
    type CallContext = HistoryContext;

    const NAME: &'static str = "git_log";
    const DESCRIPTION: &'static str = "Lists the newest commits up to the workspace's base: hash, date, author and first line of the message.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"limit":1}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(history: &HistoryContext, arguments: LogArguments) -> Result<String, ToolError> {
    let commits = history.repository.log(history.head()?, arguments.limit)?;
    Ok(commit_lines(&commits, &history.guard.redactor))
}

/// Returns a line for each commit, as `git_log` writes it.
pub fn commit_lines(commits: &[Commit], redactor: &Redactor) -> String {
    let lines = commits.iter();
    lines.map(|commit| commit_line(commit, redactor)).collect()
}

fn commit_line(commit: &Commit, redactor: &Redactor) -> String {
    let hash: String = commit.id.chars().take(SHORT_HASH_CHARS).collect();
    let subject = commit.message.trim_start().lines().next().unwrap_or_default();
    let date = commit.at.strftime("%Y-%m-%d");
    let line = format!("{hash} {date} {}: {subject}", commit.author);
    let line = line.replace(['\n', '\r'], " ");
    format!("{}\n", bounded_line(&line, redactor))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{LogArguments, commit_line};
    use crate::base::redact::Redactor;
    use crate::interfaces::tool::arguments::bind;
    use crate::interfaces::tool::schema;
    use crate::state::workspace::Commit;
    use serde_json::{Value, json};

    /// TK-35
    #[test]
    fn a_commit_is_one_line() {
        let commit = Commit {
            id: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            author: "Ada <ada@example.org>".to_owned(),
            at: "2026-11-20T23:59:59Z".parse().unwrap(),
            message: "\nlib: raise replicas\n\nBecause of load.\n".to_owned(),
        };
        assert_eq!(
            commit_line(&commit, &Redactor::new([])),
            "0123456789ab 2026-11-20 Ada <ada@example.org>: lib: raise replicas\n"
        );
        let untold = Commit {
            message: String::new(),
            author: "a\nb".to_owned(),
            ..commit
        };
        assert_eq!(
            commit_line(&untold, &Redactor::new([])),
            "0123456789ab 2026-11-20 a b: \n"
        );
    }

    /// TK-35
    #[test]
    fn ten_commits_unless_asked_for_more_and_never_over_a_hundred() {
        let limit = |arguments: Value| {
            let schema = schema::render::<LogArguments>();
            bind::<LogArguments>("git_log", &schema, arguments).unwrap().limit
        };
        assert_eq!(limit(json!({})), 10);
        assert_eq!(limit(json!({ "limit": 25 })), 25);
        assert_eq!(limit(json!({ "limit": 5_000 })), 100);
    }
}
