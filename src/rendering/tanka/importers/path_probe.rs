//! Examines paths of one tree, each once: the entry at the path, and the names in the tree that determine it if
//! there are symlinks on the way.

use super::outline::{Outline, OutlineCache};
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::path::clean;
use crate::rendering::tanka::listing::{Listing, join};
use crate::state::workspace::{Tree, TreeEntry, TreeError};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of symlinks followed for one path, the same as elsewhere in a tree.
const LINKS_MAX: usize = 8;

/// The state of a path as a program sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// A file, identified by the git hash of its content in 40 hex digits.
    File {
        /// The hash.
        blob: String,
    },
    /// A directory, identified by a hash of its files. Importing a directory fails, but a chart is a directory.
    Directory {
        /// The hash. Empty unless the directory is a chart.
        digest: String,
    },
    /// Nothing at the path.
    Absent,
    /// An entry that cannot be read.
    Unreadable {
        /// The reason.
        why: String,
    },
}

/// The result of examining one path.
#[derive(Debug)]
pub(super) struct PathProbe {
    pub(super) state: PathState,
    /// The symlinks on the way, and last the resolved path.
    pub(super) resolved_chain: Vec<RepoPath>,
}

impl PathProbe {
    /// Returns the path with symlinks resolved.
    pub(super) fn real_path(&self) -> Option<&RepoPath> {
        self.resolved_chain.last()
    }
}

/// Cache of the examined paths of a tree.
pub(super) struct PathProbes<'a> {
    tree: &'a dyn Tree,
    listing: &'a Listing,
    outlines: &'a OutlineCache,
    probed: HashMap<RepoPath, Arc<PathProbe>>,
    charts: HashMap<RepoPath, Arc<PathProbe>>,
    file_imports: HashMap<RepoPath, Arc<ParsedImports>>,
}

/// The imports of a file, and the part of their search that is the same for every entry point.
#[derive(Debug, Default)]
pub(super) struct ParsedImports {
    pub(super) outline: Arc<Outline>,
    /// For each import, the file in the directory of the importer, if it exists. The search starts there, so this
    /// result is independent of the library path.
    pub(super) relative_imports: Vec<Option<(RepoPath, Arc<PathProbe>)>>,
}

impl<'a> PathProbes<'a> {
    pub(super) fn new(tree: &'a dyn Tree, listing: &'a Listing, outlines: &'a OutlineCache) -> Self {
        Self {
            tree,
            listing,
            outlines,
            probed: HashMap::new(),
            charts: HashMap::new(),
            file_imports: HashMap::new(),
        }
    }

    /// Examines `path`, once per path.
    pub(super) fn probe(&mut self, path: &RepoPath) -> Arc<PathProbe> {
        if let Some(looked) = self.probed.get(path) {
            return Arc::clone(looked);
        }
        let (trail, end) = self.resolve_links(path);
        let state = match end {
            Ok(Some(TreeEntry::File)) => self.file_state(path),
            Ok(Some(TreeEntry::Directory)) => PathState::Directory {
                digest: String::new(),
            },
            Ok(None) => PathState::Absent,
            Ok(Some(TreeEntry::Other | TreeEntry::Symlink(_))) => unreadable("not a regular file"),
            Err(why) => PathState::Unreadable { why },
        };
        let looked = Arc::new(PathProbe {
            state,
            resolved_chain: trail,
        });
        self.probed.insert(path.clone(), Arc::clone(&looked));
        looked
    }

    /// Returns the imports and charts of the file at `path`, which must have been examined.
    pub(super) fn file_imports(&mut self, path: &RepoPath) -> Arc<ParsedImports> {
        if let Some(program) = self.file_imports.get(path) {
            return Arc::clone(program);
        }
        let outline = match &self.probe(path).state {
            PathState::File { blob } => {
                let content = || self.tree.read(path).ok().map(|version| version.content);
                self.outlines.get_or_parse(blob, content)
            }
            PathState::Directory { .. } | PathState::Absent | PathState::Unreadable { .. } => Arc::default(),
        };
        let directory = path.parent().unwrap_or("");
        let beside = outline.imports.iter();
        let beside = beside
            .map(|import| self.relative_import(directory, &import.path))
            .collect();
        let program = Arc::new(ParsedImports {
            outline,
            relative_imports: beside,
        });
        self.file_imports.insert(path.clone(), Arc::clone(&program));
        program
    }

    fn relative_import(&mut self, directory: &str, import: &str) -> Option<(RepoPath, Arc<PathProbe>)> {
        let path = RepoPath::parse(&clean(directory, import)?).ok()?;
        let looked = self.probe(&path);
        matches!(looked.state, PathState::File { .. }).then_some((path, looked))
    }

