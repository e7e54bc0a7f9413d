//! The files and directories an archive of a repository leaves out: those whose attributes say `export-ignore`.

use gix::attrs::search::{MetadataCollection, Outcome};
use gix::attrs::{Search, StateRef};
use gix::bstr::BStr;
use gix::glob::pattern::Case;
use std::path::Path;

/// The file that says so, for its directory and all below it.
pub(super) const ATTRIBUTES: &str = ".gitattributes";
/// The attribute.
const IGNORED: &str = "export-ignore";
/// Bytes of such files that are read. What follows says nothing.
const BYTES_MAX: usize = 1 << 20;

/// The attributes of a repository, read directory by directory. A directory has to be read after the one it lies in, so that what is nearer
/// counts for more.
pub(super) struct ExportAttributes {
    search: Search,
    names: MetadataCollection,
    bytes_left: usize,
}

impl ExportAttributes {
    /// Makes the attributes of a repository that says nothing yet.
    pub(super) fn new() -> Self {
        Self {
            search: Search::default(),
            names: MetadataCollection::default(),
            bytes_left: BYTES_MAX,
        }
    }

    /// The bytes that a file of attributes may still have.
    pub(super) fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    /// Takes the attributes of a directory; that of the root is empty.
    pub(super) fn read(&mut self, directory: &[u8], content: &[u8]) {
        let Some(left) = self.bytes_left.checked_sub(content.len()) else {
            return;
        };
        self.bytes_left = left;
        let Ok(directory) = std::str::from_utf8(directory) else {
            return;
        };
        let source = Path::new(directory).join(ATTRIBUTES);
        // Macros count in the root alone, as in git. A line that is malformed says nothing.
        let macros = directory.is_empty();
        let _ =
            self.search
                .add_patterns_buffer(content, source, Some(Path::new("")), &mut self.names, macros);
    }

    /// Returns true if an archive leaves a file or a directory out. Nobody asks about what lies in a directory that is left out.
    pub(super) fn is_ignored(&self, path: &[u8], is_directory: bool) -> bool {
        let mut found = Outcome::default();
        found.initialize_with_selection(&self.names, [IGNORED]);
        let path: &BStr = path.into();
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
        for (path, is_directory, expected) in [
            ("tests", true, true),
            ("lib/tests", true, true),
            ("tests", false, false),
            ("a.md", false, true),
            ("lib/a.md", false, true),
            ("lib/README.md", false, false),
            ("lib/deep/a.md", false, false),
            ("ci", true, false),
            ("ci/run.sh", false, true),
            ("lib/ci/run.sh", false, false),
            ("lib/inner", false, true),
            ("inner", false, false),
            ("secret", false, true),
            ("x.bin", false, false),
            ("main.libsonnet", false, false),
            (".gitattributes", false, false),
        ] {
            let left_out = exported.is_ignored(path.as_bytes(), is_directory);
            assert_eq!(left_out, expected, "{path}");
        }
    }

    #[test]
    fn attributes_are_bounded() {
        let mut exported = ExportAttributes::new();
        exported.read(b"", &vec![b'#'; super::BYTES_MAX + 1]);
        assert_eq!(exported.bytes_left(), super::BYTES_MAX);
        exported.read(b"", b"a export-ignore\n");
        assert!(exported.is_ignored(b"a", false));
    }
}
