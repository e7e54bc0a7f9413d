//! The values of imports: imported files are read as well, and the certain facts about their values are collected.

use super::kinds::Kinds;
use super::scope;
use super::types::TypeInference;
use super::{ImportLookup, RawFindings};
use crate::rendering::jsonnet::syntax::{ImportKind, NodeId, NodeKind, SyntaxTree, parse, with_stack_for};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files between the linted file and an imported file that is read.
const IMPORT_DEPTH_MAX: usize = 6;
/// Bytes of all imported files that are read.
const BYTES_MAX: usize = 8 << 20;
/// Bytes of all files whose facts are cached for the next file.
const CACHE_BYTES_MAX: usize = 256 << 20;
/// Fields, items and results of one file that are recorded.
const PARTS_MAX: usize = 20_000;
/// The depth to which the parts of a value are recorded.
const PARTS_DEPTH_MAX: usize = 8;

/// The known facts about a value of another file.
#[derive(Debug)]
pub(super) struct ImportedValue {
    pub(super) kinds: Kinds,
    pub(super) shape: ImportedShape,
}

/// The known facts about a value beyond its kind.
#[derive(Debug)]
pub(super) enum ImportedShape {
    Unknown,
    /// All fields of an object.
    Fields(BTreeMap<String, Arc<ImportedValue>>),
    /// All items of an array.
    Items(Vec<Arc<ImportedValue>>),
    /// The parameters of a function, each with whether it is required, and its result.
    Function(Vec<(String, bool)>, Arc<ImportedValue>),
}

impl ImportedValue {
    pub(super) fn from_kinds(kinds: Kinds) -> Arc<Self> {
        Arc::new(Self {
            kinds,
            shape: ImportedShape::Unknown,
        })
    }
}

/// The known facts about the imports of a file, if there are any.
pub(super) type ImportedValues = HashMap<NodeId, Arc<ImportedValue>>;

/// The known facts about one file. They are valid for every importer as long as all imports below the file resolve to
/// the same files.
#[derive(Debug)]
struct FileSummary {
    /// `None` for a text that is not Jsonnet.
    value: Option<Arc<ImportedValue>>,
    bytes: usize,
    /// The imports that were followed, in the order of the text, and their targets.
    imports: Vec<(String, ImportTarget)>,
    depth: ImportDepth,
}

/// The depth to which the imports of a file were followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportDepth {
    /// All imports were followed; the longest chain has this many files.
    Complete(usize),
    /// The imports were followed up to the depth limit, from a file at this depth.
    TruncatedFrom(usize),
}

impl ImportDepth {
    /// True if following the file from this depth would find the same facts.
    fn applies_at(self, depth: usize) -> bool {
        match self {
            Self::Complete(levels) => depth + levels <= IMPORT_DEPTH_MAX,
            Self::TruncatedFrom(from) => from == depth,
        }
    }

    /// True if an entry with this depth replaces an entry with the other depth.
    fn replaces(self, other: Self) -> bool {
        match (self, other) {
            (Self::Complete(_), Self::Complete(_)) => true,
            (one, other) => one == other,
        }
    }
}

/// The target of an import: its name and its facts.
type ImportTarget = Option<(String, Arc<FileSummary>)>;

/// A cache of the known facts about imported files, for the files that are linted later. All files belong to one tree.
#[derive(Debug, Default)]
pub struct ImportCache {
    // The lock is held only for a lookup or an insertion.
    entries: Mutex<ImportCacheEntries>,
}

#[derive(Debug, Default)]
struct ImportCacheEntries {
    /// The cached facts by name of the file: one complete entry, and one truncated entry for each depth.
    by_name: HashMap<String, Vec<Arc<FileSummary>>>,
    bytes: usize,
}

impl ImportCache {
    fn lock_entries(&self) -> MutexGuard<'_, ImportCacheEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached facts about a file that apply at a depth.
    fn get(&self, name: &str, depth: usize) -> Option<Arc<FileSummary>> {
        let kept = self.lock_entries();
        let mut known = kept.by_name.get(name)?.iter();
        known.find(|whole| whole.depth.applies_at(depth)).map(Arc::clone)
    }

