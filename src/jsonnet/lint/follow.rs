//! The values of imports: the imported files are read as well, and what they show for sure is known here.

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
/// The depth to which the parts of a value are known.
const PARTS_DEEP_MAX: usize = 8;

/// The known facts about a value of another file.
#[derive(Debug)]
pub(super) struct Foreign {
    pub(super) kinds: Kinds,
    pub(super) shape: ForeignShape,
}

/// The known facts about a value beyond its kind.
#[derive(Debug)]
pub(super) enum ForeignShape {
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

/// The known facts about the imports of a file, where there is any.
pub(super) type Imported = HashMap<NodeId, Arc<Foreign>>;

/// The known facts about one file, as long as all imports below it mean the same: it is the same for whoever imports it.
#[derive(Debug)]
struct Whole {
    /// `None` for a text that is no Jsonnet.
    foreign: Option<Arc<Foreign>>,
    bytes: usize,
    /// The imports that were followed, in the order of the text, and what they mean.
    imports: Vec<(String, Meant)>,
    reach: Reach,
}

/// The distance to which the imports of a file were followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Followed to their ends, which are so many files away at most.
    Ends(usize),
    /// Followed as far as it goes for a file that has so many before it.
    From(usize),
}

impl Reach {
    /// True if the same is found by whoever comes to the file after so many others.
    fn suits(self, depth: usize) -> bool {
        match self {
            Self::Ends(levels) => depth + levels <= IMPORTS_DEEP_MAX,
            Self::From(from) => from == depth,
        }
    }

    /// True if both can be kept only in place of each other.
    fn is_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::Ends(_), Self::Ends(_)) => true,
            (one, other) => one == other,
        }
    }
}

/// The file that an import means, by its name.
type Meant = Option<(String, Arc<Whole>)>;

/// A cache of the known facts about files that were followed to, for those that are looked at after them. All of them are of one tree.
#[derive(Debug, Default)]
pub struct Followed {
    // Held to look up and to add.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The kept facts by name of the file: each file in full, and as far as it goes from each number of files before it.
    by_name: HashMap<String, Vec<Arc<Whole>>>,
    bytes: usize,
}

impl Followed {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is kept of a file that has so many before it.
    fn get(&self, name: &str, depth: usize) -> Option<Arc<Whole>> {
        let kept = self.kept();
        let mut known = kept.by_name.get(name)?.iter();
        known.find(|whole| whole.reach.suits(depth)).map(Arc::clone)
    }

