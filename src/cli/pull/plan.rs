//! The plan of a pull: the new state of each file. It is made for all files before the first one is written, from the answer of
//! the server, the base commit of this repository and the files as they are now. The answer is not trusted.

use crate::base::model::{
    FileMode, FileVersion, PulledChange, PulledFile, PulledSide, RepoPath, fold_name, is_hex, pluralize,
};
use crate::cli::CliError;
use crate::state::workspace::merge::{MergeOutcome, merge};
use crate::state::workspace::{Directory, Repository, RepositoryError, patch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of files that cannot be merged that are listed by name.
const CONFLICTS_SHOWN_MAX: usize = 20;

/// The effect of a pull on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileStep {
    /// It becomes the file of the change.
    Written,
    /// It keeps the edits of the person, and gets those of the change.
    Merged,
    /// It is removed.
    Deleted,
    /// It is as the change wants it already.
    Unchanged,
}

impl FileStep {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Merged => "merged",
            Self::Deleted => "deleted",
            Self::Unchanged => "unchanged",
        }
    }
}

/// A file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedFile {
    pub(super) path: RepoPath,
    pub(super) step: FileStep,
    /// The file as it is now.
    pub(super) current: Option<FileVersion>,
    /// The file after the pull.
    pub(super) after: Option<FileVersion>,
}

/// The repository and the work tree of a person.
pub(super) struct Checkout {
    pub(super) repository: Arc<Repository>,
    pub(super) directory: Directory,
}

impl Checkout {
    /// Plans the pull of a change. Fails if one of its files cannot be written.
    pub(super) fn plan(&self, change: &PulledChange) -> Result<Vec<PlannedFile>, CliError> {
        check_names(change)?;
        let mut planned = Vec::with_capacity(change.files.len());
        let mut conflicts = Vec::new();
        for file in &change.files {
            let before = self.base_version(change, file)?;
            let after = changed_version(file, before.as_ref(), &change.base)?;
            let put = |after: Option<&FileVersion>| {
                self.directory
                    .check_put(&file.path, after)
                    .map_err(nothing_written)
            };
            let current = match put(after.as_ref()) {
                // The change leaves it as it is in the base, so what is there now may stay.
                Err(_) if before == after => continue,
                current => current?,
            };
            let unedited = match is_earlier(current.as_ref(), file, &change.base) {
                // It was pulled as an earlier revision, and not edited since.
                true => &current,
                false if before == after => continue,
                false => &before,
            };
            match decide(unedited.as_ref(), current.as_ref(), after.as_ref()) {
                Ok((step, after)) => {
                    // A merged file is larger than that of the change.
                    put(after.as_ref())?;
                    planned.push(PlannedFile {
                        path: file.path.clone(),
                        step,
                        current,
                        after,
                    });
                }
                Err(why) => conflicts.push((&file.path, why)),
            }
        }
        match conflicts.is_empty() {
            true => Ok(planned),
            false => Err(conflict_error(change, &conflicts)),
        }
    }

    /// Returns a file of the base, as this repository has it.
    fn base_version(
        &self,
        change: &PulledChange,
        file: &PulledFile,
    ) -> Result<Option<FileVersion>, CliError> {
        let found = self.repository.file_at(&change.base, &file.path);
        let found = found.map_err(|error| match error {
            RepositoryError::UnknownRevision(_) => missing_base(change),
            error => nothing_written(format!(
                "`{}` cannot be read from commit {}: {error}; `git fetch` may bring it",
                file.path,
                short(&change.base)
            )),
        })?;
        let is_same = match (&found, &file.before) {
            (None, None) => true,
            (Some(found), Some(before)) => is_side(found, before, &change.base),
            (Some(_), None) | (None, Some(_)) => false,
        };
        match is_same {
            true => Ok(found),
            false => Err(nothing_written(format!(
                "`{}` in commit {} is not the file that the change was made from",
                file.path,
                short(&change.base)
            ))),
        }
    }
}

/// Returns what a file becomes, or why it cannot be merged. `before` is the file without edits of the person.
fn decide(
    before: Option<&FileVersion>,
    current: Option<&FileVersion>,
    after: Option<&FileVersion>,
) -> Result<(FileStep, Option<FileVersion>), &'static str> {
    if current == after {
        return Ok((FileStep::Unchanged, after.cloned()));
    }
    if current == before {
        let step = match after {
            Some(_) => FileStep::Written,
            None => FileStep::Deleted,
        };
        return Ok((step, after.cloned()));
    }
    if let Some((before, current)) = before.zip(current)
        && has_other_line_ends(&before.content, &current.content)
    {
        // Git may have converted them, by its configuration or by attributes.
        return Err(
            "its lines end with CRLF here and with LF in the commit, or the other way round, and a pull converts none",
        );
    }
    let (current, after) = match (before, current, after) {
        (_, Some(_), None) => return Err("you edited it, and the change deletes it"),
        (_, None, _) => return Err("you deleted it, and the change edits it"),
        (None, Some(_), Some(_)) => {
            return Err("you have another file of this name, and the change adds one");
        }
        (Some(before), Some(current), Some(after)) => {
            let sides = [before, current, after];
            if sides.iter().any(|side| side.mode == FileMode::Symlink) {
                return Err("it is a symlink, which cannot be merged");
            }
            (current, merged(before, current, after)?)
        }
    };
    match after == *current {
        true => Ok((FileStep::Unchanged, Some(after))),
        false => Ok((FileStep::Merged, Some(after))),
    }
}

