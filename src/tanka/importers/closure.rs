//! The closure of an entry point, which is all its value can depend on: the files its imports mean, the paths that were looked at in vain
//! before them, its settings, its charts, and the lock of its packages.

use super::outline::OutlineImport;
use super::path_probe::{ParsedImports, PathProbe, PathProbes, PathState, hex};
use crate::jsonnet::path::clean;
use crate::model::{RepoPath, quoted};
use crate::tanka::layout::Layout;
use crate::tanka::listing::{join, parent};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Files one entry point may import, as for an evaluation.
const PROGRAMS_MAX: usize = 10_000;
const LOCK_FILE: &str = "jsonnetfile.lock.json";
/// The library that is part of Tanka, not of the tree.
const BUILT_IN: &str = "tk";

/// The role of a path an entry point depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DependencyRole {
    /// The entry point itself, a file that is imported, or a path where an import was searched.
    Import,
    /// The `spec.json` beside the entry point.
    Settings,
    /// A directory of a Helm chart or a kustomization.
    Chart,
    /// The lock of the packages some imports come from.
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

/// One path an entry point depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathDependency {
    /// The role of the path.
    pub role: DependencyRole,
    /// The state of the path.
    pub state: PathState,
    /// The file that names it first; `None` for the entry point and what lies beside it.
    pub importer: Option<RepoPath>,
    /// The symlinks on the way and, last, the path behind them.
    pub(super) resolved_chain: Vec<RepoPath>,
}

/// An import that means no file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnresolvedImport {
    /// The file with the import.
    pub importer: RepoPath,
    /// The import as it is written.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// Said where nothing was found at any place.
const NO_MATCH: &str = "no match locally or in the Jsonnet library paths";

impl UnresolvedImport {
    /// True where nothing was found at any place; otherwise what was found there is not to be used.
    pub fn is_absent(&self) -> bool {
        self.why.starts_with(NO_MATCH)
    }
}

/// The paths that one entry point depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closure {
    /// The place of the environment.
    pub layout: Layout,
    /// Every path, whether there is something or not.
    pub dependencies: BTreeMap<RepoPath, PathDependency>,
    /// Imports that mean no file.
    pub unresolved: BTreeSet<UnresolvedImport>,
    id: Id,
}

/// The hash of a closure, made when it is asked for the first time. It follows from the rest, so two are
/// never different.
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

    /// The files from the entry point to `path`, each imported by the one before it.
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

    /// The file that an import means here, as it was searched; `None` where it means no file.
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

    /// A hash of everything the value depends on, as 64 hex digits: equal for equal inputs, whatever
    /// the rest of the tree is.
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
        hex(&digest.finalize())
    }
}

struct ClosureBuilder<'a, 'b> {
    closure: Closure,
    /// The directories where libraries are searched, in the order of the search.
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

    /// The file an import means: searched in the directory of the importer, then along the path of
    /// libraries from its end. The first path with anything at it ends the search.
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
        // A directory that is both imported and a chart counts with its content.
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

    /// Adds the locks of packages: imports that come from packages, or from nowhere while packages are not installed, depend on which
    /// packages there are.
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