    /// Keeps a file, and answers what is kept of it: two that found the same at the same time go on with one.
    fn put(&self, name: &str, whole: Arc<Whole>) -> Arc<Whole> {
        let mut kept = self.kept();
        let is_full = kept.bytes.saturating_add(whole.bytes) > KEPT_BYTES_MAX;
        let known = kept.by_name.entry(name.to_owned()).or_default();
        match known.iter_mut().find(|before| before.reach.is_of(whole.reach)) {
            Some(before) if before.is_same(&whole) => return Arc::clone(before),
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

impl Whole {
    /// True for what was found of the same imports.
    fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&(String, Meant), &(String, Meant))| {
            let is_one = match (&one.1, &other.1) {
                (Some((name, one)), Some((other_name, other))) => {
                    Arc::ptr_eq(one, other) && name == other_name
                }
                (one, other) => one.is_none() && other.is_none(),
            };
            is_one && one.0 == other.0
        };
        self.bytes == other.bytes
            && self.reach == other.reach
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

/// The result of following the imports of one file.
struct Imports {
    imported: Imported,
    /// The imports and their reach as in [`Whole`]; `None` once something was left out for another reason than how far it is away.
    whole: Option<(Vec<(String, Meant)>, Reach)>,
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

    /// Follows the imports of a file, and answers what they give.
    pub(super) fn imports(&mut self, file: &str, tree: &Tree<'_>) -> Imported {
        self.look(file, tree).imported
    }

    fn look(&mut self, file: &str, tree: &Tree<'_>) -> Imports {
        let depth = self.open.len();
        let mut imported = Imported::new();
        let mut named = tree
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| match &node.kind {
                Kind::Import {
                    kind: ImportKind::Code,
                    file: path,
                } => Some((tree.id(index), tree.literal(*path)?)),
                _ => None,
            });
        if depth == IMPORTS_DEEP_MAX {
            let reach = match named.next() {
                None => Reach::Ends(0),
                Some(_) => Reach::From(depth),
            };
            return Imports {
                imported,
                whole: Some((Vec::new(), reach)),
            };
        }
        let mut whole = Some((Vec::new(), Reach::Ends(0)));
        self.open.push(file.to_owned());
        for (node, path) in named {
            let Some(name) = self.sources.meaning(file, &path) else {
                whole
                    .iter_mut()
                    .for_each(|(imports, _)| imports.push((path.to_string(), None)));
                continue;
            };
            let known = self.file(&name);
            whole = whole.zip(known.whole).map(|((mut imports, reach), of)| {
                let reach = match (reach, of.reach) {
                    (Reach::Ends(levels), Reach::Ends(below)) => Reach::Ends(levels.max(below + 1)),
                    (_, _) => Reach::From(depth),
                };
                imports.push((path.to_string(), Some((name, of))));
                (imports, reach)
            });
            imported.extend(known.foreign.map(|foreign| (node, foreign)));
        }
        self.open.pop();
        Imports { imported, whole }
    }

    /// Returns what is known of a file, if it is followed.
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
        let kept = self.followed.get(name, self.open.len());
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
                reach: Reach::Ends(0),
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
        let whole = whole.filter(|_| foreign.is_some()).map(|(imports, reach)| {
            Arc::new(Whole {
                foreign: foreign.clone(),
                bytes: text.len(),
                imports,
                reach,
            })
        });
        Known { foreign, whole }
    }

    /// Returns what was known before of a file, if following it again would find the same.
    fn again(&mut self, name: &str, kept: &Arc<Whole>) -> Option<Known> {
        let mut seen = HashMap::from([(name.to_owned(), Arc::clone(kept))]);
        self.is_same_below(name, kept, self.open.len(), &mut seen)?;
        let bytes = seen.values().map(|whole| whole.bytes).sum();
        self.bytes_left = self.bytes_left.checked_sub(bytes)?;
        let known = |whole: Arc<Whole>| Known {
            foreign: whole.foreign.clone(),
            whole: Some(whole),
        };
        self.known
            .extend(seen.into_iter().map(|(name, whole)| (name, known(whole))));
        Some(known(Arc::clone(kept)))
    }

    /// Checks each import below a file, as following it would; returns `None` where anything is otherwise than before. What is new on the
    /// way comes into `seen`.
    fn is_same_below(
        &self,
        file: &str,
        whole: &Whole,
        depth: usize,
        seen: &mut HashMap<String, Arc<Whole>>,
    ) -> Option<()> {
        for (import, before) in &whole.imports {
            let meant = self.sources.meaning(file, import);
            let Some((name, whole)) = before else {
                meant.is_none().then_some(())?;
                continue;
            };
            (meant.as_ref() == Some(name) && !self.open.contains(name)).then_some(())?;
            let known = match seen.get(name) {
                Some(known) => Some(known),
                // What was read in this round in another way, or with something left out, decides.
                None => match self.known.get(name) {
                    Some(known) => Some(known.whole.as_ref()?),
                    None => None,
                },
            };
            match known {
                Some(known) => Arc::ptr_eq(known, whole).then_some(())?,
                None => {
                    whole.reach.suits(depth + 1).then_some(())?;
                    seen.insert(name.clone(), Arc::clone(whole));
                    self.is_same_below(name, whole, depth + 1, seen)?;
                }
            }
        }
        Some(())
    }
}
