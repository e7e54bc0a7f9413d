//! The tree of a source. All nodes lie in one vector, children before their parents, and name each
//! other by number: dropping, walking flat and sharing cost nothing, and no drop recurses.

use super::fodder::{Fodder, Fodders};
use super::place::Span;
use std::borrow::Cow;

/// The number of a node in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// Its place in [`Tree::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A source that was read.
#[derive(Debug)]
pub struct Tree<'s> {
    /// The source.
    pub text: &'s str,
    /// Its nodes, children before parents.
    pub nodes: Vec<Node<'s>>,
    /// What stands between its tokens.
    pub fodders: Fodders<'s>,
    /// The whole expression.
    pub root: NodeId,
    /// What stands after the last token.
    pub last_fodder: Fodder,
    /// How deep it is nested, at most [`super::DEPTH_MAX`]. Locals and assertions in a row do not nest.
    pub depth: usize,
}

impl<'s> Tree<'s> {
    /// A node.
    #[allow(
        clippy::indexing_slicing,
        reason = "only a tree hands out the numbers of its nodes"
    )]
    pub fn node(&self, id: NodeId) -> &Node<'s> {
        &self.nodes[id.0 as usize]
    }

    /// A node, to change it.
    #[allow(
        clippy::indexing_slicing,
        reason = "only a tree hands out the numbers of its nodes"
    )]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node<'s> {
        &mut self.nodes[id.0 as usize]
    }

    /// The number of a node by its place in [`Tree::nodes`].
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

    /// What stands before the first token of a node.
    pub fn open_fodder(&self, id: NodeId) -> Fodder {
        self.node(self.leftmost(id)).fodder
    }

    /// The same, to change it.
    pub fn open_fodder_mut(&mut self, id: NodeId) -> &mut Fodder {
        let leftmost = self.leftmost(id);
        &mut self.node_mut(leftmost).fodder
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Node<'s> {
    /// What stands before its first token. Nothing, where another node begins with that token.
    pub fodder: Fodder,
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub kind: Kind<'s>,
}

/// What an expression is.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub enum Kind<'s> {
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
    /// `import 'f'` and its kin; the file is a [`Kind::Text`].
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

impl Kind<'_> {
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

/// A call.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Apply<'s> {
    pub target: NodeId,
    pub open: Fodder,
    pub positional: Vec<Item>,
    pub named: Vec<NamedArgument<'s>>,
    pub trailing_comma: bool,
    pub close: Fodder,
    /// What stands before `tailstrict`, if that is there.
    pub tail_strict: Option<Fodder>,
}

/// An element or argument, with what stands before the comma after it.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Item {
    pub expression: NodeId,
    pub comma: Fodder,
}

/// `x=e` in a call.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct NamedArgument<'s> {
    pub name_fodder: Fodder,
    pub name: &'s str,
    pub name_span: Span,
    pub equals: Fodder,
    pub value: NodeId,
    pub comma: Fodder,
}

/// `if c then a else b`.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Conditional {
    pub condition: NodeId,
    pub then: Fodder,
    pub if_true: NodeId,
    /// What stands before `else`, and what follows it.
    pub if_false: Option<(Fodder, NodeId)>,
}

/// `e[a:b:c]`; every index may be missing.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Slice {
    pub target: NodeId,
    pub open: Fodder,
    pub begin: Option<NodeId>,
    pub end_colon: Fodder,
    pub end: Option<NodeId>,
    pub step_colon: Fodder,
    pub step: Option<NodeId>,
    pub close: Fodder,
}

/// `for x in xs if c if d`.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct ForSpec<'s> {
    pub for_fodder: Fodder,
    pub variable_fodder: Fodder,
    pub variable: &'s str,
    pub variable_span: Span,
    pub in_fodder: Fodder,
    pub array: NodeId,
    pub conditions: Vec<IfSpec>,
}

/// `if c` in a comprehension.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct IfSpec {
    pub if_fodder: Fodder,
    pub condition: NodeId,
}

/// `(x, y=e)` of a function.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Parameters<'s> {
    pub open: Fodder,
    pub list: Vec<Parameter<'s>>,
    pub trailing_comma: bool,
    pub close: Fodder,
}

/// A parameter, with what stands before `=` and its default.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Parameter<'s> {
    pub name_fodder: Fodder,
    pub name: &'s str,
    pub name_span: Span,
    pub default: Option<(Fodder, NodeId)>,
    pub comma: Fodder,
}