/// The end of each line of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnds {
    Lf,
    CrLf,
}

/// Returns the end of all lines of a text; `None` if they differ, or if there are no lines.
fn line_ends(content: &[u8]) -> Option<LineEnds> {
    let mut ends = memchr::memchr_iter(b'\n', content).map(|at| {
        let before = at.checked_sub(1).and_then(|before| content.get(before));
        match before == Some(&b'\r') {
            true => LineEnds::CrLf,
            false => LineEnds::Lf,
        }
    });
    let first = ends.next()?;
    ends.all(|end| end == first).then_some(first)
}

/// True if all lines of one text end with CRLF, and all of the other with LF.
fn has_other_line_ends(one: &[u8], other: &[u8]) -> bool {
    let ends = line_ends(one).zip(line_ends(other));
    ends.is_some_and(|(one, other)| one != other)
}

/// Returns a file with the edits of both sides.
fn merged(
    before: &FileVersion,
    current: &FileVersion,
    after: &FileVersion,
) -> Result<FileVersion, &'static str> {
    let content = match merge(&before.content, &current.content, &after.content) {
        MergeOutcome::Merged(content) => content.into(),
        MergeOutcome::Contained => current.content.clone(),
        MergeOutcome::Conflict => return Err("you and the change edit the same lines"),
        MergeOutcome::Binary => return Err("you edited it, and it is no text that can be merged"),
    };
    let mode = match current.mode == before.mode {
        true => after.mode,
        false => current.mode,
    };
    Ok(FileVersion { content, mode })
}

/// Returns the file that the change makes of the file in the base.
fn changed_version(
    file: &PulledFile,
    before: Option<&FileVersion>,
    base: &str,
) -> Result<Option<FileVersion>, CliError> {
    let Some(side) = &file.after else {
        return Ok(None);
    };
    let old = before.map_or(&b""[..], |before| &before.content);
    let content = patch::apply_line_edits(old, &file.edits);
    let version = content.map(|content| FileVersion {
        content: content.into(),
        mode: side.mode,
    });
    match version {
        Some(version) if is_side(&version, side, base) => Ok(Some(version)),
        Some(_) | None => Err(nothing_written(format!(
            "the edits of `{}` in the answer do not make its content",
            file.path
        ))),
    }
}

fn is_side(version: &FileVersion, side: &PulledSide, base: &str) -> bool {
    version.mode == side.mode && patch::blob_name(&version.content, base).as_deref() == Some(&*side.blob)
}

/// True if a file is as an earlier revision of the change made it.
fn is_earlier(current: Option<&FileVersion>, file: &PulledFile, base: &str) -> bool {
    file.earlier.iter().any(|earlier| match (current, earlier) {
        (None, None) => true,
        (Some(current), Some(side)) => is_side(current, side, base),
        (Some(_), None) | (None, Some(_)) => false,
    })
}

/// Refuses paths that are there twice, or that some file systems treat as one.
fn check_names(change: &PulledChange) -> Result<(), CliError> {
    let mut spelled: BTreeMap<String, &str> = BTreeMap::new();
    let mut files: BTreeMap<&str, ()> = BTreeMap::new();
    for file in &change.files {
        let path = file.path.as_str();
        if files.insert(path, ()).is_some() {
            return Err(nothing_written(format!("the answer has `{path}` twice")));
        }
        // The base may have such names, on a file system that keeps them apart.
        if file.before.is_some() {
            continue;
        }
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let name = path.get(..end).unwrap_or_default();
            let folded: Vec<_> = name.split('/').map(fold_name).collect();
            let other = spelled.insert(folded.join("/"), name);
            if let Some(other) = other.filter(|other| *other != name) {
                return Err(nothing_written(format!(
                    "the change adds `{other}` and `{name}`, which are one name on some file systems"
                )));
            }
        }
    }
    Ok(())
}

/// Returns an error that says that nothing was written.
fn nothing_written(why: impl std::fmt::Display) -> CliError {
    CliError::failed(format!("nothing was written: {why}"))
}

fn missing_base(change: &PulledChange) -> CliError {
    nothing_written(format!(
        "commit {} of the repository `{}`, from which CHG-{} was made, is not here; run `git fetch`, or change to a \
         checkout of that repository",
        short(&change.base),
        change.repository,
        change.change
    ))
}

/// Returns the first digits of a commit.
fn short(commit: &str) -> String {
    let digits: String = commit.chars().take(12).collect();
    match is_hex(&digits) {
        true => digits,
        false => "?".to_owned(),
    }
}

