//! `git_diff`: returns the changes of the workspace as a unified diff.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::{PathArgument, ToolArguments};
use super::text::bounded_lines;
use super::write_policy::{LearntChanges, WritePolicy};
use crate::base::model::{Effect, FileChange, FileVersion, group_thousands, pluralize};
use crate::state::workspace::{SecretGuard, Tree, patch};
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of lines of a diff that are shown.
const LINES_MAX: usize = 5_000;

pub(super) struct GitDiff;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitDiffArguments {
    /// File or directory to show, relative to the repository root; all changes when left out.
    #[serde(default)]
    path: Option<PathArgument>,
}

impl ToolArguments for GitDiffArguments {
    const SUBJECT: Option<&'static str> = Some("path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("file", "path")];
}

impl ToolBody for GitDiff {
    type Arguments = GitDiffArguments;
    type CallContext = WritePolicy;

    const NAME: &'static str = "git_diff";
    const DESCRIPTION: &'static str = "Shows what this workspace changed against its base commit, as a unified diff. Nothing is staged or committed.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &["{}"];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(policy: &WritePolicy, arguments: GitDiffArguments) -> Result<String, ToolError> {
    let path = arguments.path.map(|path| path.parse()).transpose()?;
    let learnt = policy.changes(path.as_ref())?;
    if !learnt.changes.is_empty() {
        return Ok(diff(&learnt, &policy.guard));
    }
    Ok(match path {
        Some(path) => {
            format!("nothing changed at `{path}` against the base; `git_status` lists what did")
        }
        None => "nothing changed against the base".to_owned(),
    })
}

/// Returns the changes as a readable diff. Binary files and files with unknown secrets are named and counted, and
/// long lines and very long diffs are truncated with a note.
pub(super) fn diff(learnt: &LearntChanges, guard: &SecretGuard) -> String {
    let (hidden, changes): (Vec<&FileChange>, Vec<&FileChange>) = learnt
        .changes
        .iter()
        .partition(|change| guard.denied.is_denied(change.path.as_str()));
    let (binary, text): (Vec<&FileChange>, Vec<&FileChange>) =
        changes.into_iter().partition(|change| is_binary(change));
    let (unknown, text): (Vec<&FileChange>, Vec<&FileChange>) = text
        .into_iter()
        .partition(|change| learnt.unknown.contains(&change.path));
    let text: Vec<FileChange> = text.into_iter().cloned().collect();
    let patch = patch::write(&text).text;
    let mut shown = bounded_lines(&String::from_utf8_lossy(&patch), LINES_MAX, &guard.redactor);
    for (what, changes) in [
        ("binary file", &binary),
        ("file that holds secrets by its name", &hidden),
        ("not shown yet", &unknown),
    ] {
        let lines = changes.iter().take(LINES_MAX);
        shown.extend(lines.map(|change| line(what, change)));
    }
    if !unknown.is_empty() {
        shown.push_str(&format!(
            "[{} not shown yet: their names must first be searched in the repository to find out whether they are \
             secrets, and one call makes a limited number of searches; repeat the call to see more]\n",
            pluralize(unknown.len(), "file is", "files are")
        ));
    }
    shown
}

/// Returns the diff of changes as a model may read it: without secrets, and of bounded length.
pub fn diff_for_model(changes: Vec<FileChange>, tree: &dyn Tree, guard: &SecretGuard) -> String {
    let unknown = guard.learn(&changes, tree, &|| false).unwrap_or_default();
    diff(&LearntChanges { changes, unknown }, guard)
}

fn is_binary(change: &FileChange) -> bool {
    let mut versions = change.before.iter().chain(&change.after);
    versions.any(|version| version.content.contains(&0))
}

