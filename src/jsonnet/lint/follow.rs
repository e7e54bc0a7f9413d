//! What imports give: the imported files are read as well, and what they show for sure is known here.

use super::kinds::Kinds;
use super::scope;
use super::types::Types;
use super::{Notes, Sources};
use crate::jsonnet::syntax::{ImportKind, Kind, NodeId, Tree, parse, with_stack_for};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Files between the one that is looked at and one that is followed to.
const IMPORTS_DEEP_MAX: usize = 6;
/// Bytes of all files that are followed to.
const BYTES_MAX: usize = 8 << 20;
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

/// Reads the files that imports mean, each once.
pub(super) struct Follower<'a> {
    sources: &'a Sources<'a>,
    known: HashMap<String, Arc<Foreign>>,
    /// The files on the way to this one. What comes back to one of them is not followed.
    open: Vec<String>,
    bytes_left: usize,
}

impl<'a> Follower<'a> {
    pub(super) fn new(sources: &'a Sources<'a>) -> Self {
        Self {
            sources,
            known: HashMap::new(),
            open: Vec::new(),
            bytes_left: BYTES_MAX,
        }
    }

    /// What the imports of a file give.
    pub(super) fn imports(&mut self, file: &str, tree: &Tree<'_>) -> Imported {
        let mut imported = Imported::new();
        if self.open.len() == IMPORTS_DEEP_MAX {
            return imported;
        }
        self.open.push(file.to_owned());
        for (index, node) in tree.nodes.iter().enumerate() {
            let Kind::Import {
                kind: ImportKind::Code,
                file: path,
            } = &node.kind
            else {
                continue;
            };
            let source = tree.literal(*path).and_then(|path| (self.sources)(file, &path));
            if let Some(foreign) = source.and_then(|(name, text)| self.file(name, &text)) {
                imported.insert(tree.id(index), foreign);
            }
        }
        self.open.pop();
        imported
    }

    /// What a file gives; `None` if it is not followed.
    fn file(&mut self, name: String, text: &str) -> Option<Arc<Foreign>> {
        if let Some(known) = self.known.get(&name) {
            return Some(Arc::clone(known));
        }
        if self.open.contains(&name) {
            return None;
        }
        self.bytes_left = self.bytes_left.checked_sub(text.len())?;
        let tree = parse(text).ok()?;
        let imported = self.imports(&name, &tree);
        let foreign = with_stack_for(tree.depth, || {
            let scopes = scope::resolve(&tree, &mut Notes { list: Vec::new() });
            let mut types = Types::new(&tree, &scopes, &imported);
            let whole = types.of(tree.root);
            let mut parts_left = PARTS_MAX;
            types.told(&whole, PARTS_DEEP_MAX, &mut parts_left)
        })?;
        self.known.insert(name, Arc::clone(&foreign));
        Some(foreign)
    }
}
