//! A source text in a form for each engine. Constructs that the first engine would read differently from the language
//! are rewritten so that it reads them correctly, or the text is refused. Locations are mapped back to the original
//! text.

use super::edits::SourceEdits;
use super::nesting::{self, RESERVED, SourceScan};
use super::node_extents::NodeExtents;
use super::operands::{FractionLikelihood, Operand, TextLikelihood, operands};
use super::syntax::{
    self, BinaryOperator, ForSpec, ImportKind, Node, NodeId, NodeKind, Span, SyntaxError, SyntaxErrorKind,
    SyntaxTree, TextStyle, UnaryOperator,
};
use std::ops::Range;

/// The function in rewritten sources that converts a value to text as Go does.
pub(super) const TEXT_FUNCTION: &str = "_drydock_text";
/// The function in rewritten sources that replaces `+`.
pub(super) const PLUS_FUNCTION: &str = "_drydock_plus";
/// The function in rewritten sources that replaces `%`.
pub(super) const MODULO_FUNCTION: &str = "_drydock_modulo";
/// The functions in rewritten sources that replace `==` and `!=`, for the first engine.
pub(super) const EQUAL_FUNCTION: &str = "_drydock_equal";
pub(super) const UNEQUAL_FUNCTION: &str = "_drydock_unequal";
/// The function in rewritten sources that wraps a list which the first engine would evaluate too early.
pub(super) const LIST_FUNCTION: &str = "_drydock_list";
/// The prefix of a path whose file is imported as text or bytes, for the first engine, whose resolver does not receive
/// that information.
pub(super) const BYTES_PREFIX: &str = "_drydock_bytes:";
/// The end of a function call for the first engine: arguments are evaluated before the call, as for an operator.
const CALL_END: &str = ") tailstrict ";
/// The end of a function call for the second engine, which reports no location for a `tailstrict` call.
const SECOND_CALL_END: &str = ") ";
/// Nested sums that are rewritten as calls. The engines' parsers recurse for each of them.
const SUMS_MAX: usize = 100;

/// The result of the analysis of a text before its evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RewrittenSource {
    /// The nesting depth of brackets.
    pub(super) depth: usize,
    /// True for an ambiguous text that is nested deeper than our parser's stack allows, so its meaning is unknown.
    pub(super) is_too_deep: bool,
    /// The reason why the language refuses the text, if an engine might accept it.
    pub(super) syntax_error: Option<SyntaxError>,
    /// The replacements for the first engine.
    pub(super) first: SourceEdits,
    /// The replacements for the second engine, which reads most constructs correctly.
    pub(super) second: SourceEdits,
}

impl RewrittenSource {
    /// Analyses a text. The text is parsed only if it is ambiguous, on this thread, to the depth that its stack allows.
    pub(super) fn new(source: &[u8], depth_max: usize) -> Self {
        let look = SourceScan::new(source);
        let reserved = look.reserved.map(|at| reserved(source, at));
        let mut reading = Self {
            depth: look.depth,
            syntax_error: reserved,
            ..Self::default()
        };
        for body in look.misread {
            reading.first.blank(source, body);
        }
        if look.is_ambiguous
            && let Ok(text) = std::str::from_utf8(source)
        {
            match syntax::parse_with_depth(text, depth_max).and_then(|tree| reading.edit(&tree)) {
                Err(error) if error.kind == SyntaxErrorKind::Invalid => {
                    reading.syntax_error = reading.syntax_error.take().or(Some(error));
                }
                Err(_) => reading.is_too_deep = true,
                Ok(()) => {}
            }
        }
        reading.first.sort();
        reading.second.sort();
        reading
    }