fn line(what: &str, change: &FileChange) -> String {
    let size = |version: &Option<FileVersion>| match version {
        Some(version) => format!("{} bytes", group_thousands(version.content.len() as u64)),
        None => "absent".to_owned(),
    };
    format!(
        "{what} {}: {} → {}\n",
        change.path,
        size(&change.before),
        size(&change.after)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{GitDiff, LearntChanges, diff};
    use crate::base::model::FileChange;
    use crate::interfaces::tool::testing::{
        answer, call, failure, path, refuses_paths_outside, write_policy,
    };
    use serde_json::json;

    /// TK-86
    #[test]
    fn the_diff_is_of_the_workspace_or_a_part_of_it() {
        let policy = write_policy(&[("a/b", "x\n"), ("ab", "x\n"), ("c", "x\n")]);
        assert_eq!(
            answer::<GitDiff>(&policy, json!({})),
            "nothing changed against the base"
        );
        for name in ["a/b", "ab"] {
            policy.write(&path(name), "y\n".to_owned(), "").unwrap();
        }
        let changes = policy.tree.changes().unwrap();
        let shown = |changes: &[FileChange]| {
            let learnt = LearntChanges {
                changes: changes.to_vec(),
                ..LearntChanges::default()
            };
            diff(&learnt, &policy.guard)
        };
        assert_eq!(answer::<GitDiff>(&policy, json!({})), shown(&changes));
        assert_eq!(
            answer::<GitDiff>(&policy, json!({ "path": null })),
            shown(&changes)
        );
        assert_eq!(
            answer::<GitDiff>(&policy, json!({ "path": "a" })),
            shown(&changes[..1])
        );
        assert_eq!(
            answer::<GitDiff>(&policy, json!({ "path": "ab" })),
            shown(&changes[1..])
        );
        assert_eq!(
            answer::<GitDiff>(&policy, json!({ "file": "c" })),
            "nothing changed at `c` against the base; `git_status` lists what did"
        );
    }

    #[test]
    fn a_binary_file_is_named_with_its_sizes() {
        let policy = write_policy(&[("logo.png", vec![0; 12_345]), ("old.bin", vec![0; 2])]);
        policy
            .write(&path("logo.png"), "text now\n".to_owned(), "")
            .unwrap();
        policy.delete(&path("old.bin")).unwrap();
        policy.write(&path("new.bin"), "\0".to_owned(), "").unwrap();
        assert_eq!(
            answer::<GitDiff>(&policy, json!({})),
            "binary file logo.png: 12,345 bytes → 9 bytes\n\
             binary file new.bin: absent → 1 bytes\n\
             binary file old.bin: 2 bytes → absent\n"
        );
    }

    /// T87
    #[test]
    fn a_diff_of_many_new_files_shows_only_files_already_searched_for_secrets() {
        let mut policy = write_policy(&[("main.jsonnet", "{ password: importstr 'key210' }\n")]);
        policy.files_changed_max = 1_000;
        for number in 0..250 {
            let content = format!("blue-moon-{number}\n");
            policy
                .write(&path(&format!("key{number:03}")), content, "")
                .unwrap();
        }
        // The answer as the loop shows it.
        let shown = || {
            let answer = answer::<GitDiff>(&policy, json!({}));
            policy.guard.redactor.redact(&answer).into_owned()
        };
        let first = shown();
        assert!(first.contains("\n+blue-moon-199\n"), "{first}");
        assert!(!first.contains("blue-moon-200") && !first.contains("blue-moon-210"));
        assert!(first.contains("not shown yet key200: absent → 14 bytes\n"));
        assert!(first.contains("[50 files are not shown yet: "), "{first}");
        let second = shown();
        assert!(second.contains("\n+blue-moon-200\n") && second.contains("\n+blue-moon-249\n"));
        assert!(second.contains("+⟦secret:1⟧\n") && !second.contains("blue-moon-210"));
        assert!(!second.contains("not shown yet"));
        policy.cancel.cancel();
        let stopped = call::<GitDiff>(&policy, json!({}));
        assert_eq!(failure(stopped), "the turn was stopped");
    }

    /// T35
    #[test]
    fn paths_outside_are_refused() {
        refuses_paths_outside::<GitDiff>(|path| json!({ "path": path }));
    }
}
