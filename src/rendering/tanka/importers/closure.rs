//! The closure of an entry point: everything that its value can depend on. That is the imported files, the paths
//! that were searched without a match before them, its settings, its charts, and the lock file of its packages.

use super::outline::OutlineImport;
use super::path_probe::{ParsedImports, PathProbe, PathProbes, PathState};
use crate::base::model::{RepoPath, quoted};
use crate::rendering::jsonnet::path::clean;
use crate::rendering::tanka::layout::Layout;
use crate::rendering::tanka::listing::{join, parent};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Maximum number of files that one entry point may import, the same as for an evaluation.
const PROGRAMS_MAX: usize = 10_000;
const LOCK_FILE: &str = "jsonnetfile.lock.json";
/// The library that is part of Tanka and not of the tree.
const BUILT_IN: &str = "tk";

/// The role of a path that an entry point depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DependencyRole {
    /// The entry point itself, an imported file, or a path where an import was searched.
    Import,
    /// The `spec.json` beside the entry point.
    Settings,
    /// The directory of a Helm chart or a kustomization.
    Chart,
    /// The lock file of the packages that imports come from.
    Lock,
}

impl DependencyRole {
    fn letter(self) -> &'static str {
        match self {
            Self::Import => "i",
            Self::Settings => "s",
            Self::Chart => "c",
            Self::Lock => "l",
        }
    }
}

/// A path that an entry point depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathDependency {
    /// The role of the path.
    pub role: DependencyRole,
    /// The state of the path.
    pub state: PathState,
    /// The first file that names it; `None` for the entry point and the files beside it.
    pub importer: Option<RepoPath>,
    /// The symlinks on the way, and last the resolved path.
    pub(super) resolved_chain: Vec<RepoPath>,
}

/// An import that resolves to no file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnresolvedImport {
    /// The file with the import.
    pub importer: RepoPath,
    /// The import as written.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// The reason for an import that was found nowhere.
const NO_MATCH: &str = "no match locally or in the Jsonnet library paths";

impl UnresolvedImport {
    /// True if nothing was found at any searched path. Otherwise an entry was found but cannot be used.
    pub fn is_absent(&self) -> bool {
        self.why.starts_with(NO_MATCH)
    }
}

/// The paths that an entry point depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closure {
    /// The location of the environment.
    pub layout: Layout,
    /// Every path, whether it exists or not.
    pub dependencies: BTreeMap<RepoPath, PathDependency>,
    /// Imports that resolve to no file.
    pub unresolved: BTreeSet<UnresolvedImport>,
    id: Id,
}

/// The hash of a closure, computed on first use. It is derived from the other fields, so it is ignored in
/// comparisons.
#[derive(Clone, Debug, Default)]
struct Id(OnceLock<String>);

impl PartialEq for Id {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Id {}

impl Closure {
    pub(super) fn build(layout: Layout, looks: &mut PathProbes<'_>) -> Self {
        let mut building = ClosureBuilder {
            libraries: layout.jpath().into_iter().rev().collect(),
            closure: Self {
                layout,
                dependencies: BTreeMap::new(),
                unresolved: BTreeSet::new(),
                id: Id::default(),
            },
            probes: looks,
            programs: BTreeSet::new(),
            queue: VecDeque::new(),
        };
        building.run();
        building.closure
    }

    /// Returns the import chain from the entry point to `path`. Each file imports the next one.
    pub fn chain(&self, path: &RepoPath) -> Vec<RepoPath> {
        let mut chain = vec![path.clone()];
        let mut importer = self
            .dependencies
            .get(path)
            .and_then(|found| found.importer.as_ref());
        while let Some(path) = importer.filter(|_| chain.len() <= self.dependencies.len()) {
            chain.push(path.clone());
            importer = self
                .dependencies
                .get(path)
                .and_then(|found| found.importer.as_ref());
        }
        chain.reverse();
        chain
    }

    /// Returns the file that an import resolves to in this closure, or `None` if it resolves to no file.
    pub fn resolve_import(&self, importer: &RepoPath, import: &str) -> Option<RepoPath> {
        let own = importer.parent().unwrap_or("").to_owned();
        let libraries = self.layout.jpath().into_iter().rev();
        let places = std::iter::once(own).chain(libraries);
        for candidate in places.filter_map(|directory| clean(&directory, import)) {
            let candidate = RepoPath::parse(&candidate).ok()?;
            match self.dependencies.get(&candidate)?.state {
                PathState::File { .. } => return Some(candidate),
                PathState::Absent => {}
                PathState::Directory { .. } | PathState::Unreadable { .. } => return None,
            }
        }
        None
    }

    /// Returns a hash of everything that the value depends on, as 64 hex digits. Equal inputs have equal hashes,
    /// whatever else is in the tree.
    pub fn id(&self) -> &str {
        self.id.0.get_or_init(|| self.digest())
    }