    /// Rewrites the constructs that an engine reads differently. The `Err` is a string that the language refuses.
    fn edit(&mut self, tree: &SyntaxTree<'_>) -> Result<(), SyntaxError> {
        let operands = operands(tree);
        let extents = NodeExtents::new(tree);
        for (index, node) in tree.nodes.iter().enumerate() {
            let id = tree.id(index);
            match &node.kind {
                NodeKind::Binary {
                    left,
                    operator,
                    right,
                    ..
                } => {
                    if let BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo =
                        operator
                    {
                        self.bind(tree, &extents, *left, *right);
                    }
                    let of = |id: &NodeId| operands.get(id.index()).copied();
                    if let (Some(one), Some(other)) = (of(left), of(right)) {
                        match operator {
                            BinaryOperator::Plus => {
                                self.add(tree, &extents, id, (*left, one), (*right, other))
                            }
                            BinaryOperator::Modulo if one.text != TextLikelihood::No => {
                                call((&mut self.first, CALL_END), tree, &extents, id, MODULO_FUNCTION);
                                call(
                                    (&mut self.second, SECOND_CALL_END),
                                    tree,
                                    &extents,
                                    id,
                                    MODULO_FUNCTION,
                                );
                            }
                            BinaryOperator::Equal if may_be_near(one, other) => {
                                call((&mut self.first, CALL_END), tree, &extents, id, EQUAL_FUNCTION);
                            }
                            BinaryOperator::Unequal if may_be_near(one, other) => {
                                call((&mut self.first, CALL_END), tree, &extents, id, UNEQUAL_FUNCTION);
                            }
                            _ => {}
                        }
                    }
                }
                NodeKind::ArrayComprehension { body, specs, .. } => {
                    if is_outer_name(tree, *body, specs) {
                        self.first.insert(tree.node(*body).span.start, "assert true; ");
                    }
                    self.lists(tree, &extents, specs);
                }
                NodeKind::ObjectComprehension { specs, .. } => self.lists(tree, &extents, specs),
                NodeKind::Import { kind, file } => self.import(tree, *kind, *file)?,
                NodeKind::Text { style, value, .. } if style.keeps_escapes() => {
                    if let Some(text) = text(tree, node, value)? {
                        let range = node.span.start as usize..node.span.end as usize;
                        self.first.replace(range.clone(), &text);
                        self.second.replace(range, &text);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Rewrites the lists of a comprehension from the third on. The first engine treats such a list as constant if it
    /// uses no variable except the second one.
    fn lists(&mut self, tree: &SyntaxTree<'_>, extents: &NodeExtents, specs: &[ForSpec<'_>]) {
        for spec in specs.iter().skip(2) {
            let call = format!(" {LIST_FUNCTION}(");
            self.first.wrap(extents.range(tree, spec.array), &call, CALL_END);
        }
    }

    /// Marks the path of an import as text or bytes for the first engine. The `Err` is a path that the language
    /// refuses.
    fn import(&mut self, tree: &SyntaxTree<'_>, kind: ImportKind, file: NodeId) -> Result<(), SyntaxError> {
        let span = tree.node(file).span;
        if let NodeKind::Text {
            style: TextStyle::Block,
            ..
        } = tree.node(file).kind
        {
            let why = "Block string literals not allowed in imports".to_owned();
            return Err(SyntaxError::invalid(tree.text, span, why));
        }
        if let ImportKind::Text | ImportKind::Bytes = kind
            && let Some(path) = tree.literal(file)
        {
            let path = syntax::escape(&path, '"');
            let range = span.start as usize..span.end as usize;
            self.first.replace(range, &format!("\"{BYTES_PREFIX}{path}\""));
        }
        Ok(())
    }

    /// Adds parentheses around operands that the first engine would group differently.
    fn bind(&mut self, tree: &SyntaxTree<'_>, extents: &NodeExtents, left: NodeId, right: NodeId) {
        if inverts_bits(tree, left) {
            self.first.wrap(extents.range(tree, left), "(", ")");
        }
        if let NodeKind::Unary { .. } = tree.node(right).kind {
            self.first.wrap(extents.range(tree, right), "(", ")");
        }
    }

    /// Rewrites a sum if a fraction may become part of a text.
    fn add(
        &mut self,
        tree: &SyntaxTree<'_>,
        extents: &NodeExtents,
        sum: NodeId,
        left: (NodeId, Operand),
        right: (NodeId, Operand),
    ) {
        let ((left, one), (right, other)) = (left, right);
        let joins = |text: Operand, added: Operand| {
            text.text != TextLikelihood::No
                && added.text != TextLikelihood::Yes
                && added.fraction == FractionLikelihood::Maybe
        };
        let is_known = one.text == TextLikelihood::Yes || other.text == TextLikelihood::Yes;
        // A number is not added to an object or an array.
        let is_number = |operand: Operand| operand.text == TextLikelihood::No && !operand.is_container;
        let has_number = is_number(one) || is_number(other);
        let has_container = (one.is_container || other.is_container) && !has_number;
        match (joins(one, other), joins(other, one)) {
            (true, _) if one.text == TextLikelihood::Yes => self.text_of(extents.range(tree, right)),
            (_, true) if other.text == TextLikelihood::Yes => self.text_of(extents.range(tree, left)),
            (false, false) => {}
            // An expression that begins with many sums stays unchanged.
            _ if is_known || has_container || one.sums.max(other.sums) >= SUMS_MAX => {}
            _ => {
                call((&mut self.first, CALL_END), tree, extents, sum, PLUS_FUNCTION);
                call(
                    (&mut self.second, SECOND_CALL_END),
                    tree,
                    extents,
                    sum,
                    PLUS_FUNCTION,
                );
            }
        }
    }

    /// Wraps the operand that is added to a text in a conversion to text.
    fn text_of(&mut self, added: Range<usize>) {
        let call = format!(" {TEXT_FUNCTION}(");
        self.first.wrap(added.clone(), &call, CALL_END);
        self.second.wrap(added, &call, SECOND_CALL_END);
    }
}

/// Rewrites an operator as a function call. The call begins with a space, since a keyword may come directly before it.
fn call(
    (edits, end_of_call): (&mut SourceEdits, &str),
    tree: &SyntaxTree<'_>,
    extents: &NodeExtents,
    id: NodeId,
    function: &str,
) {
    let NodeKind::Binary { left, operator, .. } = &tree.node(id).kind else {
        return;
    };
    let end = extents.range(tree, *left).end;
    let Some(at) = nesting::next_token(tree.text.as_bytes(), end) else {
        return;
    };
    edits.wrap(extents.range(tree, id), &format!(" {function}("), end_of_call);
    edits.replace(at..at + operator.symbol().len(), ",");
}

/// True if the first engine may treat two values as equal although they are not.
fn may_be_near(one: Operand, other: Operand) -> bool {
    let has_fraction =
        one.fraction == FractionLikelihood::Maybe || other.fraction == FractionLikelihood::Maybe;
    one.is_near && other.is_near && has_fraction
}

/// True if the body of a comprehension is a name other than the last variable. The first engine then looks up the name
/// wrongly if a condition uses another name (`[a for x in xs if b]` becomes a list of `b`).
fn is_outer_name(tree: &SyntaxTree<'_>, body: NodeId, specs: &[ForSpec<'_>]) -> bool {
    let mut body = body;
    while let NodeKind::Parens { inner, .. } = tree.node(body).kind {
        body = inner;
    }
    match &tree.node(body).kind {
        NodeKind::Variable(name) => specs.last().is_none_or(|spec| spec.variable != *name),
        NodeKind::SelfObject | NodeKind::Dollar => true,
        _ => false,
    }
}

/// True for `~e`, also below other unary operators.
fn inverts_bits(tree: &SyntaxTree<'_>, id: NodeId) -> bool {
    let mut id = id;
    while let NodeKind::Unary { operator, operand } = tree.node(id).kind {
        if operator == UnaryOperator::BitNot {
            return true;
        }
        id = operand;
    }
    false
}

/// Returns the error for a name that only rewritten sources may contain.
fn reserved(source: &[u8], at: usize) -> SyntaxError {
    let text = String::from_utf8_lossy(source);
    let why = format!("Names that begin with `{RESERVED}` are reserved");
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let (start, end) = (place(at), place(at + RESERVED.len()));
    SyntaxError::invalid(&text, Span { start, end }, why)
}

/// Rewrites a string with an escape that an engine does not support.
fn text(tree: &SyntaxTree<'_>, node: &Node<'_>, written: &str) -> Result<Option<String>, SyntaxError> {
    let meaning = syntax::unescape(written).map_err(|why| SyntaxError::invalid(tree.text, node.span, why))?;
    let bytes = written.as_bytes();
    let is_odd = |(at, _): (usize, &str)| matches!(bytes.get(at + 1), Some(b'/' | b'u'));
    let is_odd = written.match_indices('\\').any(is_odd);
    Ok(is_odd.then(|| format!("\"{}\"", syntax::escape(&meaning, '"'))))
}

#[cfg(test)]
mod tests;
