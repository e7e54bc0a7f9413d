//! What imports give: the imported files are read as well, and what they show for sure is known here.

use super::kinds::Kinds;
use super::scope;
use super::types::Types;
use super::{Notes, Sources};
use crate::jsonnet::syntax::{ImportKind, Kind, NodeId, Tree, parse, with_stack_for};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files between the one that is looked at and one that is followed to.
const IMPORTS_DEEP_MAX: usize = 6;
/// Bytes of all files that are followed to.
const BYTES_MAX: usize = 8 << 20;
/// Bytes of all files whose values are kept for the next one.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// Fields, items and results of one file that are known.
const PARTS_MAX: usize = 20_000;
/// How deep they are known.
const PARTS_DEEP_MAX: usize = 8;

/// What is known of a value of another file.
#[derive(Debug)]
pub(super) struct Foreign {
    pub(super) kinds: Kinds,
    pub(super) shape: ForeignShape,
}

/// What is known beyond the kind.
#[derive(Debug)]
pub(super) enum ForeignShape {
    /// Nothing.
    Unknown,
    /// All fields of an object.
    Fields(BTreeMap<String, Arc<Foreign>>),
    /// All items of an array.
    Items(Vec<Arc<Foreign>>),
    /// The parameters of a function, with whether each is needed, and what it gives.
    Function(Vec<(String, bool)>, Arc<Foreign>),
}

impl Foreign {
    pub(super) fn of(kinds: Kinds) -> Arc<Self> {
        Arc::new(Self {
            kinds,
            shape: ForeignShape::Unknown,
        })
    }
}

/// What the imports of a file give, where that is known.
pub(super) type Imported = HashMap<NodeId, Arc<Foreign>>;

/// What one file gives, where nothing that it imports was left out: it is the same for whoever imports it, as long
/// as all imports mean the same.
#[derive(Debug)]
struct Whole {
    /// `None` for a text that is no Jsonnet.
    foreign: Option<Arc<Foreign>>,
    bytes: usize,
    /// The imports in the order of the text, and what they mean.
    imports: Vec<(String, Meant)>,
    /// Files on the longest way from this one, with it.
    levels: usize,
}

/// The file that an import means, by its name.
type Meant = Option<(String, Arc<Whole>)>;

/// What files give that were followed to, kept for those that are looked at after them. All of them are of one tree.
#[derive(Debug, Default)]
pub struct Followed {
    // Held to look up and to add.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_name: HashMap<String, Arc<Whole>>,
    bytes: usize,
}

impl Followed {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, name: &str) -> Option<Arc<Whole>> {
        self.kept().by_name.get(name).map(Arc::clone)
    }

    /// Keeps a file, and answers what is kept of it: two that found the same at the same time go on with one.
    fn put(&self, name: &str, whole: Arc<Whole>) -> Arc<Whole> {
        let mut kept = self.kept();
        match kept.by_name.get(name) {
            Some(before) if before.is_same(&whole) => return Arc::clone(before),
            Some(_) => {}
            None if kept.bytes.saturating_add(whole.bytes) > KEPT_BYTES_MAX => return whole,
            None => kept.bytes += whole.bytes,
        }
        kept.by_name.insert(name.to_owned(), Arc::clone(&whole));
        whole
    }
}

impl Whole {
    /// True for what was found of the same imports.
    fn is_same(&self, other: &Self) -> bool {
        let name = |meant: &Meant| meant.as_ref().map(|(name, _)| name.clone());
        let same = |(one, other): (&(String, Meant), &(String, Meant))| {
            let is_one = match (&one.1, &other.1) {
                (Some((_, one)), Some((_, other))) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
            is_one && one.0 == other.0 && name(&one.1) == name(&other.1)
        };
        self.bytes == other.bytes
            && self.imports.len() == other.imports.len()
            && self.imports.iter().zip(&other.imports).all(same)
    }
}

/// A file that was followed to.
#[derive(Clone)]
struct Known {
    foreign: Option<Arc<Foreign>>,
    whole: Option<Arc<Whole>>,
}

/// What the imports of one file came to.
#[derive(Default)]
struct Imports {
    imported: Imported,
    /// As in [`Whole`]; `None` once something was left out.
    whole: Option<Vec<(String, Meant)>>,
}

/// Reads the files that imports mean, each once.
pub(super) struct Follower<'a> {
    sources: &'a dyn Sources,
    followed: &'a Followed,
    known: HashMap<String, Known>,
    /// The files on the way to this one. What comes back to one of them is not followed.
    open: Vec<String>,
    bytes_left: usize,
}

impl<'a> Follower<'a> {
    pub(super) fn new(sources: &'a dyn Sources, followed: &'a Followed) -> Self {
        Self {
            sources,
            followed,
            known: HashMap::new(),
            open: Vec::new(),
            bytes_left: BYTES_MAX,
        }
    }

    /// What the imports of a file give.
    pub(super) fn imports(&mut self, file: &str, tree: &Tree<'_>) -> Imported {
        self.look(file, tree).imported
    }

