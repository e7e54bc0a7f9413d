//! `git_show`: returns one commit with its diff.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction, stopped};
use super::arguments::ToolArguments;
use super::git_diff::diff;
use super::history::HistoryContext;
use super::text::{bounded_lines, shortened};
use super::write_policy::LearntChanges;
use crate::base::model::Effect;
use crate::state::workspace::{Commit, SecretGuard};
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum length of a revision's name, in bytes.
const REVISION_BYTES_MAX: usize = 250;

/// The maximum number of lines of a commit message that are shown.
const MESSAGE_LINES_MAX: usize = 200;

pub(super) struct GitShow;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitShowArguments {
    /// Hash, `HEAD`, `HEAD~1`, branch or tag; `HEAD` is the workspace's base commit.
    #[serde(rename = "ref", default = "head")]
    revision: String,
}

fn head() -> String {
    "HEAD".to_owned()
}

impl ToolArguments for GitShowArguments {
    const SUBJECT: Option<&'static str> = Some("ref");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("hash", "ref")];
}

impl ToolBody for GitShow {
    type Arguments = GitShowArguments;
    type CallContext = HistoryContext;

    const NAME: &'static str = "git_show";
    const DESCRIPTION: &'static str = "Shows one commit: author, date, message and the unified diff of all its files against its first parent.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"ref":"HEAD"}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(history: &HistoryContext, arguments: GitShowArguments) -> Result<String, ToolError> {
    let revision = arguments.revision;
    check_revision(&revision)?;
    let is_stopped = || history.cancel.is_cancelled();
    let shown = history.repository.show(&revision, history.head()?, &is_stopped);
    let (commit, changes) = shown?;
    // Secrets are found in the whole files, because a line of a diff has too little context.
    let unknown = history.guard.learn(&changes, history.tree.as_ref(), &is_stopped);
    let unknown = unknown.ok_or_else(stopped)?;
    Ok(render(
        &commit,
        &LearntChanges { changes, unknown },
        &history.guard,
    ))
}

fn check_revision(revision: &str) -> Result<(), ToolError> {
    let is_name = !revision.is_empty()
        && revision.len() <= REVISION_BYTES_MAX
        && !revision.starts_with('-')
        && !revision
            .chars()
            .any(|character| character.is_whitespace() || character.is_control());
    if is_name {
        return Ok(());
    }
    Err(ToolError::Failed(format!(
        "`{}` is not the name of a commit; use `HEAD`, `HEAD~1`, a branch, a tag or a hash that `git_log` shows",
        shortened(revision)
    )))
}

/// Formats a commit in the style of git.
fn render(commit: &Commit, learnt: &LearntChanges, guard: &SecretGuard) -> String {
    let message: String = bounded_lines(commit.message.trim(), MESSAGE_LINES_MAX, &guard.redactor)
        .lines()
        .map(|line| format!("    {line}").trim_end().to_owned() + "\n")
        .collect();
    let date = commit.at.strftime("%Y-%m-%dT%H:%M:%SZ");
    let author = commit.author.replace(['\n', '\r'], " ");
    let diff = if learnt.changes.is_empty() {
        "(no file changed)\n".to_owned()
    } else {
        diff(learnt, guard)
    };
    format!(
        "commit {}\nAuthor: {author}\nDate: {date}\n\n{message}\n{diff}",
        commit.id
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{GitShowArguments, LearntChanges, check_revision, render};
    use crate::base::model::{FileChange, FileMode, FileVersion};
    use crate::interfaces::tool::arguments::bind;
    use crate::interfaces::tool::git_diff::diff;
    use crate::interfaces::tool::schema;
    use crate::interfaces::tool::testing::path;
    use crate::state::workspace::{Commit, SecretGuard};
    use serde_json::{Value, json};

    fn commit() -> Commit {
        Commit {
            id: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            author: "Ada <ada@example.org>".to_owned(),
            at: "2026-11-20T23:59:59Z".parse().unwrap(),
            message: "lib: raise replicas\n\nBecause of load.\n".to_owned(),
        }
    }

    /// TK-36
    #[test]
    fn a_commit_shows_author_date_message_and_diff() {
        let header = "commit 0123456789abcdef0123456789abcdef01234567\n\
                      Author: Ada <ada@example.org>\n\
                      Date: 2026-11-20T23:59:59Z\n\n    lib: raise replicas\n\n    Because of load.\n\n";
        assert_eq!(
            render(&commit(), &LearntChanges::default(), &SecretGuard::default()),
            format!("{header}(no file changed)\n")
        );
        let changes = vec![FileChange {
            path: path("a"),
            before: None,
            after: Some(FileVersion {
                content: "x\n".into(),
                mode: FileMode::Regular,
            }),
        }];
        let learnt = LearntChanges {
            changes,
            ..LearntChanges::default()
        };
        let guard = SecretGuard::default();
        assert_eq!(
            render(&commit(), &learnt, &guard),
            format!("{header}{}", diff(&learnt, &guard))
        );
    }

    /// TK-36
    #[test]
    fn head_is_shown_unless_another_commit_is_named() {
        let revision = |arguments: Value| {
            let schema = schema::render::<GitShowArguments>();
            bind::<GitShowArguments>("git_show", &schema, arguments)
                .unwrap()
                .revision
        };
        assert_eq!(revision(json!({})), "HEAD");
        assert_eq!(revision(json!({ "ref": "HEAD~1" })), "HEAD~1");
        assert_eq!(revision(json!({ "hash": "0123abc" })), "0123abc");
    }

    #[test]
    fn what_cannot_name_a_commit_is_refused() {
        for revision in [
            "",
            "--upload-pack=x",
            "-1",
            "a b",
            "HEAD\n",
            "\0",
            &"x".repeat(251),
        ] {
            let refused = check_revision(revision).unwrap_err().to_string();
            assert!(
                refused.contains("is not the name of a commit; use `HEAD`"),
                "{refused}"
            );
        }
        for revision in [
            "HEAD",
            "HEAD~1",
            "main",
            "release/1.2",
            "v1.0.0",
            "0123abc",
            "@{u}",
        ] {
            assert!(check_revision(revision).is_ok(), "{revision}");
        }
    }
}