fn conflict_error(change: &PulledChange, conflicts: &[(&RepoPath, &'static str)]) -> CliError {
    let files = pluralize(conflicts.len(), "file", "files");
    let mut lines = vec![format!("{files} cannot be merged:")];
    let shown = conflicts.iter().take(CONFLICTS_SHOWN_MAX);
    lines.extend(shown.map(|(path, why)| format!("  {path}: {why}")));
    if conflicts.len() > CONFLICTS_SHOWN_MAX {
        lines.push(format!("  and {} more", conflicts.len() - CONFLICTS_SHOWN_MAX));
    }
    lines.push(format!(
        "Set your edits of these files aside, for instance with `git stash`, and pull again; or merge by hand with \
         `drydock pull {0} --patch > CHG-{0}.patch` and `git apply --3way CHG-{0}.patch`.",
        change.change
    ));
    nothing_written(lines.join("\n"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{FileStep, decide};
    use crate::base::model::{FileMode, FileVersion};

    fn version(content: &'static str, mode: FileMode) -> FileVersion {
        FileVersion {
            content: content.into(),
            mode,
        }
    }

    fn file(content: &'static str) -> FileVersion {
        version(content, FileMode::Regular)
    }

    #[test]
    fn a_pulled_file_is_written_merged_deleted_kept_or_refused() {
        let (base, new) = (file("1\n2\n3\n4\n5\n"), file("1\n2\n3\n4\nfive\n"));
        let (mine, both) = (file("one\n2\n3\n4\n5\n"), file("one\n2\n3\n4\nfive\n"));
        let decided = |before: &FileVersion, current: Option<&FileVersion>, after: Option<&FileVersion>| {
            decide(Some(before), current, after)
        };
        let done = |step, after: Option<&FileVersion>| Ok((step, after.cloned()));
        assert_eq!(
            decided(&base, Some(&base), Some(&new)),
            done(FileStep::Written, Some(&new))
        );
        assert_eq!(
            decided(&base, Some(&new), Some(&new)),
            done(FileStep::Unchanged, Some(&new))
        );
        assert_eq!(
            decided(&base, Some(&mine), Some(&new)),
            done(FileStep::Merged, Some(&both))
        );
        assert_eq!(
            decided(&base, Some(&both), Some(&new)),
            done(FileStep::Unchanged, Some(&both))
        );
        assert_eq!(decided(&base, Some(&base), None), done(FileStep::Deleted, None));
        assert_eq!(decided(&base, None, None), done(FileStep::Unchanged, None));
        assert_eq!(
            decide(None, None, Some(&new)),
            done(FileStep::Written, Some(&new))
        );
        let other = file("1\n2\n3\n4\n5 and more\n");
        for (before, current, after) in [
            (Some(&base), Some(&other), Some(&new)),
            (Some(&base), None, Some(&new)),
            (Some(&base), Some(&mine), None),
            (None, Some(&mine), Some(&new)),
            (Some(&base), Some(&file("\0")), Some(&new)),
            (Some(&base), Some(&version("1", FileMode::Symlink)), Some(&new)),
        ] {
            assert!(decide(before, current, after).is_err(), "{current:?} {after:?}");
        }
    }

    #[test]
    fn converted_line_ends_are_never_merged() {
        let base = file("1\n2\n3\n4\n5\n");
        let converted = file("1\r\n2\r\n3\r\n4\r\n5\r\n");
        let new = file("1\n2\n3\n4\nfive\n");
        for (before, current) in [(&base, &converted), (&converted, &base)] {
            for after in [Some(&new), None] {
                let refused = decide(Some(before), Some(current), after).unwrap_err();
                assert!(refused.contains("CRLF"), "{refused}");
            }
        }
        // One line of a person is an edit like others.
        let edited = file("1\r\n2\n3\n4\n5\n");
        let merged = decide(Some(&base), Some(&edited), Some(&new)).unwrap();
        assert_eq!(merged, (FileStep::Merged, Some(file("1\r\n2\n3\n4\nfive\n"))));
        assert!(decide(Some(&file("one")), Some(&file("two\r\n")), Some(&new)).is_err());
    }

    #[test]
    fn a_pull_changes_the_executable_bit_unless_the_person_did() {
        let program = |content| version(content, FileMode::Executable);
        let (base, mine) = (file("1\n2\n3\n"), file("one\n2\n3\n"));
        let step = |current: &FileVersion, after: &FileVersion| {
            decide(Some(&base), Some(current), Some(after))
                .unwrap()
                .1
                .unwrap()
        };
        assert_eq!(step(&base, &program("1\n2\n3\n")), program("1\n2\n3\n"));
        assert_eq!(step(&mine, &program("1\n2\n3\n")), program("one\n2\n3\n"));
        assert_eq!(
            step(&program("1\n2\n3\n"), &file("1\n2\nthree\n")),
            program("1\n2\nthree\n")
        );
    }
}