    /// Stores the facts about a file, and returns the cached ones: if two threads find the same facts at the same time,
    /// both continue with one entry.
    fn put(&self, name: &str, whole: Arc<FileSummary>) -> Arc<FileSummary> {
        let mut kept = self.lock_entries();
        let is_full = kept.bytes.saturating_add(whole.bytes) > CACHE_BYTES_MAX;
        let known = kept.by_name.entry(name.to_owned()).or_default();
        match known.iter_mut().find(|before| before.depth.replaces(whole.depth)) {
            Some(before) if before.has_same_imports(&whole) => return Arc::clone(before),
            Some(before) => *before = Arc::clone(&whole),
            None if is_full => {}
            None => {
                known.push(Arc::clone(&whole));
                kept.bytes += whole.bytes;
            }
        }
        whole
    }
}

impl FileSummary {
    /// True if both summaries result from the same imports.
    fn has_same_imports(&self, other: &Self) -> bool {
        let same = |(one, other): (&(String, ImportTarget), &(String, ImportTarget))| {
            let is_one = match (&one.1, &other.1) {
                (Some((name, one)), Some((other_name, other))) => {
                    Arc::ptr_eq(one, other) && name == other_name
                }
                (one, other) => one.is_none() && other.is_none(),
            };
            is_one && one.0 == other.0
        };
        self.bytes == other.bytes
            && self.depth == other.depth
            && self.imports.len() == other.imports.len()
            && self.imports.iter().zip(&other.imports).all(same)
    }
}

/// An imported file that was read.
#[derive(Clone)]
struct FollowedFile {
    value: Option<Arc<ImportedValue>>,
    summary: Option<Arc<FileSummary>>,
}

/// The result of following the imports of one file.
struct FileImports {
    values: ImportedValues,
    /// The imports and their depth as in [`FileSummary`]; `None` if something was left out for another reason than the
    /// depth limit.
    summary: Option<(Vec<(String, ImportTarget)>, ImportDepth)>,
}

/// A reader of imported files, which reads each file once.
pub(super) struct ImportFollower<'a> {
    lookup: &'a dyn ImportLookup,
    cache: &'a ImportCache,
    files: HashMap<String, FollowedFile>,
    /// The chain of files that leads to the current one. An import of a file in this chain is not followed.
    import_chain: Vec<String>,
    bytes_left: usize,
}

impl<'a> ImportFollower<'a> {
    pub(super) fn new(sources: &'a dyn ImportLookup, followed: &'a ImportCache) -> Self {
        Self {
            lookup: sources,
            cache: followed,
            files: HashMap::new(),
            import_chain: Vec::new(),
            bytes_left: BYTES_MAX,
        }
    }

    /// Follows the imports of a file, and returns the known facts about their values.
    pub(super) fn follow_imports(&mut self, file: &str, tree: &SyntaxTree<'_>) -> ImportedValues {
        self.follow(file, tree).values
    }

