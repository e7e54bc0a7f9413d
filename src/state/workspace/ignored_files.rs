//! An overlay together with files of a working directory that git ignores, such as the packages of a project. Their names
//! are those of one moment. Their content is read from the disk, and they are never part of the changes.

use super::{Directory, Match, Overlay, Tree, TreeEntry, TreeError, links, names_of};
use crate::base::model::{FileChange, FileVersion, RepoPath};
use bytes::Bytes;
use std::sync::Arc;

/// An overlay that also has ignored files, which are only read.
#[derive(Debug)]
pub struct IgnoredFiles {
    overlay: Overlay,
    directory: Arc<Directory>,
    // Sorted, and none of them is in the overlay.
    ignored: Vec<RepoPath>,
}

impl IgnoredFiles {
    /// Adds all files of a directory that git ignores.
    pub fn all(overlay: Overlay, directory: Arc<Directory>) -> Result<Self, TreeError> {
        let listed = directory.files()?;
        let all = directory.all_files()?;
        let ignored = all.iter().filter(|path| listed.binary_search(path).is_err());
        let ignored: Vec<RepoPath> = ignored.cloned().collect();
        Self::new(overlay, directory, ignored)
    }

    /// Adds the files below these directories that git ignores and the overlay does not have. A file that the overlay deletes
    /// is added only if it has none in the whole directory. Returns the directories whose files were added as well.
    pub fn below(
        overlay: Overlay,
        directory: Arc<Directory>,
        candidates: impl IntoIterator<Item = RepoPath>,
    ) -> Result<(Self, Vec<RepoPath>), TreeError> {
        let listed = directory.files()?;
        let (mut ignored, mut added) = (Vec::new(), Vec::new());
        let (now, was) = (overlay.files()?, overlay.base().files());
        for candidate in candidates {
            let is_used = has_at_or_below(&now, &candidate);
            let is_elsewhere = |path: &RepoPath| {
                listed.binary_search(path).is_ok() || (is_used && was.binary_search(path).is_ok())
            };
            let files = directory.files_below(candidate.as_str())?;
            ignored.extend(files.into_iter().filter(|path| !is_elsewhere(path)));
            added.push(candidate);
        }
        ignored.sort();
        ignored.dedup();
        let files = Self::new(overlay, directory, ignored)?;
        added.retain(|candidate| has_at_or_below(&files.ignored, candidate));
        Ok((files, added))
    }

    fn new(
        overlay: Overlay,
        directory: Arc<Directory>,
        mut ignored: Vec<RepoPath>,
    ) -> Result<Self, TreeError> {
        let files = overlay.files()?;
        let is_file = |path: &str| files.binary_search_by(|file| file.as_str().cmp(path)).is_ok();
        // Files that were committed although git ignores them are in the overlay.
        ignored.retain(|path| !is_file(path.as_str()) && !links::ancestors(path).any(is_file));
        ignored.retain(|path| !has_at_or_below(&files, path));
        Ok(Self {
            overlay,
            directory,
            ignored,
        })
    }

    /// Returns the tree; the overlay alone if there are no ignored files.
    pub fn into_tree(self) -> Arc<dyn Tree> {
        match self.ignored.is_empty() {
            true => Arc::new(self.overlay),
            false => Arc::new(self),
        }
    }

    fn is_ignored(&self, path: &RepoPath) -> bool {
        self.ignored.binary_search(path).is_ok()
    }

    fn target(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, TreeError> {
        Ok(match self.entry(path)? {
            Some(TreeEntry::Symlink(target)) => Some(target.to_vec()),
            Some(TreeEntry::File | TreeEntry::Directory | TreeEntry::Other) | None => None,
        })
    }

    fn merged(&self, files: &[RepoPath]) -> Vec<RepoPath> {
        let mut all = [files, &self.ignored].concat();
        all.sort();
        all
    }
}

impl Tree for IgnoredFiles {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        self.read_with_blob(path).map(|(version, _)| version)
    }

