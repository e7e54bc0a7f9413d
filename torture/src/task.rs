//! The request of a person: a task with a name, and the files that it writes. The text of the request describes the
//! task completely, so the model and the checks compute the same files from it.

use std::collections::BTreeMap;

/// The number of files in a directory that tasks write to.
const FILES: usize = 8;
/// The most model calls with edits.
pub(crate) const STEPS_MAX: usize = 4;

/// The files of a workspace that differ from its base.
pub(crate) type FileContents = BTreeMap<String, String>;

/// A task that the model carries out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    /// The id, unique among all tasks of a testbed.
    pub(crate) id: u32,
    /// The conversation of the task, which also names the directory of its files.
    pub(crate) conversation: u32,
    /// The number of model calls with edits, before the last call that only answers.
    pub(crate) steps: usize,
}

impl Task {
    /// Returns the word that names the task in a request.
    pub(crate) fn word(&self) -> String {
        format!("task-{}-{}-{}-end", self.id, self.conversation, self.steps)
    }

    /// Finds the task that a text names last.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once("task-")?;
        let mut words = rest.split('-');
        let task = Self {
            id: words.next()?.parse().ok()?,
            conversation: words.next()?.parse().ok()?,
            steps: words.next()?.parse().ok()?,
        };
        (words.next()?.starts_with("end") && task.steps <= STEPS_MAX).then_some(task)
    }

    /// Returns the model's words when the task is done.
    pub(crate) fn done(&self) -> String {
        format!("Task {} is done.", self.id)
    }

    /// Returns the files that one step writes: one or two, with unique contents. No two steps of a task write the same
    /// file.
    pub(crate) fn edits(&self, step: usize) -> Vec<(String, String)> {
        let count = 1 + (self.id as usize + step) % 2;
        let edits = (0..count).map(|edit| {
            let file = (self.id as usize + step * 2 + edit) % FILES;
            let end = if (self.id as usize + step).is_multiple_of(5) {
                ""
            } else {
                "\n"
            };
            let content = format!(
                "task {} step {step}\nedit {edit}: grüße ✓ of talk {}{end}",
                self.id, self.conversation
            );
            (format!("notes/{}/f{file}.txt", self.conversation), content)
        });
        edits.collect()
    }

    /// Applies the first `steps` steps to some files.
    pub(crate) fn apply(&self, steps: usize, files: &mut FileContents) {
        for step in 0..steps.min(self.steps) {
            files.extend(self.edits(step));
        }
    }
}

/// Returns the files that a patch adds to a base without them. Fails if the patch does anything else.
pub(crate) fn files_of_patch(patch: &str) -> Result<FileContents, String> {
    let mut files = FileContents::new();
    for section in patch.split("diff --git ").skip(1) {
        let (head, body) = section.split_once("\n@@ ").ok_or("a section without a hunk")?;
        let path = head
            .lines()
            .find_map(|line| line.strip_prefix("+++ b/"))
            .ok_or("a section without a new path")?;
        if !head.contains("\n--- /dev/null") {
            return Err(format!("{path} is changed and not added"));
        }
        let mut content = String::new();
        for line in body.lines().skip(1) {
            match line.split_at_checked(1) {
                Some(("+", text)) => {
                    content.push_str(text);
                    content.push('\n');
                }
                Some(("\\", _)) => {
                    content.pop();
                }
                _ => return Err(format!("a line of {path} that adds nothing: {line}")),
            }
        }
        files.insert(path.to_owned(), content);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{FileContents, Task, files_of_patch};

    #[test]
    fn a_request_names_its_task() {
        let task = Task {
            id: 17,
            conversation: 3,
            steps: 4,
        };
        let text = format!("<@U0> do task-1-1-1-end, no, {}.", task.word());
        assert_eq!(Task::in_text(&text), Some(task));
        assert_eq!(Task::in_text("task-1-2"), None);
    }

    #[test]
    fn the_steps_of_a_task_write_different_files() {
        for id in 0..40 {
            let task = Task {
                id,
                conversation: 1,
                steps: 4,
            };
            let edits: Vec<_> = (0..4).flat_map(|step| task.edits(step)).collect();
            let mut files = FileContents::new();
            task.apply(4, &mut files);
            assert_eq!(files.len(), edits.len(), "{id}");
        }
    }

    #[test]
    fn a_patch_is_read_byte_for_byte() {
        let patch = "diff --git a/n/a.txt b/n/a.txt\nnew file mode 100644\nindex 0000000..1\n--- /dev/null\n+++ b/n/a.txt\n\
                     @@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n\
                     diff --git a/n/b.txt b/n/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n/b.txt\n@@ -0,0 +1 @@\n+x\n";
        let expected = [("n/a.txt", "one\ntwo"), ("n/b.txt", "x\n")];
        let expected: FileContents = expected
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
        assert_eq!(files_of_patch(patch), Ok(expected));
        assert!(files_of_patch("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n").is_err());
    }
}
