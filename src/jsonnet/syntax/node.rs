//! The tree of a source. All nodes lie in one vector, children before their parents, and name each
//! other by number: dropping, walking flat and sharing cost nothing, and no drop recurses.

use super::escape::unescape;
use super::fodder::{Fodder, Fodders};
use super::operator::{BinaryOperator, UnaryOperator};
use super::part::{
    Apply, Bind, BlockIndent, Conditional, Field, ForSpec, ImportKind, Item, Parameters, Slice, TextStyle,
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

/// A source that was read.
#[derive(Debug)]
pub struct SyntaxTree<'s> {
    /// The source.
    pub text: &'s str,
    /// The nodes, children before parents.
    pub nodes: Vec<Node<'s>>,
    /// The elements between the tokens.
    pub fodders: Fodders<'s>,
    /// The whole expression.
    pub root: NodeId,
    /// The elements after the last token.
    pub last_fodder: Fodder,
    /// The depth of nesting, at most [`super::DEPTH_MAX`]. Locals and assertions in a row do not nest.
    pub depth: usize,
}

impl<'s> SyntaxTree<'s> {
    /// A node.
    #[allow(
        clippy::indexing_slicing,
        reason = "only a tree hands out the numbers of its nodes"
    )]
    pub fn node(&self, id: NodeId) -> &Node<'s> {
        &self.nodes[id.0 as usize]
    }

    /// The meaning of a string; `None` for any other node, and for one whose escapes mean nothing.
    pub fn literal(&self, id: NodeId) -> Option<Cow<'_, str>> {
        let NodeKind::Text { style, value, .. } = &self.node(id).kind else {
            return None;
        };
        match style.keeps_escapes() {
            true => unescape(value).ok(),
            false => Some(Cow::Borrowed(value)),
        }
    }

    /// A node, to change it.
    #[allow(
        clippy::indexing_slicing,
        reason = "only a tree hands out the numbers of its nodes"
    )]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node<'s> {
        &mut self.nodes[id.0 as usize]
    }

    /// The number of a node by its place in [`SyntaxTree::nodes`].
    pub fn id(&self, index: usize) -> NodeId {
        NodeId(index as u32)
    }

    /// Adds a node.
    pub fn add(&mut self, node: Node<'s>) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// The node whose first token is the first token of this one.
    pub fn leftmost(&self, id: NodeId) -> NodeId {
        let mut leftmost = id;
        while let Some(left) = self.node(leftmost).kind.left() {
            leftmost = left;
        }
        leftmost
    }

    /// Returns what stands before the first token of a node.
    pub fn open_fodder(&self, id: NodeId) -> Fodder {
        self.node(self.leftmost(id)).fodder
    }

    /// Returns what stands before the first token of a node, to change it.
    pub fn open_fodder_mut(&mut self, id: NodeId) -> &mut Fodder {
        let leftmost = self.leftmost(id);
        &mut self.node_mut(leftmost).fodder
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Node<'s> {
    /// The elements before its first token. Nothing, where another node begins with that token.
    pub fodder: Fodder,
    /// The place in the source.
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
        trailing_comma: bool,
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
    /// `import 'f'` and its kin; the file is a [`NodeKind::Text`].
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
    /// A number, as it is written but without `_`.
    Number(Cow<'s, str>),
    /// `{ a: 1 }`
    Object {
        fields: Vec<Field<'s>>,
        trailing_comma: bool,
        close: Fodder,
    },
    /// `{ [k]: v for x in xs }`
    ObjectComprehension {
        fields: Vec<Field<'s>>,
        trailing_comma: bool,
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
    /// A string. Quoted ones keep their escapes, the others are what they mean.
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
    /// The child that begins with the first token of this node.
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