    fn look(&mut self, file: &str, tree: &Tree<'_>) -> Imports {
        let mut found = Imports::default();
        if self.open.len() == IMPORTS_DEEP_MAX {
            return found;
        }
        let mut whole = Some(Vec::new());
        self.open.push(file.to_owned());
        for (index, node) in tree.nodes.iter().enumerate() {
            let Kind::Import {
                kind: ImportKind::Code,
                file: path,
            } = &node.kind
            else {
                continue;
            };
            let Some(path) = tree.literal(*path) else {
                continue;
            };
            let Some(name) = self.sources.meaning(file, &path) else {
                whole
                    .iter_mut()
                    .for_each(|whole| whole.push((path.to_string(), None)));
                continue;
            };
            let known = self.file(&name);
            whole = whole.zip(known.whole).map(|(mut whole, of)| {
                whole.push((path.to_string(), Some((name, of))));
                whole
            });
            if let Some(foreign) = known.foreign {
                found.imported.insert(tree.id(index), foreign);
            }
        }
        self.open.pop();
        Imports { whole, ..found }
    }

    /// What a file gives, if it is followed.
    fn file(&mut self, name: &str) -> Known {
        const NOT_FOLLOWED: Known = Known {
            foreign: None,
            whole: None,
        };
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        if self.open.iter().any(|open| open == name) {
            return NOT_FOLLOWED;
        }
        let kept = self.followed.get(name);
        if let Some(kept) = &kept {
            if kept.bytes > self.bytes_left {
                return NOT_FOLLOWED;
            }
            if let Some(known) = self.again(name, kept) {
                return known;
            }
        }
        let Some(text) = self.sources.text(name) else {
            return NOT_FOLLOWED;
        };
        let Some(left) = self.bytes_left.checked_sub(text.len()) else {
            return NOT_FOLLOWED;
        };
        self.bytes_left = left;
        let mut known = self.read(name, &text);
        known.whole = known.whole.map(|whole| self.followed.put(name, whole));
        self.known.insert(name.to_owned(), known.clone());
        known
    }

    fn read(&mut self, name: &str, text: &str) -> Known {
        let Ok(tree) = parse(text) else {
            let whole = Whole {
                foreign: None,
                bytes: text.len(),
                imports: Vec::new(),
                levels: 1,
            };
            return Known {
                foreign: None,
                whole: Some(Arc::new(whole)),
            };
        };
        let Imports { imported, whole } = self.look(name, &tree);
        let foreign = with_stack_for(tree.depth, || {
            let scopes = scope::resolve(&tree, &mut Notes { list: Vec::new() });
            let mut types = Types::new(&tree, &scopes, &imported);
            let whole = types.of(tree.root);
            let mut parts_left = PARTS_MAX;
            types.told(&whole, PARTS_DEEP_MAX, &mut parts_left)
        });
        let whole = whole.filter(|_| foreign.is_some()).map(|imports| {
            let below = imports.iter().filter_map(|(_, meant)| meant.as_ref());
            Arc::new(Whole {
                foreign: foreign.clone(),
                bytes: text.len(),
                levels: 1 + below.map(|(_, whole)| whole.levels).max().unwrap_or(0),
                imports,
            })
        });
        Known { foreign, whole }
    }

    /// What a file gave before, if following it again would find the same: every import below means the same file,
    /// and nothing is left out.
    fn again(&mut self, name: &str, kept: &Arc<Whole>) -> Option<Known> {
        if self.open.len() + kept.levels > IMPORTS_DEEP_MAX {
            return None;
        }
        let mut seen: HashMap<&str, &Arc<Whole>> = HashMap::from([(name, kept)]);
        let (mut waiting, mut bytes) = (vec![(name, kept)], kept.bytes);
        while let Some((file, whole)) = waiting.pop() {
            for (import, before) in &whole.imports {
                let meant = self.sources.meaning(file, import);
                if meant.as_deref() != before.as_ref().map(|(name, _)| name.as_str()) {
                    return None;
                }
                let Some((name, whole)) = before else { continue };
                let is_open = self.open.iter().any(|open| open == name);
                // What was read in this round in another way, or with something left out, decides.
                let known = self.known.get(name);
                let is_same = known.is_none_or(|known| {
                    let known = known.whole.as_ref();
                    known.is_some_and(|known| Arc::ptr_eq(known, whole))
                });
                if is_open || !is_same {
                    return None;
                }
                if seen.insert(name, whole).is_none() {
                    if known.is_none() {
                        bytes += whole.bytes;
                    }
                    waiting.push((name, whole));
                }
            }
        }
        self.bytes_left = self.bytes_left.checked_sub(bytes)?;
        let known = |whole: &Arc<Whole>| Known {
            foreign: whole.foreign.clone(),
            whole: Some(Arc::clone(whole)),
        };
        self.known.extend(
            seen.into_iter()
                .map(|(name, whole)| (name.to_owned(), known(whole))),
        );
        Some(known(kept))
    }
}
