//! The parts of nodes: calls, lists, objects, functions, comprehensions and strings.

use super::fodder::Fodder;
use super::node::NodeId;
use super::position::Span;
use std::borrow::Cow;

/// The comma after the last element of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrailingComma {
    /// The list ends with its last element.
    #[default]
    Absent,
    /// A comma follows the last element.
    Present,
}

impl TrailingComma {
    /// Returns what follows an element of the list.
    pub fn after<T>(comma: &Option<T>) -> Self {
        if comma.is_some() {
            Self::Present
        } else {
            Self::Absent
        }
    }

    /// Returns the text of the comma.
    pub fn text(self) -> &'static str {
        match self {
            Self::Absent => "",
            Self::Present => ",",
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
    pub trailing_comma: TrailingComma,
    pub close: Fodder,
    /// The fodder before `tailstrict`, if that is present.
    pub tail_strict: Option<Fodder>,
}

/// An element or argument, with the fodder before the comma after it.
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
    /// The fodder before `else`, and the expression after it.
    pub if_false: Option<(Fodder, NodeId)>,
}

/// `e[a:b:c]`; every index is optional.
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
    pub trailing_comma: TrailingComma,
    pub close: Fodder,
}

/// A parameter, with the fodder before `=` and its default.
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
    /// The fodder before the `,` or `;` after it.
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
    /// The fodder before its first token. If a string names the field, the string has it.
    pub fodder: Fodder,
    pub parameters: Option<Box<Parameters<'s>>>,
    /// The fodder before the operator.
    pub operator: Fodder,
    /// The value of the field, or the condition of an assertion.
    pub value: NodeId,
    pub comma: Fodder,
    pub span: Span,
}

/// The kind of an entry of an object.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub enum FieldKind<'s> {
    /// `assert e : m`; the message, if present, follows [`Field::operator`].
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

/// The name of a field.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the parts are named as the grammar of the language names them"
)]
pub enum FieldName<'s> {
    /// `x`
    Identifier(Cow<'s, str>),
    /// `'x'`, which is a text node
    Text(NodeId),
    /// `[e]`
    Computed { name: NodeId, close: Fodder },
}

/// The number of colons of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// `:`
    Inherited,
    /// `::`
    Hidden,
    /// `:::`
    Forced,
}

/// The kind of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportKind {
    /// `import`: a value.
    Code,
    /// `importstr`: text.
    Text,
    /// `importbin`: bytes.
    Bytes,
}

/// The notation of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names describe the variants")]
pub enum TextStyle {
    Single,
    Double,
    Block,
    VerbatimSingle,
    VerbatimDouble,
}

impl TextStyle {
    /// Returns true if the value still contains its escapes.
    pub fn keeps_escapes(self) -> bool {
        matches!(self, Self::Single | Self::Double)
    }
}

/// The indentation of a text block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockIndent<'s> {
    /// Not a text block.
    None,
    /// The original indentation: of the lines, and of the line of the closing `|||`.
    FromSource(&'s str, &'s str),
    /// An indentation of spaces: of the lines, and of the line of the closing `|||`.
    Spaces(u32, u32),
}