    fn follow(&mut self, file: &str, tree: &SyntaxTree<'_>) -> FileImports {
        let depth = self.import_chain.len();
        let mut imported = ImportedValues::new();
        let mut named = tree
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| match &node.kind {
                NodeKind::Import {
                    kind: ImportKind::Code,
                    file: path,
                } => Some((tree.id(index), tree.literal(*path)?)),
                _ => None,
            });
        if depth == IMPORT_DEPTH_MAX {
            let reach = match named.next() {
                None => ImportDepth::Complete(0),
                Some(_) => ImportDepth::TruncatedFrom(depth),
            };
            return FileImports {
                values: imported,
                summary: Some((Vec::new(), reach)),
            };
        }
        let mut whole = Some((Vec::new(), ImportDepth::Complete(0)));
        self.import_chain.push(file.to_owned());
        for (node, path) in named {
            let Some(name) = self.lookup.resolve(file, &path) else {
                whole
                    .iter_mut()
                    .for_each(|(imports, _)| imports.push((path.to_string(), None)));
                continue;
            };
            let known = self.follow_file(&name);
            whole = whole.zip(known.summary).map(|((mut imports, reach), of)| {
                let reach = match (reach, of.depth) {
                    (ImportDepth::Complete(levels), ImportDepth::Complete(below)) => {
                        ImportDepth::Complete(levels.max(below + 1))
                    }
                    (_, _) => ImportDepth::TruncatedFrom(depth),
                };
                imports.push((path.to_string(), Some((name, of))));
                (imports, reach)
            });
            imported.extend(known.value.map(|foreign| (node, foreign)));
        }
        self.import_chain.pop();
        FileImports {
            values: imported,
            summary: whole,
        }
    }

    /// Returns the known facts about a file, if it is followed.
    fn follow_file(&mut self, name: &str) -> FollowedFile {
        const NOT_FOLLOWED: FollowedFile = FollowedFile {
            value: None,
            summary: None,
        };
        if let Some(known) = self.files.get(name) {
            return known.clone();
        }
        if self.import_chain.iter().any(|open| open == name) {
            return NOT_FOLLOWED;
        }
        let kept = self.cache.get(name, self.import_chain.len());
        if let Some(kept) = &kept {
            if kept.bytes > self.bytes_left {
                return NOT_FOLLOWED;
            }
            if let Some(known) = self.reuse_cached(name, kept) {
                return known;
            }
        }
        let Some(text) = self.lookup.text(name) else {
            return NOT_FOLLOWED;
        };
        let Some(left) = self.bytes_left.checked_sub(text.len()) else {
            return NOT_FOLLOWED;
        };
        self.bytes_left = left;
        let mut known = self.summarize(name, &text);
        known.summary = known.summary.map(|whole| self.cache.put(name, whole));
        self.files.insert(name.to_owned(), known.clone());
        known
    }

    fn summarize(&mut self, name: &str, text: &str) -> FollowedFile {
        let Ok(tree) = parse(text) else {
            let whole = FileSummary {
                value: None,
                bytes: text.len(),
                imports: Vec::new(),
                depth: ImportDepth::Complete(0),
            };
            return FollowedFile {
                value: None,
                summary: Some(Arc::new(whole)),
            };
        };
        let FileImports {
            values: imported,
            summary: whole,
        } = self.follow(name, &tree);
        let foreign = with_stack_for(tree.depth, || {
            let scopes = scope::resolve(&tree, &mut RawFindings { list: Vec::new() });
            let mut types = TypeInference::new(&tree, &scopes, &imported);
            let whole = types.type_of(tree.root);
            let mut parts_left = PARTS_MAX;
            types.export_value(&whole, PARTS_DEPTH_MAX, &mut parts_left)
        });
        let whole = whole.filter(|_| foreign.is_some()).map(|(imports, reach)| {
            Arc::new(FileSummary {
                value: foreign.clone(),
                bytes: text.len(),
                imports,
                depth: reach,
            })
        });
        FollowedFile {
            value: foreign,
            summary: whole,
        }
    }

    /// Returns the cached facts about a file, if following it again would find the same.
    fn reuse_cached(&mut self, name: &str, kept: &Arc<FileSummary>) -> Option<FollowedFile> {
        let mut seen = HashMap::from([(name.to_owned(), Arc::clone(kept))]);
        self.check_unchanged(name, kept, self.import_chain.len(), &mut seen)?;
        let bytes = seen.values().map(|whole| whole.bytes).sum();
        self.bytes_left = self.bytes_left.checked_sub(bytes)?;
        let known = |whole: Arc<FileSummary>| FollowedFile {
            value: whole.value.clone(),
            summary: Some(whole),
        };
        self.files
            .extend(seen.into_iter().map(|(name, whole)| (name, known(whole))));
        Some(known(Arc::clone(kept)))
    }

    /// Checks each import below a file as following it would; returns `None` if anything has changed. Adds newly
    /// visited files to `seen`.
    fn check_unchanged(
        &self,
        file: &str,
        whole: &FileSummary,
        depth: usize,
        seen: &mut HashMap<String, Arc<FileSummary>>,
    ) -> Option<()> {
        for (import, before) in &whole.imports {
            let meant = self.lookup.resolve(file, import);
            let Some((name, whole)) = before else {
                meant.is_none().then_some(())?;
                continue;
            };
            (meant.as_ref() == Some(name) && !self.import_chain.contains(name)).then_some(())?;
            let known = match seen.get(name) {
                Some(known) => Some(known),
                // Facts found in this round take precedence, also if they differ or are incomplete.
                None => match self.files.get(name) {
                    Some(known) => Some(known.summary.as_ref()?),
                    None => None,
                },
            };
            match known {
                Some(known) => Arc::ptr_eq(known, whole).then_some(())?,
                None => {
                    whole.depth.applies_at(depth + 1).then_some(())?;
                    seen.insert(name.clone(), Arc::clone(whole));
                    self.check_unchanged(name, whole, depth + 1, seen)?;
                }
            }
        }
        Some(())
    }
}
