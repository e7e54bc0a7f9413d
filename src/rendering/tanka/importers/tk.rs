//! Importers as `tk tool importers` finds them: by the names in imports, without resolving them. The result
//! contains entry points that are not affected and lacks some that are. It exists for comparison with Tanka.
//! Tanka's caching inside import cycles is not reproduced.

use crate::base::model::{MAIN_FILE, RepoPath};
use crate::rendering::jsonnet::path::clean;
use crate::rendering::tanka::TankaError;
use crate::rendering::tanka::layout::Layout;
use crate::rendering::tanka::listing::{Listing, join, parent};
use crate::state::workspace::{Tree, TreeEntry};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

#[allow(clippy::expect_used, reason = "the pattern is a constant")]
static IMPORT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"import(?:str)?\s+['"]([^'"%()]+)['"]"#).expect("a pattern"));
const DELETED: &str = "deleted:";
/// Maximum depth of an import chain.
const DEPTH_MAX: usize = 200;
/// Maximum number of symlinks followed one after the other.
const LINKS_MAX: usize = 8;

/// Returns the entry points below `root` that Tanka considers importers of `files`, sorted. Files are relative to
/// `here`. The prefix `deleted:` marks a removed file.
pub fn importers(
    tree: &dyn Tree,
    root: &str,
    here: &str,
    files: &[&str],
) -> Result<Vec<RepoPath>, TankaError> {
    let search = Search::new(tree, root)?;
    let mut found = BTreeSet::new();
    for file in search.expanded(here, files) {
        if file_name(&file) == MAIN_FILE {
            found.insert(file.clone());
        }
        found.extend(search.importers_of(&file, &mut BTreeSet::new(), 0)?);
    }
    Ok(found
        .iter()
        .filter_map(|path| RepoPath::parse(path).ok())
        .collect())
}

/// The depth to which files below a directory are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only files in the directory itself.
    Direct,
    /// Also files in its subdirectories.
    Recursive,
}

/// Counts, for each Jsonnet file in `directory`, the entry points that Tanka considers its importers. Sorted by
/// count, highest first. Entry points themselves are not counted.
pub fn importers_count(
    tree: &dyn Tree,
    root: &str,
    directory: &str,
    depth: Depth,
) -> Result<Vec<(RepoPath, usize)>, TankaError> {
    let listing = Listing::new(tree.files()?);
    let mut counts = Vec::new();
    for path in listing
        .below(directory)
        .iter()
        .filter(|path| is_jsonnet(path.as_str()))
    {
        let is_direct = path.parent().unwrap_or("") == directory;
        if path.file_name() != MAIN_FILE && (is_direct || depth == Depth::Recursive) {
            let importers = importers(tree, root, "", &[path.as_str()])?;
            counts.push((path.clone(), importers.len()));
        }
    }
    counts.sort_by(|(path, count), (other, others)| others.cmp(count).then_with(|| path.cmp(other)));
    Ok(counts)
}

/// The Jsonnet files of a tree with their imports, as found by the pattern.
struct Search<'a> {
    tree: &'a dyn Tree,
    listing: Listing,
    root: String,
    imports: BTreeMap<String, Vec<String>>,
}

impl<'a> Search<'a> {
    fn new(tree: &'a dyn Tree, root: &str) -> Result<Self, TankaError> {
        let listing = Listing::new(tree.files()?);
        let mut imports = BTreeMap::new();
        for path in listing
            .below(root)
            .iter()
            .filter(|path| is_jsonnet(path.as_str()))
        {
            let Ok(version) = tree.read(path) else { continue };
            let program = String::from_utf8_lossy(&version.content);
            let paths = IMPORT.captures_iter(&program).filter_map(|found| found.get(1));
            let paths: Vec<String> = paths.map(|path| path.as_str().to_owned()).collect();
            imports.insert(path.as_str().to_owned(), paths);
        }
        Ok(Self {
            tree,
            listing,
            root: root.to_owned(),
            imports,
        })
    }

    /// Returns the files to search for: existing files with all their names through symlinks, deleted files as
    /// given.
    fn expanded(&self, here: &str, files: &[&str]) -> BTreeSet<String> {
        let mut expanded = BTreeSet::new();
        for file in files {
            if let Some(deleted) = file.strip_prefix(DELETED) {
                // Absolute paths are dropped, as in Tanka.
                expanded.extend(clean(here, deleted));
                expanded.extend(clean(&self.root, deleted));
                continue;
            }
            let Some(file) = clean(here, file) else { continue };
            expanded.extend(self.real(&file));
            for link in self.listing.below(&self.root) {
                let is_link = matches!(self.tree.entry(link), Ok(Some(TreeEntry::Symlink(_))));
                let target = is_link.then(|| self.real(link.as_str())).flatten();
                if let Some(rest) = target.as_deref().and_then(|target| file.strip_prefix(target)) {
                    expanded.insert(format!("{link}{rest}"));
                }
            }
            expanded.insert(file);
        }
        expanded
    }

