//! The closure of an entry point, which is all its value can depend on: the files its imports mean, the paths that were looked at in vain
//! before them, its settings, its charts, and the lock of its packages.

use super::look::{Looked, Looks, Program, State, hex};
use super::outline::ImportOf;
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
pub enum Role {
    /// The entry point itself, a file that is imported, or a path where an import was searched.
    Import,
    /// The `spec.json` beside the entry point.
    Settings,
    /// A directory of a Helm chart or a kustomization.
    Chart,
    /// The lock of the packages some imports come from.
    Lock,
}

impl Role {
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
pub struct Dependency {
    /// The role of the path.
    pub role: Role,
    /// The state of the path.
    pub state: State,
    /// The file that names it first; `None` for the entry point and what lies beside it.
    pub importer: Option<RepoPath>,
    /// The symlinks on the way and, last, the path behind them.
    pub(super) trail: Vec<RepoPath>,
}

/// An import that means no file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unresolved {
    /// The file with the import.
    pub importer: RepoPath,
    /// The import as it is written.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// Said where nothing was found at any place.
const NO_MATCH: &str = "no match locally or in the Jsonnet library paths";

impl Unresolved {
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
    pub dependencies: BTreeMap<RepoPath, Dependency>,
    /// Imports that mean no file.
    pub unresolved: BTreeSet<Unresolved>,
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
    pub(super) fn of(layout: Layout, looks: &mut Looks<'_>) -> Self {
        let mut building = Building {
            libraries: layout.jpath().into_iter().rev().collect(),
            closure: Self {
                layout,
                dependencies: BTreeMap::new(),
                unresolved: BTreeSet::new(),
                id: Id::default(),
            },
            looks,
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
    pub fn meaning(&self, importer: &RepoPath, import: &str) -> Option<RepoPath> {
        let own = importer.parent().unwrap_or("").to_owned();
        let libraries = self.layout.jpath().into_iter().rev();
        let places = std::iter::once(own).chain(libraries);
        for candidate in places.filter_map(|directory| clean(&directory, import)) {
            let candidate = RepoPath::parse(&candidate).ok()?;
            match self.dependencies.get(&candidate)?.state {
                State::File { .. } => return Some(candidate),
                State::Absent => {}
                State::Directory { .. } | State::Unreadable { .. } => return None,
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
                State::File { blob } => ("f", blob.as_str()),
                State::Directory { digest } => ("d", digest.as_str()),
                State::Absent => ("a", ""),
                State::Unreadable { why } => ("u", why.as_str()),
            };
            add(letter);
            add(detail);
        }
        hex(&digest.finalize())
    }
}

struct Building<'a, 'b> {
    closure: Closure,
    /// The directories where libraries are searched, in the order of the search.
    libraries: Arc<[String]>,
    looks: &'a mut Looks<'b>,
    programs: BTreeSet<RepoPath>,
    queue: VecDeque<RepoPath>,
}

impl Building<'_, '_> {
    fn run(&mut self) {
        let entrypoint = self.closure.layout.entrypoint.clone();
        self.look(&entrypoint, Role::Import, None);
        self.enqueue(entrypoint);
        self.look_beside(&self.closure.layout.base.clone(), "spec.json", Role::Settings);
        while let Some(file) = self.queue.pop_front() {
            let program = self.looks.program(&file);
            self.follow(&file, &program);
        }
        self.add_locks();
    }

    fn follow(&mut self, file: &RepoPath, program: &Program) {
        let outline = &program.outline;
        for (import, beside) in outline.imports.iter().zip(&program.beside) {
            let found = match beside {
                Some((found, looked)) if import.path != BUILT_IN => {
                    self.depend(found, looked, Role::Import, Some(file));
                    Ok(Some(found.clone()))
                }
                Some(_) | None => self.resolve(file, import),
            };
            match found {
                Ok(Some(found)) if import.is_program => self.enqueue(found),
                Ok(_) => {}
                Err(why) => {
                    self.closure.unresolved.insert(Unresolved {
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
                self.look(&directory, Role::Chart, Some(file));
            }
        }
    }

    /// The file an import means: searched in the directory of the importer, then along the path of
    /// libraries from its end. The first path with anything at it ends the search.
    fn resolve(&mut self, importer: &RepoPath, import: &ImportOf) -> Result<Option<RepoPath>, String> {
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
            match &self.look(&candidate, Role::Import, Some(importer)).state {
                State::File { .. } => return Ok(Some(candidate)),
                State::Absent => {}
                State::Directory { .. } => return Err("it is a directory".to_owned()),
                State::Unreadable { why } => return Err(why.clone()),
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

    fn look_beside(&mut self, directory: &str, name: &str, role: Role) {
        if let Ok(path) = RepoPath::parse(&join(directory, name)) {
            self.look(&path, role, None);
        }
    }

    fn look(&mut self, path: &RepoPath, role: Role, importer: Option<&RepoPath>) -> Arc<Looked> {
        let looked = match role {
            Role::Chart => self.looks.chart(path),
            Role::Import | Role::Settings | Role::Lock => self.looks.at(path),
        };
        self.depend(path, &looked, role, importer);
        looked
    }

    fn depend(&mut self, path: &RepoPath, looked: &Looked, role: Role, importer: Option<&RepoPath>) {
        let known = self.closure.dependencies.get(path);
        // A directory that is both imported and a chart counts with its content.
        if known.is_none_or(|known| role == Role::Chart && known.role != Role::Chart) {
            let dependency = Dependency {
                role,
                state: looked.state.clone(),
                importer: importer.cloned(),
                trail: looked.trail.clone(),
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
                path.as_str().starts_with(&prefix) && dependency.state != State::Absent
            })
        };
        let used: Vec<String> = vendors
            .into_iter()
            .filter(|vendor| uses(vendor) || is_missing)
            .collect();
        for vendor in used {
            self.look_beside(parent(&vendor).unwrap_or(""), LOCK_FILE, Role::Lock);
        }
    }
}
