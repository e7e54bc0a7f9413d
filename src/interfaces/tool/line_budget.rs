//! The budget of changed lines of one conversation: the lines that its files add to the base and remove from it. Binary files have
//! none, and those of packages do not count.

use super::ToolError;
use super::write_policy::{WritePolicy, is_packaged};
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath, group_thousands};
use crate::state::workspace::patch;
use bytes::Bytes;
use std::collections::BTreeMap;

impl WritePolicy {
    /// Refuses writes and deletions, all together, after which more lines differ from the base than a conversation may change.
    /// Those that reduce the number are always admitted.
    pub(super) fn admit_lines(&self, written: &BTreeMap<RepoPath, Option<Bytes>>) -> Result<(), ToolError> {
        let files = self.tree.files()?;
        let mut before = self.tree.changes()?;
        // As in the budget of files: if a file in `vendor/` is written directly, all of them count.
        if !written.keys().any(|path| is_packaged(path, &files)) {
            before.retain(|change| !is_packaged(&change.path, &files));
        }
        let mut after = before.clone();
        for (path, content) in written {
            self.put_change(&mut after, path, content.as_ref());
        }
        if line_ends(&after) <= self.lines_changed_max {
            return Ok(());
        }
        let lines = lines_changed(&after);
        if lines <= self.lines_changed_max || lines <= lines_changed(&before) {
            return Ok(());
        }
        let mut paths = written.keys();
        let unwritten = match (paths.next(), paths.next()) {
            (Some(path), None) => format!("`{path}` was not changed"),
            _ => "nothing was written".to_owned(),
        };
        let why = format!(
            "this would change {} lines, and the change budget is {} lines: {unwritten}",
            group_thousands(lines),
            group_thousands(self.lines_changed_max)
        );
        let instead = "; change fewer lines, or finish with the files changed so far and tell the person that the \
                       change has to be split over conversations, or `limits.lines_changed_max` raised by an operator";
        Err(ToolError::refused_with_advice(why, instead))
    }

    /// Puts the outcome of a write or deletion into a list of changes.
    fn put_change(&self, changes: &mut Vec<FileChange>, path: &RepoPath, content: Option<&Bytes>) {
        // What cannot be read cannot be written either; the write itself reports the reason.
        let path = self.tree.real_path(path).unwrap_or_else(|_| path.clone());
        let now = self.tree.read_stored(&path).ok().flatten();
        let after = content.map(|content| FileVersion {
            content: content.clone(),
            mode: now.as_ref().map_or(FileMode::Regular, |now| now.mode),
        });
        match changes.iter_mut().find(|change| change.path == path) {
            Some(change) => change.after = after,
            None => changes.push(FileChange {
                path,
                before: now,
                after,
            }),
        }
    }
}

/// Returns the lines of both sides of changes. No more can differ.
fn line_ends(changes: &[FileChange]) -> u64 {
    let versions = changes
        .iter()
        .flat_map(|change| change.before.iter().chain(&change.after));
    let lines = versions.map(|version| version.content.split(|byte| *byte == b'\n').count());
    lines.map(|lines| lines as u64).sum()
}

/// Returns the number of lines that changes add and remove.
fn lines_changed(changes: &[FileChange]) -> u64 {
    let stats = patch::write(changes).stats;
    stats.iter().map(|stats| stats.added + stats.removed).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::interfaces::tool::ToolError;
    use crate::interfaces::tool::testing::{failure, path, write_policy};

    fn lines(word: &str, count: usize) -> String {
        (0..count).map(|number| format!("{word} {number}\n")).collect()
    }

    /// T68
    #[test]
    fn more_than_five_thousand_changed_lines_are_over_the_change_budget() {
        let long = lines("old", 5_001);
        let policy = write_policy(&[
            ("long", long.as_str()),
            ("half", &lines("old", 2_500)),
            ("c", "x\n"),
        ]);
        let write = |name: &str, text: &str| policy.write(&path(name), text.to_owned(), text);
        let refused = policy.delete(&path("long"));
        assert_eq!(
            failure(refused),
            "this would change 5,001 lines, and the change budget is 5,000 lines: `long` was not changed; change fewer \
             lines, or finish with the files changed so far and tell the person that the change has to be split over conversations, or \
             `limits.lines_changed_max` raised by an operator"
        );
        // What stays the same does not count.
        write("long", &format!("{long}one more\n")).unwrap();
        // A rewrite counts twice: the lines that go, and those that come.
        let rewritten = lines("new", 2_499);
        write("half", &rewritten).unwrap();
        let refused = write("c", "y\n").unwrap_err();
        assert!(
            matches!(&refused, ToolError::Refused { why, .. } if why.starts_with("this would change 5,002 lines")),
            "{refused}"
        );
        // What brings files nearer to the base is admitted.
        write("half", &lines("old", 2_499)).unwrap();
        write("c", "y\n").unwrap();
        assert_eq!(policy.tree.changes().unwrap().len(), 3);
    }

    /// T68: lines of packages do not count, and neither do binary files.
    #[test]
    fn packages_and_binary_files_have_no_lines_in_the_budget() {
        let policy = write_policy(&[("jsonnetfile.lock.json", "{}"), ("vendor/a/b.libsonnet", "{}\n")]);
        let (packaged, binary) = (lines("p", 6_000), "\0\n".repeat(6_000));
        policy
            .tree
            .write(&path("vendor/a/b.libsonnet"), packaged.into())
            .unwrap();
        policy.write(&path("logo.png"), binary, "").unwrap();
        policy.write(&path("a"), "x\n".to_owned(), "x\n").unwrap();
        let refused = policy.write(&path("vendor/a/c.libsonnet"), "x\n".to_owned(), "x\n");
        assert!(failure(refused).starts_with("this would change 6,"));
    }
}
