//! A cache of small values of evaluated programs. A list of environments evaluates the same small programs repeatedly;
//! a program is evaluated again only if something it depends on has changed.

use super::contract::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalLimits, EvalRequest, Evaluation, Import,
};
use super::import::ImportTracker;
use super::sent_files::SentFiles;
use crate::state::workspace::{DeniedFiles, Tree};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the largest cached value.
const VALUE_BYTES_MAX: usize = 8 << 10;
/// Files and missing files that a cached value may depend on.
const IMPORTS_MAX: usize = 64;
/// Cached values. At this number the older half is dropped.
const VALUES_MAX: usize = 4_096;

/// A hash of all inputs of a program except the files.
type RequestHash = [u8; 32];

/// Cached values by their inputs.
#[derive(Debug, Default)]
pub(super) struct EvaluationMemo {
    // The lock is held only for a lookup or an insertion.
    cache: Mutex<MemoCache>,
}

#[derive(Debug, Default)]
struct MemoCache {
    recent: HashMap<RequestHash, Evaluation>,
    older: HashMap<RequestHash, Evaluation>,
}

impl EvaluationMemo {
    /// Caches a small value that depends only on its request and its imports.
    pub(super) fn insert(&self, request: &EvalRequest, evaluated: &Evaluation) {
        let is_small = evaluated.json.len() <= VALUE_BYTES_MAX && evaluated.imports.len() <= IMPORTS_MAX;
        if is_small && evaluated.cross_check == CrossCheckResult::NotRun {
            self.lock().put(key(request), evaluated.clone());
        }
    }

    /// Returns the cached values of these requests that are still valid.
    pub(super) fn lookup(
        &self,
        requests: &[EvalRequest],
        limits: &EvalLimits,
        denied: &DeniedFiles,
    ) -> Vec<Option<Evaluation>> {
        // Consecutive requests on the same tree share the results of these checks.
        let mut looked: Option<ImportCheck<'_>> = None;
        let found = requests.iter().map(|request| {
            if request.cross_check != CrossCheckMode::Off {
                return None;
            }
            let evaluated = self.lock().get(key(request))?;
            let looked = match &mut looked {
                Some(looked) if Arc::ptr_eq(looked.tree, &request.tree) => looked,
                other => other.insert(ImportCheck::new(&request.tree)),
            };
            let is_same = |import| looked.is_unchanged(import, limits, denied);
            evaluated.imports.iter().all(is_same).then_some(evaluated)
        });
        found.collect()
    }

    fn lock(&self) -> MutexGuard<'_, MemoCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files and imports that values depend on, and whether a tree still has them.
struct ImportCheck<'a> {
    tree: &'a Arc<dyn Tree>,
    sent_files: SentFiles,
    results: HashMap<Import, bool>,
}

impl<'a> ImportCheck<'a> {
    fn new(tree: &'a Arc<dyn Tree>) -> Self {
        Self {
            tree,
            sent_files: SentFiles::default(),
            results: HashMap::new(),
        }
    }

    fn is_unchanged(&mut self, import: &Import, limits: &EvalLimits, denied: &DeniedFiles) -> bool {
        if let Some(is_same) = self.results.get(import) {
            return *is_same;
        }
        // The library path is not needed here: these imports contain the paths they resolved to.
        let mut imports = ImportTracker::new(self.tree.as_ref(), &[], limits, denied, &mut self.sent_files);
        let is_same = imports.is_unchanged(import);
        self.results.insert(import.clone(), is_same);
        is_same
    }
}

impl MemoCache {
    fn put(&mut self, key: RequestHash, evaluated: Evaluation) {
        self.recent.insert(key, evaluated);
        if self.recent.len() > VALUES_MAX / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
    }

    fn get(&mut self, key: RequestHash) -> Option<Evaluation> {
        if let Some(evaluated) = self.recent.get(&key) {
            return Some(evaluated.clone());
        }
        let evaluated = self.older.remove(&key)?;
        self.put(key, evaluated.clone());
        Some(evaluated)
    }
}

fn key(request: &EvalRequest) -> RequestHash {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    match &request.entry {
        EntryPoint::File(path) => {
            add(b"file");
            add(path.as_str().as_bytes());
        }
        EntryPoint::Snippet { name, text } => {
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
