//! Files that are secrets because configuration says so, and not by what they hold: whoever reads one without the
//! configuration finds it here.

use super::{Guard, Tree};
use crate::model::RepoPath;
use bytes::Bytes;
use std::collections::BTreeSet;

/// Bytes of a file that may be a secret as a whole.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Bytes of the shortest name that is looked for.
const NAME_BYTES_MIN: usize = 3;
/// Lines that name a file which are looked at.
const LINES_MAX: usize = 2_000;
/// Files with them.
const FILES_MAX: usize = 256;
/// Extensions that such a file does not have: configuration and programs have names for the secrets they hold.
const EXTENSIONS: [&str; 24] = [
    "jsonnet",
    "libsonnet",
    "json",
    "yaml",
    "yml",
    "toml",
    "xml",
    "md",
    "adoc",
    "rst",
    "tpl",
    "html",
    "css",
    "js",
    "ts",
    "go",
    "rs",
    "py",
    "sh",
    "lua",
    "tf",
    "hcl",
    "sql",
    "svg",
];

/// True if a file that mentions this one says that it is a secret.
pub(super) fn is_named(tree: &dyn Tree, guard: &Guard, path: &RepoPath, content: &Bytes) -> bool {
    if !may_be(path, content) {
        return false;
    }
    if !guard.redactor.is_looked_for(path.file_name()) {
        look(tree, guard, path);
    }
    guard.redactor.is_named(path)
}

/// Learns what names a file. Whoever looks at the same time looks as well: only what was learnt counts as looked for.
fn look(tree: &dyn Tree, guard: &Guard, path: &RepoPath) {
    let accepts = |name: &str| name != path.as_str() && !guard.denied.holds(name);
    let Ok((mentions, _)) = tree.search(&accepts, path.file_name(), 0, LINES_MAX) else {
        return;
    };
    let files: BTreeSet<RepoPath> = mentions.into_iter().map(|mention| mention.path).collect();
    for file in files.iter().take(FILES_MAX) {
        if let Ok((version, blob)) = tree.identified(file) {
            guard.redactor.learn_file(Some(&blob), &version.content);
        }
    }
    guard.redactor.set_looked_for(path.file_name());
}

/// True for a text that may be a secret as a whole.
fn may_be(path: &RepoPath, content: &Bytes) -> bool {
    let extension = path
        .file_name()
        .rsplit_once('.')
        .map_or("", |(_, extension)| extension);
    content.len() <= FILE_BYTES_MAX
        && path.file_name().len() >= NAME_BYTES_MIN
        && !EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str())
        && !content.is_empty()
        && std::str::from_utf8(content).is_ok()
}
