//! The files and directories that an archive of a repository leaves out because of their `export-ignore` attribute.

use gix::attrs::search::{MetadataCollection, Outcome};
use gix::attrs::{Search, StateRef};
use gix::bstr::BStr;
use gix::glob::pattern::Case;
use gix::objs::tree::EntryKind;
use std::path::Path;

/// The file with the attributes for its directory and everything below.
pub(super) const ATTRIBUTES: &str = ".gitattributes";
/// The attribute that leaves files out.
const IGNORED: &str = "export-ignore";
/// Maximum number of bytes of attribute files that are read. The rest is ignored.
const BYTES_MAX: usize = 1 << 20;

/// The attributes of a repository, read directory by directory. A directory must be read after its parent, because
/// the nearest attribute has priority.
pub(super) struct ExportAttributes {
    search: Search,
    names: MetadataCollection,
    bytes_left: usize,
}

impl ExportAttributes {
    /// Creates an empty set of attributes.
    pub(super) fn new() -> Self {
        Self {
            search: Search::default(),
            names: MetadataCollection::default(),
            bytes_left: BYTES_MAX,
        }
    }

    /// Returns the remaining bytes for attribute files.
    pub(super) fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    /// Reads the attribute file of a directory. The path of the root is empty.
    pub(super) fn read(&mut self, directory: &[u8], content: &[u8]) {
        let Some(left) = self.bytes_left.checked_sub(content.len()) else {
            return;
        };
        self.bytes_left = left;
        let Ok(directory) = std::str::from_utf8(directory) else {
            return;
        };
        let source = Path::new(directory).join(ATTRIBUTES);
        // Macros are valid only in the root, as in git. Malformed lines are ignored.
        let macros = directory.is_empty();
        let _ =
            self.search
                .add_patterns_buffer(content, source, Some(Path::new("")), &mut self.names, macros);
    }

    /// True if an archive leaves out a file or directory. Callers do not ask about entries inside an ignored
    /// directory.
    pub(super) fn is_ignored(&self, path: &[u8], kind: EntryKind) -> bool {
        let mut found = Outcome::default();
        found.initialize_with_selection(&self.names, [IGNORED]);
        let path: &BStr = path.into();
        let is_directory = kind == EntryKind::Tree;
        self.search
            .pattern_matching_relative_path(path, Case::Sensitive, Some(is_directory), &mut found);
        found
            .iter_selected()
            .any(|found| matches!(found.assignment.state, StateRef::Set))
    }
}

#[cfg(test)]
mod tests {
    use super::ExportAttributes;
    use gix::objs::tree::EntryKind::{Blob, Tree};

    #[test]
    fn attributes_leave_out_what_git_leaves_out() {
        let mut exported = ExportAttributes::new();
        exported.read(
            b"",
            b"# no attribute\n[attr]hidden export-ignore\ntests/ export-ignore\n*.md export-ignore\n\
              /ci/** export-ignore\nsecret hidden\n*.bin binary\n",
        );
        exported.read(b"lib", b"README.md -export-ignore\n/inner export-ignore\n");
        exported.read(b"lib/deep", b"*.md !export-ignore\n");
        for (path, kind, expected) in [
            ("tests", Tree, true),
            ("lib/tests", Tree, true),
            ("tests", Blob, false),
            ("a.md", Blob, true),
            ("lib/a.md", Blob, true),
            ("lib/README.md", Blob, false),
            ("lib/deep/a.md", Blob, false),
            ("ci", Tree, false),
            ("ci/run.sh", Blob, true),
            ("lib/ci/run.sh", Blob, false),
            ("lib/inner", Blob, true),
            ("inner", Blob, false),
            ("secret", Blob, true),
            ("x.bin", Blob, false),
            ("main.libsonnet", Blob, false),
            (".gitattributes", Blob, false),
        ] {
            let left_out = exported.is_ignored(path.as_bytes(), kind);
            assert_eq!(left_out, expected, "{path}");
        }
    }

    #[test]
    fn attributes_are_bounded() {
        let mut exported = ExportAttributes::new();
        exported.read(b"", &vec![b'#'; super::BYTES_MAX + 1]);
        assert_eq!(exported.bytes_left(), super::BYTES_MAX);
        exported.read(b"", b"a export-ignore\n");
        assert!(exported.is_ignored(b"a", Blob));
    }
}