    fn read_with_blob(&self, path: &RepoPath) -> Result<(FileVersion, String), TreeError> {
        let real = self.real_path(path)?;
        match self.entry(&real)? {
            Some(_) if self.is_ignored(&real) => self.directory.read_with_blob(&real),
            Some(TreeEntry::Directory) => Err(TreeError::WrongKind {
                path: path.clone(),
                what: "directory",
            }),
            Some(TreeEntry::File | TreeEntry::Symlink(_) | TreeEntry::Other) => {
                self.overlay.read_with_blob(&real)
            }
            // The overlay names similar files.
            None => self.overlay.read_with_blob(path),
        }
    }

    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        links::follow(path, &|path| self.target(path))
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, TreeError> {
        if let Some(entry) = self.overlay.entry(path)? {
            return Ok(Some(entry));
        }
        if self.is_ignored(path) {
            return self.directory.entry(path);
        }
        Ok(has_at_or_below(&self.ignored, path).then_some(TreeEntry::Directory))
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.overlay.files()
    }

    fn all_files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        Ok(Arc::new(self.merged(&self.overlay.files()?)))
    }

    fn write(&self, path: &RepoPath, _content: Bytes) -> Result<(), TreeError> {
        Err(read_only(path))
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        Err(read_only(path))
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let prefix = match directory {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let mut below = self.overlay.files_below(directory)?;
        let first = self
            .ignored
            .partition_point(|path| path.as_str() < prefix.as_str());
        let ignored = self.ignored.iter().skip(first);
        below.extend(
            ignored
                .take_while(|path| path.as_str().starts_with(&prefix))
                .cloned(),
        );
        below.sort();
        Ok(below)
    }

    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        Ok(names_of(&self.files_below(directory)?, directory))
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        match self.is_ignored(path) {
            true => self.directory.read_stored(path),
            false => self.overlay.read_stored(path),
        }
    }

    fn put(&self, path: &RepoPath, _after: Option<FileVersion>) -> Result<(), TreeError> {
        Err(read_only(path))
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        self.overlay.search(accepts, needle, offset, limit)
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        self.overlay.changes()
    }
}

/// Returns true if there is a file at a path or below it. `files` is sorted.
fn has_at_or_below(files: &[RepoPath], path: &RepoPath) -> bool {
    let prefix = format!("{path}/");
    let start = files.partition_point(|file| file.as_str() < prefix.as_str());
    let is_below = files
        .get(start)
        .is_some_and(|file| file.as_str().starts_with(&prefix));
    is_below || files.binary_search(path).is_ok()
}