    fn digest(&self) -> String {
        let mut digest = Sha256::new();
        let mut add = |part: &str| {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        };
        add(&format!("{:?}", self.layout));
        for (path, dependency) in &self.dependencies {
            add(path.as_str());
            add(dependency.role.letter());
            let (letter, detail) = match &dependency.state {
                PathState::File { blob } => ("f", blob.as_str()),
                PathState::Directory { digest } => ("d", digest.as_str()),
                PathState::Absent => ("a", ""),
                PathState::Unreadable { why } => ("u", why.as_str()),
            };
            add(letter);
            add(detail);
        }
        hex::encode(digest.finalize())
    }
}

struct ClosureBuilder<'a, 'b> {
    closure: Closure,
    /// The directories in which libraries are searched, in search order.
    libraries: Arc<[String]>,
    probes: &'a mut PathProbes<'b>,
    programs: BTreeSet<RepoPath>,
    queue: VecDeque<RepoPath>,
}

impl ClosureBuilder<'_, '_> {
    fn run(&mut self) {
        let entrypoint = self.closure.layout.entrypoint.clone();
        self.probe(&entrypoint, DependencyRole::Import, None);
        self.enqueue(entrypoint);
        self.probe_file_in(
            &self.closure.layout.base.clone(),
            "spec.json",
            DependencyRole::Settings,
        );
        while let Some(file) = self.queue.pop_front() {
            let program = self.probes.file_imports(&file);
            self.follow_imports(&file, &program);
        }
        self.add_locks();
    }

    fn follow_imports(&mut self, file: &RepoPath, program: &ParsedImports) {
        let outline = &program.outline;
        for (import, beside) in outline.imports.iter().zip(&program.relative_imports) {
            let found = match beside {
                Some((found, looked)) if import.path != BUILT_IN => {
                    self.add_dependency(found, looked, DependencyRole::Import, Some(file));
                    Ok(Some(found.clone()))
                }
                Some(_) | None => self.resolve(file, import),
            };
            match found {
                Ok(Some(found)) if import.is_program => self.enqueue(found),
                Ok(_) => {}
                Err(why) => {
                    self.closure.unresolved.insert(UnresolvedImport {
                        importer: file.clone(),
                        path: import.path.clone(),
                        why,
                    });
                }
            }
        }
        for chart in &outline.charts {
            let directory = clean(file.parent().unwrap_or(""), chart);
            if let Some(Ok(directory)) = directory.map(|directory| RepoPath::parse(&directory)) {
                self.probe(&directory, DependencyRole::Chart, Some(file));
            }
        }
    }

    /// Resolves an import: first in the directory of the importer, then along the library path from its end. The
    /// first existing path ends the search.
    fn resolve(&mut self, importer: &RepoPath, import: &OutlineImport) -> Result<Option<RepoPath>, String> {
        if import.path == BUILT_IN {
            return Ok(None);
        }
        let own = importer.parent().unwrap_or("");
        let libraries = Arc::clone(&self.libraries);
        let mut searched: Vec<String> = Vec::new();
        for directory in std::iter::once(own).chain(libraries.iter().map(String::as_str)) {
            let Some(candidate) = clean(directory, &import.path) else {
                continue;
            };
            let candidate = RepoPath::parse(&candidate).map_err(|err| err.to_string())?;
            let named = quoted(candidate.as_str());
            if !searched.contains(&named) {
                searched.push(named);
            }
            match &self
                .probe(&candidate, DependencyRole::Import, Some(importer))
                .state
            {
                PathState::File { .. } => return Ok(Some(candidate)),
                PathState::Absent => {}
                PathState::Directory { .. } => return Err("it is a directory".to_owned()),
                PathState::Unreadable { why } => return Err(why.clone()),
            }
        }
        Err(match searched.is_empty() {
            true => NO_MATCH.to_owned(),
            false => format!("{NO_MATCH}; looked for {}", searched.join(", ")),
        })
    }

    fn enqueue(&mut self, program: RepoPath) {
        if self.programs.len() < PROGRAMS_MAX && self.programs.insert(program.clone()) {
            self.queue.push_back(program);
        }
    }

    fn probe_file_in(&mut self, directory: &str, name: &str, role: DependencyRole) {
        if let Ok(path) = RepoPath::parse(&join(directory, name)) {
            self.probe(&path, role, None);
        }
    }

    fn probe(
        &mut self,
        path: &RepoPath,
        role: DependencyRole,
        importer: Option<&RepoPath>,
    ) -> Arc<PathProbe> {
        let looked = match role {
            DependencyRole::Chart => self.probes.probe_chart(path),
            DependencyRole::Import | DependencyRole::Settings | DependencyRole::Lock => {
                self.probes.probe(path)
            }
        };
        self.add_dependency(path, &looked, role, importer);
        looked
    }

    fn add_dependency(
        &mut self,
        path: &RepoPath,
        looked: &PathProbe,
        role: DependencyRole,
        importer: Option<&RepoPath>,
    ) {
        let known = self.closure.dependencies.get(path);
        // A directory that is both an import and a chart counts with its content.
        if known.is_none_or(|known| role == DependencyRole::Chart && known.role != DependencyRole::Chart) {
            let dependency = PathDependency {
                role,
                state: looked.state.clone(),
                importer: importer.cloned(),
                resolved_chain: looked.resolved_chain.clone(),
            };
            self.closure.dependencies.insert(path.clone(), dependency);
        }
    }

    /// Adds the lock files of packages. The set of packages affects imports from packages, and imports that are not
    /// found while packages are not installed.
    fn add_locks(&mut self) {
        let layout = &self.closure.layout;
        let vendors = [join(&layout.root, "vendor"), join(&layout.base, "vendor")];
        let is_missing = !self.closure.unresolved.is_empty();
        let uses = |vendor: &String| {
            let prefix = format!("{vendor}/");
            let mut found = self.closure.dependencies.iter();
            found.any(|(path, dependency)| {
                path.as_str().starts_with(&prefix) && dependency.state != PathState::Absent
            })
        };
        let used: Vec<String> = vendors
            .into_iter()
            .filter(|vendor| uses(vendor) || is_missing)
            .collect();
        for vendor in used {
            self.probe_file_in(parent(&vendor).unwrap_or(""), LOCK_FILE, DependencyRole::Lock);
        }
    }
}