    fn importers_of(
        &self,
        file: &str,
        seen: &mut BTreeSet<String>,
        depth: usize,
    ) -> Result<BTreeSet<String>, TankaError> {
        if depth > DEPTH_MAX {
            return Err(TankaError::Internal(format!(
                "more than {DEPTH_MAX} files import each other in a row"
            )));
        }
        if !seen.insert(file.to_owned()) {
            return Ok(BTreeSet::new());
        }
        let is_library = self.is_library(file);
        let mut found = BTreeSet::new();
        if !is_library {
            found.extend(self.entrypoints_around(file));
        }
        let mut between = Vec::new();
        for (importer, imports) in &self.imports {
            let can_import = is_library || !self.is_library(importer);
            if can_import
                && imports
                    .iter()
                    .any(|import| self.is_import_of(importer, import, file))
            {
                // Only the end of the name is compared, so `xmain.jsonnet` matches too.
                if importer.ends_with(MAIN_FILE) {
                    found.insert(importer.clone());
                }
                between.push(importer);
            }
        }
        for importer in between {
            found.extend(self.importers_of(importer, seen, depth + 1)?);
        }
        self.drop_shadowed(file, &mut found);
        Ok(found)
    }

    /// Returns the entry point of the environment that contains a file outside the libraries, or else all entry
    /// points below the directory of the file.
    fn entrypoints_around(&self, file: &str) -> Vec<String> {
        let directory = parent(file).unwrap_or("");
        let mut existing = directory;
        while !self.listing.is_directory(existing) {
            existing = parent(existing).unwrap_or("");
        }
        if let Ok(layout) = Layout::find(&self.listing, existing) {
            return vec![layout.entrypoint.as_str().to_owned()];
        }
        if existing != directory {
            return Vec::new();
        }
        let below = self.listing.below(directory).iter();
        let mains = below.filter(|path| path.file_name() == MAIN_FILE);
        mains.map(|path| path.as_str().to_owned()).collect()
    }

    fn is_import_of(&self, importer: &str, import: &str, file: &str) -> bool {
        if file_name(import) != file_name(file) {
            return false;
        }
        let own = parent(importer).unwrap_or("");
        let is_same = |path: Option<String>| path.is_some_and(|path| self.is_same(file, &path));
        if import.starts_with("..") {
            // Jsonnet also finds an import with one `..` too many.
            return is_same(clean(own, import)) || is_same(clean(own, &import.replacen("../", "", 1)));
        }
        let import = clean("", import).unwrap_or_default();
        let library = |name: &str| clean(&join(&self.root, name), &import);
        is_same(library("vendor"))
            || is_same(library("lib"))
            || file.starts_with(own) && file.ends_with(&import)
    }

    fn is_same(&self, one: &str, other: &str) -> bool {
        one == other || self.real(one).is_some_and(|real| Some(real) == self.real(other))
    }

    /// True if the path begins with the name of a library directory. `library/` counts as `lib`, as in Tanka.
    fn is_library(&self, file: &str) -> bool {
        ["vendor", "lib"]
            .iter()
            .any(|name| file.starts_with(&join(&self.root, name)))
    }

    /// Removes entry points that have their own copy of a package, because they do not import the copy of the
    /// project.
    fn drop_shadowed(&self, file: &str, found: &mut BTreeSet<String>) {
        let Some(inner) = file.strip_prefix(&join(&self.root, "vendor")) else {
            return;
        };
        found.retain(|importer| {
            let own = join(parent(importer).unwrap_or(""), "vendor");
            self.real(&format!("{own}{inner}")).is_none()
        });
    }

    /// Returns the path of a file or directory without symlinks, or `None` if it does not exist.
    fn real(&self, path: &str) -> Option<String> {
        let mut remaining: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let (mut walked, mut links) = (String::new(), 0);
        while let Some(component) = remaining.pop() {
            walked = clean(&walked, &component)?;
            if walked.is_empty() {
                continue;
            }
            let here = RepoPath::parse(&walked).ok()?;
            if let TreeEntry::Symlink(target) = self.tree.entry(&here).ok()?? {
                links += 1;
                let target = std::str::from_utf8(&target).ok().filter(|_| links <= LINKS_MAX)?;
                walked = parent(&walked)?.to_owned();
                remaining.extend(
                    target
                        .strip_suffix('/')
                        .unwrap_or(target)
                        .rsplit('/')
                        .map(str::to_owned),
                );
            }
        }
        Some(walked)
    }
}

fn is_jsonnet(path: &str) -> bool {
    path.ends_with(".jsonnet") || path.ends_with(".libsonnet")
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