fn read_only(path: &RepoPath) -> TreeError {
    TreeError::Refused {
        path: path.clone(),
        why: "this tree is only read",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    #![allow(clippy::disallowed_methods, reason = "tests build their own files")]

    use super::IgnoredFiles;
    use crate::base::model::{FileMode, FileVersion, RepoPath};
    use crate::state::workspace::contract::{CONTRACT_FILES, assert_reads};
    use crate::state::workspace::fixture::{Fixture, link, path, text};
    use crate::state::workspace::{Directory, Overlay, Tree, TreeEntry, WorkspaceEdits};
    use bytes::Bytes;
    use std::sync::Arc;

    struct WorkTree {
        root: tempfile::TempDir,
        directory: Arc<Directory>,
    }

    fn work_tree(files: &[(&str, &str)]) -> WorkTree {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(".git")).unwrap();
        for (name, content) in files {
            let file = root.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        let directory = Arc::new(Directory::open(root.path()).unwrap());
        WorkTree { root, directory }
    }

    fn version(content: &'static str) -> FileVersion {
        FileVersion {
            content: Bytes::from(content),
            mode: FileMode::Regular,
        }
    }

    #[test]
    fn an_overlay_with_ignored_files_keeps_the_reading_half_of_the_contract() {
        let fixture = Fixture::with(&CONTRACT_FILES.map(|(name, content)| text(name, content)));
        let overlay = Overlay::new(fixture.head_base(), WorkspaceEdits::new());
        let directory = work_tree(&[]).directory;
        assert_reads(&IgnoredFiles::new(overlay, directory, Vec::new()).unwrap());
    }

    #[test]
    fn ignored_files_are_read_but_never_listed_changed_or_taken_for_committed_ones() {
        let fixture = Fixture::with(&[
            text("kept.log", "committed\n"),
            text("main", "one\n"),
            text("file", "a file\n"),
            link("package", "vendor/k/main"),
        ]);
        let edits: WorkspaceEdits = [(path("main"), Some(version("two\n")))].into();
        let work = work_tree(&[
            (".gitignore", "vendor/\n*.log\nfile/\n"),
            ("vendor/k/main", "package\n"),
            ("kept.log", "on the disk\n"),
            ("new.log", "ignored\n"),
            ("file/inner", "below what is a file in the commit\n"),
            ("untracked", "x\n"),
        ]);
        let base = fixture.head_base();
        let overlay = Overlay::new(Arc::clone(&base), edits.clone());
        let tree = IgnoredFiles::all(overlay, Arc::clone(&work.directory))
            .unwrap()
            .into_tree();
        let names = |files: &[RepoPath]| -> Vec<String> { files.iter().map(RepoPath::to_string).collect() };
        assert_eq!(
            names(&tree.files().unwrap()),
            ["file", "kept.log", "main", "package"]
        );
        let all = ["file", "kept.log", "main", "new.log", "package", "vendor/k/main"];
        assert_eq!(names(&tree.all_files().unwrap()), all);
        assert_eq!(names(&tree.files_below("vendor").unwrap()), ["vendor/k/main"]);
        assert_eq!(tree.list_directory("vendor").unwrap(), [("k".to_owned(), true)]);
        for (name, content) in [
            ("kept.log", "committed\n"),
            ("main", "two\n"),
            ("new.log", "ignored\n"),
            ("package", "package\n"),
        ] {
            assert_eq!(tree.read(&path(name)).unwrap().content, content, "{name}");
        }
        assert_eq!(tree.entry(&path("vendor")).unwrap(), Some(TreeEntry::Directory));
        assert_eq!(tree.entry(&path("file/inner")).unwrap(), None);
        assert_eq!(tree.entry(&path("untracked")).unwrap(), None);
        let changed: Vec<RepoPath> = tree
            .changes()
            .unwrap()
            .into_iter()
            .map(|change| change.path)
            .collect();
        assert_eq!(names(&changed), ["main"]);
        let (found, _) = tree.search(&|_| true, "package", 0, 9).unwrap();
        assert_eq!(found, []);
        assert!(tree.write(&path("a"), Bytes::new()).is_err() && tree.delete(&path("new.log")).is_err());
        assert!(tree.put(&path("vendor/k/main"), None).is_err() && tree.overlay_base().is_none());

        // A name that was not there at first is not there later.
        std::fs::write(work.root.path().join("later.log"), "x\n").unwrap();
        assert_eq!(tree.entry(&path("later.log")).unwrap(), None);

        let overlay = Overlay::new(base, edits);
        let candidates = ["vendor", "file", "nowhere"].map(path);
        let (tree, added) = IgnoredFiles::below(overlay, work.directory, candidates).unwrap();
        assert_eq!(added, [path("vendor")]);
        let all = ["file", "kept.log", "main", "package", "vendor/k/main"];
        assert_eq!(names(&tree.all_files().unwrap()), all);
    }

    #[test]
    fn a_deleted_file_is_taken_from_the_disk_only_with_its_whole_directory() {
        let fixture = Fixture::with(&[
            text("main", "one\n"),
            text("vendor/a", "committed\n"),
            text("vendor/b", "committed\n"),
        ]);
        let work = || {
            work_tree(&[
                (".gitignore", "vendor/\n"),
                ("vendor/a", "on the disk\n"),
                ("vendor/b", "on the disk\n"),
                ("vendor/c", "on the disk\n"),
            ])
        };
        let ignored = |deleted: &[&str]| {
            let edits: WorkspaceEdits = deleted.iter().map(|name| (path(name), None)).collect();
            let overlay = Overlay::new(fixture.head_base(), edits);
            let work = work();
            let (tree, added) = IgnoredFiles::below(overlay, work.directory, [path("vendor")]).unwrap();
            let names: Vec<String> = tree.ignored.iter().map(RepoPath::to_string).collect();
            (names.join(" "), added.len())
        };
        assert_eq!(ignored(&["vendor/a"]), ("vendor/c".to_owned(), 1));
        assert_eq!(
            ignored(&["vendor/a", "vendor/b"]),
            ("vendor/a vendor/b vendor/c".to_owned(), 1)
        );
    }
}
