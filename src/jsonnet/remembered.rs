//! Small values of programs that were evaluated before. A list of environments asks the same little
//! programs again and again; one is evaluated anew only when something it depends on is not the same.

use super::contract::{Entry, EvalLimits, Evaluated, Import, Request, SecondOpinion, SecondOpinionWanted};
use super::import::Imports;
use super::known::Known;
use crate::workspace::{Denied, Tree};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a value that is remembered.
const VALUE_BYTES_MAX: usize = 8 << 10;
/// Files and missing files a remembered value depends on.
const IMPORTS_MAX: usize = 64;
/// Values that are remembered, before the older half is forgotten.
const VALUES_MAX: usize = 4_096;

/// A hash of everything a program is given but the files.
type Key = [u8; 32];

/// Values by what they were evaluated from.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    // Held to look up and to add.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    recent: HashMap<Key, Evaluated>,
    before: HashMap<Key, Evaluated>,
}

impl Remembered {
    /// Remembers a value that depends on its request and its imports alone, if it is small.
    pub(super) fn keep(&self, request: &Request, evaluated: &Evaluated) {
        let is_small = evaluated.json.len() <= VALUE_BYTES_MAX && evaluated.imports.len() <= IMPORTS_MAX;
        if is_small && evaluated.second_opinion == SecondOpinion::NotAsked {
            self.kept().put(key(request), evaluated.clone());
        }
    }

    /// The values of these requests that are remembered, and still are what an evaluation would come to.
    pub(super) fn of(
        &self,
        requests: &[Request],
        limits: &EvalLimits,
        denied: &Denied,
    ) -> Vec<Option<Evaluated>> {
        // What is looked at in a tree is looked at once for all that follow each other.
        let mut looked: Option<Looked<'_>> = None;
        let found = requests.iter().map(|request| {
            if request.second_opinion != SecondOpinionWanted::No {
                return None;
            }
            let evaluated = self.kept().get(key(request))?;
            let looked = match &mut looked {
                Some(looked) if Arc::ptr_eq(looked.tree, &request.tree) => looked,
                other => other.insert(Looked::at(&request.tree)),
            };
            let is_same = |import| looked.is_same(import, limits, denied);
            evaluated.imports.iter().all(is_same).then_some(evaluated)
        });
        found.collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files and imports that values depend on, and whether a tree still has them.
struct Looked<'a> {
    tree: &'a Arc<dyn Tree>,
    known: Known,
    is_same: HashMap<Import, bool>,
}

impl<'a> Looked<'a> {
    fn at(tree: &'a Arc<dyn Tree>) -> Self {
        Self {
            tree,
            known: Known::default(),
            is_same: HashMap::new(),
        }
    }

    fn is_same(&mut self, import: &Import, limits: &EvalLimits, denied: &Denied) -> bool {
        if let Some(is_same) = self.is_same.get(import) {
            return *is_same;
        }
        // Where imports are searched does not matter: these say where they were found.
        let mut imports = Imports::new(self.tree.as_ref(), &[], limits, denied, &mut self.known);
        let is_same = imports.is_same(import);
        self.is_same.insert(import.clone(), is_same);
        is_same
    }
}

impl Kept {
    fn put(&mut self, key: Key, evaluated: Evaluated) {
        self.recent.insert(key, evaluated);
        if self.recent.len() > VALUES_MAX / 2 {
            self.before = std::mem::take(&mut self.recent);
        }
    }

    fn get(&mut self, key: Key) -> Option<Evaluated> {
        if let Some(evaluated) = self.recent.get(&key) {
            return Some(evaluated.clone());
        }
        let evaluated = self.before.remove(&key)?;
        self.put(key, evaluated.clone());
        Some(evaluated)
    }
}

fn key(request: &Request) -> Key {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    match &request.entry {
        Entry::File(path) => {
            add(b"file");
            add(path.as_str().as_bytes());
        }
        Entry::Snippet { name, text } => {
            add(b"text");
            add(name.as_str().as_bytes());
            add(text.as_bytes());
        }
    }
    add(&request.max_stack.to_le_bytes());
    for parts in [&request.ext_code, &request.tla_code] {
        add(&(parts.len() as u64).to_le_bytes());
        for (name, code) in parts {
            add(name.as_bytes());
            add(code.as_bytes());
        }
    }
    for directory in &request.jpath {
        add(directory.as_bytes());
    }
    digest.finalize().into()
}
