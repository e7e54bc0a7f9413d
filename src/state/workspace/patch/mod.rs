//! Writes a change as a patch in git format. `git apply` reproduces every content and name of a workspace from it,
//! byte for byte. It does not detect renames and reads no files.

mod binary;
mod hunks;
mod line_edits;
mod name;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests build their own files and ask the real git"
)]
mod tests;

pub use line_edits::{apply_line_edits, line_edits};

use crate::base::model::{FileChange, FileMode, FileVersion, Stats};
use bytes::Bytes;
use gix::hash::Kind;
use std::time::{Duration, Instant};

/// Maximum time to search for small differences in all files of one patch. After that, the rest is written as whole
/// blocks, which are longer but just as exact.
const DIFF_TIME_MAX: Duration = Duration::from_secs(2);

/// A patch and the number of added and removed lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The text for `git apply`: git headers, modes, no renames, three lines of context.
    pub text: Bytes,
    /// The statistics of each file, in the order of the patch.
    pub stats: Vec<Stats>,
}

/// Writes changes for reading or counting, as [`write_onto`] does for a base with a SHA-1 name.
pub fn write(changes: &[FileChange]) -> Patch {
    write_named(changes, Kind::Sha1)
}

/// Writes the changes against a base commit, in the given order, with object names in the format of its repository.
/// Binary files are written as git's binary literals, so that they apply too. A change with equal sides is left
/// out.
pub fn write_onto(base: &str, changes: &[FileChange]) -> Patch {
    write_named(changes, format_of(base))
}

/// Returns the object name of a content in the format of a base commit; `None` for content that is crafted to break SHA-1.
pub fn blob_name(content: &[u8], base: &str) -> Option<String> {
    let name = gix::objs::compute_hash(format_of(base), gix::objs::Kind::Blob, content);
    name.ok().map(|name| name.to_string())
}

/// Returns the format of the object names in the repository of a base commit.
fn format_of(base: &str) -> Kind {
    match base.len() == Kind::Sha256.len_in_hex() {
        true => Kind::Sha256,
        false => Kind::Sha1,
    }
}

fn write_named(changes: &[FileChange], format: Kind) -> Patch {
    let deadline = Instant::now() + DIFF_TIME_MAX;
    let mut text = Vec::new();
    let mut stats = Vec::new();
    for change in changes.iter().filter(|change| change.before != change.after) {
        let path = change.path.as_str();
        let mut counted = LineCounts::default();
        match (&change.before, &change.after) {
            // A git patch cannot turn a file into a symlink. It removes the file and creates the symlink.
            (Some(before), Some(after))
                if (before.mode == FileMode::Symlink) != (after.mode == FileMode::Symlink) =>
            {
                write_file(
                    &mut text,
                    path,
                    Some(before),
                    None,
                    (deadline, format),
                    &mut counted,
                );
                write_file(
                    &mut text,
                    path,
                    None,
                    Some(after),
                    (deadline, format),
                    &mut counted,
                );
            }
            (before, after) => {
                write_file(
                    &mut text,
                    path,
                    before.as_ref(),
                    after.as_ref(),
                    (deadline, format),
                    &mut counted,
                );
            }
        }
        stats.push(Stats {
            path: change.path.clone(),
            added: counted.added,
            removed: counted.removed,
            binary: counted.binary,
        });
    }
    Patch {
        text: text.into(),
        stats,
    }
}

#[derive(Default)]
struct LineCounts {
    added: u64,
    removed: u64,
    binary: bool,
}

fn write_file(
    out: &mut Vec<u8>,
    path: &str,
    before: Option<&FileVersion>,
    after: Option<&FileVersion>,
    (deadline, format): (Instant, Kind),
    counted: &mut LineCounts,
) {
    let old_name = name::quote(&format!("a/{path}"));
    let new_name = name::quote(&format!("b/{path}"));
    push(out, &["diff --git ", &old_name, " ", &new_name, "\n"]);
    match (before, after) {
        (None, Some(after)) => push(out, &["new file mode ", after.mode.as_octal(), "\n"]),
        (Some(before), None) => push(out, &["deleted file mode ", before.mode.as_octal(), "\n"]),
        (Some(before), Some(after)) if before.mode != after.mode => {
            push(out, &["old mode ", before.mode.as_octal(), "\n"]);
            push(out, &["new mode ", after.mode.as_octal(), "\n"]);
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    let old = before.map_or(&b""[..], |version| &version.content);
    let new = after.map_or(&b""[..], |version| &version.content);
    if before.is_some() && after.is_some() && old == new {
        return;
    }
    push(
        out,
        &["index ", &blob_id(before, format), "..", &blob_id(after, format)],
    );
    if let (Some(before), Some(after)) = (before, after)
        && before.mode == after.mode
    {
        push(out, &[" ", after.mode.as_octal()]);
    }
    out.push(b'\n');
    if is_binary(old) || is_binary(new) {
        counted.binary = true;
        binary::write(out, old, new);
        return;
    }
    if old == new {
        // For an empty file that is added or removed, the header is complete.
        return;
    }
    let old_label = if before.is_some() {
        name::label(&old_name)
    } else {
        "/dev/null".to_owned()
    };
    let new_label = if after.is_some() {
        name::label(&new_name)
    } else {
        "/dev/null".to_owned()
    };
    push(out, &["--- ", &old_label, "\n+++ ", &new_label, "\n"]);
    let (added, removed) = hunks::write(out, old, new, deadline);
    counted.added = counted.added.saturating_add(added);
    counted.removed = counted.removed.saturating_add(removed);
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

fn is_binary(content: &[u8]) -> bool {
    memchr::memchr(0, content).is_some()
}

/// Returns the git object name of a content. Content crafted to break SHA-1 gets no name, and no patch with it
/// applies. This is intended.
fn blob_id(version: Option<&FileVersion>, format: Kind) -> String {
    version
        .and_then(|version| gix::objs::compute_hash(format, gix::objs::Kind::Blob, &version.content).ok())
        .unwrap_or_else(|| format.null())
        .to_string()
}
