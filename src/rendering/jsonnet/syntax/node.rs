//! The tree of a source. All nodes are in one vector, children before their parents, and refer to each other by index.
//! Dropping, iterating and sharing are cheap, and dropping does not recurse.

use super::escape::unescape;
use super::fodder::{Fodder, Fodders};
use super::operator::{BinaryOperator, UnaryOperator};
use super::part::{
    Apply, Bind, BlockIndent, Conditional, Field, ForSpec, ImportKind, Item, Parameters, Slice, TextStyle,
    TrailingComma,
};
use super::position::Span;
use std::borrow::Cow;

/// The number of a node in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// Returns the index in [`SyntaxTree::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A parsed source.
#[derive(Debug)]
pub struct SyntaxTree<'s> {
    /// The source.
    pub text: &'s str,
    /// The nodes, children before parents.
    pub nodes: Vec<Node<'s>>,
    /// The fodder between the tokens.
    pub fodders: Fodders<'s>,
    /// The whole expression.
    pub root: NodeId,
    /// The fodder after the last token.
    pub last_fodder: Fodder,
    /// The nesting depth, at most [`super::DEPTH_MAX`]. Locals and assertions in sequence do not nest.
    pub depth: usize,
}

impl<'s> SyntaxTree<'s> {
    /// Returns a node.
    #[allow(
        clippy::indexing_slicing,
        reason = "only a tree hands out the numbers of its nodes"
    )]
    pub fn node(&self, id: NodeId) -> &Node<'s> {
        &self.nodes[id.0 as usize]
    }

    /// Returns the meaning of a string; `None` for another node, and for a string with an invalid escape.
    pub fn literal(&self, id: NodeId) -> Option<Cow<'_, str>> {
        let NodeKind::Text { style, value, .. } = &self.node(id).kind else {
            return None;
        };
        match style.keeps_escapes() {
            true => unescape(value).ok(),
            false => Some(Cow::Borrowed(value)),
        }
    }

    /// Returns a node for changes.
    #[allow(
        clippy::indexing_slicing,
        reason = "only a tree hands out the numbers of its nodes"
    )]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node<'s> {
        &mut self.nodes[id.0 as usize]
    }

    /// Returns the id of the node at an index of [`SyntaxTree::nodes`].
    pub fn id(&self, index: usize) -> NodeId {
        NodeId(index as u32)
    }

    /// Adds a node and returns its id.
    pub fn add(&mut self, node: Node<'s>) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Returns the node whose first token is the first token of this one.
    pub fn leftmost(&self, id: NodeId) -> NodeId {
        let mut leftmost = id;
        while let Some(left) = self.node(leftmost).kind.left() {
            leftmost = left;
        }
        leftmost
    }

    /// Returns the fodder before the first token of a node.
    pub fn open_fodder(&self, id: NodeId) -> Fodder {
        self.node(self.leftmost(id)).fodder
    }

    /// Returns the fodder before the first token of a node for changes.
    pub fn open_fodder_mut(&mut self, id: NodeId) -> &mut Fodder {
        let leftmost = self.leftmost(id);
        &mut self.node_mut(leftmost).fodder
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Node<'s> {
    /// The fodder before its first token. It is empty if a child begins with that token.
    pub fodder: Fodder,
    /// The location in the source.
    pub span: Span,
    /// The kind of expression.
    pub kind: NodeKind<'s>,
}

/// The kind of an expression.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub enum NodeKind<'s> {
    /// `f(x, y=z)`
    Apply(Box<Apply<'s>>),
    /// `e { }`
    ApplyBrace { left: NodeId, right: NodeId },
    /// `[a, b]`
    Array {
        items: Vec<Item>,
        trailing_comma: TrailingComma,
        close: Fodder,
    },
    /// `[e for x in xs]`
    ArrayComprehension {
        body: NodeId,
        comma: Option<Fodder>,
        specs: Vec<ForSpec<'s>>,
        close: Fodder,
    },
    /// `assert c : m; e`
    Assert {
        condition: NodeId,
        message: Option<(Fodder, NodeId)>,
        semicolon: Fodder,
        rest: NodeId,
    },
    /// `a + b`
    Binary {
        left: NodeId,
        operator_fodder: Fodder,
        operator: BinaryOperator,
        right: NodeId,
    },
    /// `true`, `false`
    Boolean(bool),
    /// `if c then a else b`
    Conditional(Conditional),
    /// `$`
    Dollar,
    /// `error e`
    Error(NodeId),
    /// `function(x) e`
    Function {
        parameters: Box<Parameters<'s>>,
        body: NodeId,
    },
    /// `import 'f'`, `importstr 'f'` or `importbin 'f'`; the file is a [`NodeKind::Text`].
    Import { kind: ImportKind, file: NodeId },
    /// `e in super`
    InSuper {
        element: NodeId,
        in_fodder: Fodder,
        super_fodder: Fodder,
    },
    /// `e[i]`
    Index {
        target: NodeId,
        open: Fodder,
        index: NodeId,
        close: Fodder,
    },
    /// `e.name`
    Member {
        target: NodeId,
        dot: Fodder,
        name_fodder: Fodder,
        name: Cow<'s, str>,
    },
    /// `local x = a, f(y) = b; e`
    Local { binds: Vec<Bind<'s>>, body: NodeId },
    /// `null`
    Null,
    /// A number, as written but without `_`.
    Number(Cow<'s, str>),
    /// `{ a: 1 }`
    Object {
        fields: Vec<Field<'s>>,
        trailing_comma: TrailingComma,
        close: Fodder,
    },
    /// `{ [k]: v for x in xs }`
    ObjectComprehension {
        fields: Vec<Field<'s>>,
        trailing_comma: TrailingComma,
        specs: Vec<ForSpec<'s>>,
        close: Fodder,
    },
    /// `(e)`
    Parens { inner: NodeId, close: Fodder },
    /// `self`
    SelfObject,
    /// `e[a:b:c]`
    Slice(Box<Slice>),
    /// `super[i]`
    SuperIndex {
        open: Fodder,
        index: NodeId,
        close: Fodder,
    },
    /// `super.name`
    SuperMember {
        dot: Fodder,
        name_fodder: Fodder,
        name: Cow<'s, str>,
    },
    /// A string. Quoted strings keep their escapes; other strings contain their meaning.
    Text {
        style: TextStyle,
        value: Cow<'s, str>,
        block: BlockIndent<'s>,
    },
    /// `-e`
    Unary {
        operator: UnaryOperator,
        operand: NodeId,
    },
    /// A name.
    Variable(&'s str),
}

impl NodeKind<'_> {
    /// Returns the child that begins with the first token of this node.
    pub fn left(&self) -> Option<NodeId> {
        match self {
            Self::Apply(apply) => Some(apply.target),
            Self::ApplyBrace { left, .. } | Self::Binary { left, .. } => Some(*left),
            Self::Index { target, .. } | Self::Member { target, .. } => Some(*target),
            Self::InSuper { element, .. } => Some(*element),
            Self::Slice(slice) => Some(slice.target),
            _ => None,
        }
    }
}