    /// Examines `path`, including all files below it if it is a directory.
    pub(super) fn probe_chart(&mut self, path: &RepoPath) -> Arc<PathProbe> {
        if let Some(looked) = self.charts.get(path) {
            return Arc::clone(looked);
        }
        let looked = self.probe(path);
        let looked = match (&looked.state, looked.real_path()) {
            (PathState::Directory { .. }, Some(real)) => {
                let (state, mut trail) = self.directory_state(real);
                trail.extend(looked.resolved_chain.iter().cloned());
                Arc::new(PathProbe {
                    state,
                    resolved_chain: trail,
                })
            }
            _ => looked,
        };
        self.charts.insert(path.clone(), Arc::clone(&looked));
        looked
    }

    fn file_state(&self, path: &RepoPath) -> PathState {
        match self.tree.read_with_blob(path) {
            Ok((version, blob)) => {
                if is_program(path) {
                    // Parsed now, because the content is already in memory.
                    self.outlines.get_or_parse(&blob, || Some(version.content));
                }
                PathState::File { blob }
            }
            Err(TreeError::NotFound { .. }) => PathState::Absent,
            Err(err) => PathState::Unreadable { why: err.to_string() },
        }
    }

    /// Returns the state of a directory with its files, and the symlinks in it with their targets. A symlink to
    /// another directory counts by its target.
    fn directory_state(&mut self, directory: &RepoPath) -> (PathState, Vec<RepoPath>) {
        let (mut digest, mut trail) = (Sha256::new(), Vec::new());
        for path in self.listing.below(directory.as_str()) {
            let looked = self.probe(path);
            let is_link = looked.resolved_chain.len() > 1;
            let state = format!("{:?} {:?}", looked.state, looked.real_path().filter(|_| is_link));
            for part in [path.as_str(), state.as_str()] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part.as_bytes());
            }
            if is_link {
                trail.extend(looked.resolved_chain.iter().cloned());
            }
        }
        let digest = hex::encode(digest.finalize());
        (PathState::Directory { digest }, trail)
    }

    /// Resolves a path component by component and records every symlink on the way.
    fn resolve_links(&self, path: &RepoPath) -> (Vec<RepoPath>, Result<Option<TreeEntry>, String>) {
        let mut trail = Vec::new();
        // Components that remain to be resolved, next component last.
        let mut remaining: Vec<String> = path.as_str().rsplit('/').map(str::to_owned).collect();
        let mut walked = String::new();
        let mut end = Ok(Some(TreeEntry::Directory));
        while let Some(component) = remaining.pop() {
            match component.as_str() {
                "" | "." => continue,
                ".." => {
                    let Some(parent) = crate::rendering::tanka::listing::parent(&walked) else {
                        return (trail, Err("a symlink that leaves the repository".to_owned()));
                    };
                    walked = parent.to_owned();
                    continue;
                }
                name => walked = join(&walked, name),
            }
            let here = match RepoPath::parse(&walked) {
                Ok(here) => here,
                Err(err) => return (trail, Err(err.to_string())),
            };
            match self.tree.entry(&here) {
                Ok(Some(TreeEntry::Symlink(target))) => {
                    trail.push(here);
                    let target = match std::str::from_utf8(&target) {
                        Ok(target) if !target.starts_with('/') && trail.len() <= LINKS_MAX => target,
                        _ => return (trail, Err("a symlink that leaves the repository".to_owned())),
                    };
                    walked = crate::rendering::tanka::listing::parent(&walked)
                        .unwrap_or_default()
                        .to_owned();
                    remaining.extend(target.rsplit('/').map(str::to_owned));
                }
                Ok(Some(TreeEntry::Directory)) => end = Ok(Some(TreeEntry::Directory)),
                Ok(entry) => {
                    // Nothing exists below a file or below a missing entry.
                    let is_last = remaining
                        .iter()
                        .all(|component| matches!(component.as_str(), "" | "."));
                    end = Ok(entry.filter(|_| is_last));
                    let rest = remaining.iter().rev().map(String::as_str);
                    walked = rest.fold(walked, |walked, component| join(&walked, component));
                    break;
                }
                Err(err) => {
                    end = Err(err.to_string());
                    break;
                }
            }
        }
        trail.extend(RepoPath::parse(&walked).ok());
        (trail, end)
    }
}

/// True if the name of a file is that of a program.
fn is_program(path: &RepoPath) -> bool {
    let name = path.as_str();
    name.ends_with(".jsonnet") || name.ends_with(".libsonnet")
}

fn unreadable(why: &str) -> PathState {
    PathState::Unreadable { why: why.to_owned() }
}