/// `x = e` or `f(y) = e` after `local`.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Bind<'s> {
    pub name_fodder: Fodder,
    pub name: &'s str,
    pub name_span: Span,
    pub parameters: Option<Box<Parameters<'s>>>,
    pub equals: Fodder,
    pub body: NodeId,
    /// What stands before the `,` or `;` after it.
    pub close: Fodder,
}

/// A field, a local or an assertion of an object.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub struct Field<'s> {
    pub kind: FieldKind<'s>,
    /// Before its first token; of a field named by a string, the string has it.
    pub fodder: Fodder,
    pub parameters: Option<Box<Parameters<'s>>>,
    /// Before the operator.
    pub operator: Fodder,
    /// What it is, or what an assertion asserts.
    pub value: NodeId,
    pub comma: Fodder,
    pub span: Span,
}

/// What an entry of an object is.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub enum FieldKind<'s> {
    /// `assert e : m`; the message, if there is one, stands after [`Field::operator`].
    Assert { message: Option<NodeId> },
    /// `local x = e`
    Local {
        name_fodder: Fodder,
        name: &'s str,
        name_span: Span,
    },
    /// `x: e`
    Field {
        name: FieldName<'s>,
        plus: bool,
        visibility: Visibility,
    },
}

/// How a field is named.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub enum FieldName<'s> {
    /// `x`
    Identifier(Cow<'s, str>),
    /// `'x'`, a [`Kind::Text`]
    Text(NodeId),
    /// `[e]`
    Computed { name: NodeId, close: Fodder },
}

/// How many colons a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// `:`
    Inherited,
    /// `::`
    Hidden,
    /// `:::`
    Forced,
}

/// What an import gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportKind {
    /// `import`: a value.
    Code,
    /// `importstr`: text.
    Text,
    /// `importbin`: bytes.
    Bytes,
}

/// How a string is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TextStyle {
    Single,
    Double,
    Block,
    VerbatimSingle,
    VerbatimDouble,
}

impl TextStyle {
    /// Whether the value still has its escapes.
    pub fn keeps_escapes(self) -> bool {
        matches!(self, Self::Single | Self::Double)
    }
}

/// How a text block is indented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockIndent<'s> {
    /// It is no block.
    None,
    /// As in the source: its lines, and the line of the closing `|||`.
    Written(&'s str, &'s str),
    /// By spaces, likewise.
    Spaces(u32, u32),
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BinaryOperator {
    Multiply,
    Divide,
    Modulo,
    Plus,
    Minus,
    ShiftLeft,
    ShiftRight,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    In,
    Equal,
    Unequal,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

impl BinaryOperator {
    const ALL: [(Self, &'static str, u8); 19] = [
        (Self::Multiply, "*", 5),
        (Self::Divide, "/", 5),
        (Self::Modulo, "%", 5),
        (Self::Plus, "+", 6),
        (Self::Minus, "-", 6),
        (Self::ShiftLeft, "<<", 7),
        (Self::ShiftRight, ">>", 7),
        (Self::Greater, ">", 8),
        (Self::GreaterOrEqual, ">=", 8),
        (Self::Less, "<", 8),
        (Self::LessOrEqual, "<=", 8),
        (Self::In, "in", 8),
        (Self::Equal, "==", 9),
        (Self::Unequal, "!=", 9),
        (Self::BitAnd, "&", 10),
        (Self::BitXor, "^", 11),
        (Self::BitOr, "|", 12),
        (Self::And, "&&", 13),
        (Self::Or, "||", 14),
    ];

    fn entry(self) -> (Self, &'static str, u8) {
        let [first, ..] = Self::ALL;
        Self::ALL.get(self as usize).copied().unwrap_or(first)
    }

    /// How it is written.
    pub fn symbol(self) -> &'static str {
        self.entry().1
    }

    /// How tightly it binds; less is tighter.
    pub(super) fn precedence(self) -> u8 {
        self.entry().2
    }

    pub(super) fn of(symbol: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, written, _)| *written == symbol)
            .map(|(operator, ..)| *operator)
    }
}

/// An operator before its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum UnaryOperator {
    Not,
    BitNot,
    Plus,
    Minus,
}

impl UnaryOperator {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Not => "!",
            Self::BitNot => "~",
            Self::Plus => "+",
            Self::Minus => "-",
        }
    }

    pub(super) fn of(symbol: &str) -> Option<Self> {
        [Self::Not, Self::BitNot, Self::Plus, Self::Minus]
            .into_iter()
            .find(|operator| operator.symbol() == symbol)
    }
}
