//! The indentation of each line. The columns of the text are counted as they would be written, because continuation
//! lines are aligned with the start of their construct.

mod list;
mod object;

use super::INDENT;
use super::spacing::{Crowded, SPACED, Separate, Spacing, TIGHT};
use crate::rendering::jsonnet::syntax::{
    BlockIndent, Comment, Fodder, FodderElement, FodderKind, Fodders, Node, NodeId, NodeKind, SyntaxTree,
    TextStyle,
};

/// Visits of a node after which nested arrays are not visited again. As in go-jsonnet, the array of a comprehension is
/// visited again for each of its conditions, so nested comprehensions would multiply the visits.
const VISITS_PER_NODE_MAX: usize = 64;

pub(super) fn fix_indentation(tree: &mut SyntaxTree<'_>) {
    let SyntaxTree { nodes, fodders, .. } = tree;
    let visits_left = nodes.len().saturating_mul(VISITS_PER_NODE_MAX);
    let mut indenter = Indenter {
        nodes,
        fodders,
        column: 0,
        blocks: Vec::new(),
        visits_left,
    };
    indenter.visit(tree.root, Indent::default(), Crowded(false));
    indenter.set_indents(tree.last_fodder, 0, 0);
    if let Some(last) = indenter.fodders.get_mut(tree.last_fodder).last_mut() {
        last.blank_lines = 0;
    }
    for (id, base) in std::mem::take(&mut indenter.blocks) {
        if let NodeKind::Text { block, .. } = &mut tree.node_mut(id).kind {
            *block = BlockIndent::Spaces((base + INDENT) as u32, base as u32);
        }
    }
}

/// The columns at which lines begin. Deeper levels add to `base`; the next line begins at `line_up`.
#[derive(Clone, Copy, Debug, Default)]
struct Indent {
    base: usize,
    line_up: usize,
}

struct Indenter<'t, 's> {
    nodes: &'t [Node<'s>],
    fodders: &'t mut Fodders<'s>,
    column: usize,
    /// Text blocks and their columns. A later entry overrides an earlier one.
    blocks: Vec<(NodeId, usize)>,
    visits_left: usize,
}

impl<'t> Indenter<'t, '_> {
    /// Sets the same indentation for all elements except the last one.
    fn set_indents(&mut self, fodder: Fodder, all: usize, last: usize) {
        let mut last = Some(last);
        for element in self.fodders.get_mut(fodder).iter_mut().rev() {
            if !element.is_interstitial() {
                element.indent = last.take().unwrap_or(all) as u32;
            }
        }
    }

    fn fill(&mut self, fodder: Fodder, spacing: Spacing, indent: usize) {
        self.fill_last(fodder, spacing, indent, indent);
    }

    /// Indents the fodder before a token and counts its columns.
    fn fill_last(&mut self, fodder: Fodder, spacing: Spacing, all: usize, last: usize) {
        let (Crowded(mut crowded), Separate(separate)) = spacing;
        if !fodder.is_empty() {
            self.set_indents(fodder, all, last);
            for FodderElement {
                kind,
                indent,
                comment,
                ..
            } in self.fodders.get(fodder)
            {
                match (kind, comment) {
                    (FodderKind::Interstitial, Comment::Line(comment)) => {
                        self.column += usize::from(crowded) + comment.len();
                        crowded = true;
                    }
                    _ => {
                        self.column = *indent as usize;
                        crowded = false;
                    }
                }
            }
        }
        if separate && crowded {
            self.column += 1;
        }
    }

    fn leftmost(&self, id: NodeId) -> Option<&'t Node<'t>>
    where
        't: 't,
    {
        let mut node = self.nodes.get(id.index());
        while let Some(left) = node.and_then(|node| node.kind.left()) {
            node = self.nodes.get(left.index());
        }
        node
    }

    fn open_fodder(&self, id: NodeId) -> Fodder {
        self.leftmost(id).map(|node| node.fodder).unwrap_or_default()
    }

    /// Returns the indentation of continuation lines: below the first part, or one level deeper if the first part is on
    /// a new line.
    fn new_indent(&self, first: Fodder, old: Indent, line_up: usize) -> Indent {
        if self.fodders.starts_with_line_end(first) {
            return Indent {
                base: old.base + INDENT,
                line_up: old.base + INDENT,
            };
        }
        Indent {
            base: old.base,
            line_up,
        }
    }

    /// Returns the indentation of continuation lines, which is also the base of deeper levels.
    fn new_indent_strong(&self, first: Fodder, old: Indent, line_up: usize) -> Indent {
        let new = self.new_indent(first, old, line_up);
        Indent {
            base: new.line_up,
            line_up: new.line_up,
        }
    }

    /// Returns the indentation of continuation lines: below the first part, or unchanged.
    fn align(&self, first: Fodder, old: Indent, line_up: usize) -> Indent {
        if self.fodders.starts_with_line_end(first) {
            return old;
        }
        Indent {
            base: old.base,
            line_up,
        }
    }

    /// Returns the indentation of continuation lines, which is also the base of deeper levels.
    fn align_strong(&self, first: Fodder, old: Indent, line_up: usize) -> Indent {
        if self.fodders.starts_with_line_end(first) {
            return old;
        }
        Indent {
            base: line_up,
            line_up,
        }
    }

    /// Visits a part after a keyword or an operator that needs a space.
    fn operand(&mut self, id: NodeId, indent: Indent, line_up: usize) {
        let indent = self.new_indent(self.open_fodder(id), indent, line_up);
        self.visit(id, indent, Crowded(true));
    }

    fn visit(&mut self, id: NodeId, indent: Indent, crowded: Crowded) {
        // The expression after a local or an assertion has the same indentation, so a long sequence is a loop.
        let (mut id, mut crowded) = (id, crowded);
        while let Some(rest) = self.visit_one(id, indent, crowded) {
            (id, crowded) = (rest, Crowded(true));
        }
    }

    /// Visits a node. Returns the next node to visit with the same indentation.
    fn visit_one(&mut self, id: NodeId, indent: Indent, crowded: Crowded) -> Option<NodeId> {
        let nodes = self.nodes;
        let node = nodes.get(id.index())?;
        self.visits_left = self.visits_left.saturating_sub(1);
        if node.kind.left().is_none() {
            self.fill(node.fodder, (crowded, Separate(true)), indent.line_up);
        }
        match &node.kind {
            NodeKind::Apply(apply) => self.apply(apply, indent, crowded),
            NodeKind::ApplyBrace { left, right } => {
                let column = self.column + usize::from(crowded.0);
                let inner = self.align(self.open_fodder(*left), indent, column);
                self.visit(*left, inner, crowded);
                self.visit(*right, inner, Crowded(true));
            }
            NodeKind::Array {
                items,
                trailing_comma,
                close,
            } => self.array(items, *trailing_comma, *close, indent),
            NodeKind::ArrayComprehension {
                body,
                comma,
                specs,
                close,
            } => {
                self.column += 1;
                let inner = self.new_indent(self.open_fodder(*body), indent, self.column);
                self.visit(*body, inner, Crowded(false));
                self.fill(comma.unwrap_or_default(), TIGHT, inner.line_up);
                self.column += usize::from(comma.is_some());
                self.specs(specs, inner);
                self.fill_last(
                    *close,
                    (Crowded(true), Separate(false)),
                    inner.line_up,
                    indent.base,
                );
                self.column += 1;
            }
            NodeKind::Assert {
                condition,
                message,
                semicolon,
                rest,
            } => {
                self.column += "assert".len();
                let inner = self.new_indent(self.open_fodder(*condition), indent, self.column + 1);
                self.visit(*condition, inner, Crowded(true));
                if let Some((colon, message)) = message {
                    self.fill(*colon, SPACED, inner.line_up);
                    self.column += 1;
                    self.visit(*message, inner, Crowded(true));
                }
                self.fill(*semicolon, TIGHT, inner.line_up);
                self.column += 1;
                return Some(*rest);
            }
            NodeKind::Binary {
                left,
                operator_fodder,
                operator,
                right,
            } => {
                let first = self.open_fodder(*left);
                let column = self.column + usize::from(crowded.0);
                let breaks = self.fodders.has_line_end(*operator_fodder)
                    || self.fodders.has_line_end(self.open_fodder(*right));
                let inner = match breaks {
                    true => self.align_strong(first, indent, column),
                    false => self.align(first, indent, column),
                };
                self.visit(*left, inner, crowded);
                self.fill(*operator_fodder, SPACED, inner.line_up);
                self.column += operator.symbol().len();
                self.visit(*right, inner, Crowded(true));
            }
            NodeKind::Conditional(conditional) => {
                self.column += "if".len();
                self.operand(conditional.condition, indent, self.column + 1);
                self.fill(conditional.then, SPACED, indent.base);
                self.column += "then".len();
                self.operand(conditional.if_true, indent, self.column + 1);
                if let Some((otherwise, if_false)) = conditional.if_false {
                    self.fill(otherwise, SPACED, indent.base);
                    self.column += "else".len();
                    self.operand(if_false, indent, self.column + 1);
                }
            }
            NodeKind::Error(operand) => {
                self.column += "error".len();
                self.operand(*operand, indent, self.column + 1);
            }
            NodeKind::Function { parameters, body } => {
                self.column += "function".len();
                self.parameters(parameters, indent);
                self.operand(*body, indent, self.column + 1);
            }
            NodeKind::Import { kind, file } => {
                self.column += super::write::import_word(*kind).len();
                self.operand(*file, indent, self.column + 1);
            }
            NodeKind::InSuper {
                element,
                in_fodder,
                super_fodder,
            } => {
                self.visit(*element, indent, crowded);
                self.fill(*in_fodder, SPACED, indent.line_up);
                self.column += "in".len();
                self.fill(*super_fodder, SPACED, indent.line_up);
                self.column += "super".len();
            }
            NodeKind::Index {
                target,
                open,
                index,
                close,
            } => {
                self.visit(*target, indent, crowded);
                self.element(*open, *index, *close, indent);
            }
            NodeKind::Member {
                target,
                dot,
                name_fodder,
                name,
            } => {
                self.visit(*target, indent, crowded);
                self.member(*dot, *name_fodder, name, indent);
            }
            NodeKind::Local { binds, body } => {
                self.binds(binds, indent);
                return Some(*body);
            }
            NodeKind::Object {
                fields,
                trailing_comma,
                close,
            } => {
                self.column += 1;
                let inner = self.object_indent(fields, *close, indent);
                self.fields(fields, inner);
                self.column += trailing_comma.text().len();
                let crowded = Crowded(!fields.is_empty());
                self.fill_last(*close, (crowded, Separate(true)), inner.line_up, indent.base);
                self.column += 1;
            }
            NodeKind::ObjectComprehension {
                fields,
                trailing_comma,
                specs,
                close,
            } => {
                self.column += 1;
                let inner = self.object_indent(fields, *close, indent);
                self.fields(fields, inner);
                self.column += trailing_comma.text().len();
                self.specs(specs, inner);
                self.fill_last(*close, SPACED, inner.line_up, indent.base);
                self.column += 1;
            }
            NodeKind::Parens { inner, close } => {
                self.column += 1;
                let inside = self.new_indent_strong(self.open_fodder(*inner), indent, self.column);
                self.visit(*inner, inside, Crowded(false));
                self.fill_last(*close, TIGHT, inside.line_up, indent.base);
                self.column += 1;
            }
            NodeKind::Slice(slice) => {
                self.visit(slice.target, indent, crowded);
                self.slice(slice, indent);
            }
            NodeKind::SuperIndex { open, index, close } => {
                self.column += "super".len();
                self.element(*open, *index, *close, indent);
            }
            NodeKind::SuperMember {
                dot,
                name_fodder,
                name,
            } => {
                self.column += "super".len();
                self.member(*dot, *name_fodder, name, indent);
            }
            NodeKind::Text { style, value, .. } => self.text(id, *style, value, indent),
            NodeKind::Unary { operator, operand } => {
                self.column += operator.symbol().len();
                let inner = self.new_indent(self.open_fodder(*operand), indent, self.column);
                let dollar = self
                    .leftmost(*operand)
                    .is_some_and(|node| matches!(node.kind, NodeKind::Dollar));
                self.visit(*operand, inner, Crowded(dollar));
            }
            NodeKind::Number(digits) => self.column += digits.len(),
            NodeKind::Variable(name) => self.column += name.len(),
            NodeKind::Boolean(value) => self.column += if *value { 4 } else { 5 },
            NodeKind::Null | NodeKind::SelfObject => self.column += 4,
            NodeKind::Dollar => self.column += 1,
        }
        None
    }

    fn text(&mut self, id: NodeId, style: TextStyle, value: &str, indent: Indent) {
        match style {
            TextStyle::Single | TextStyle::Double => self.column += value.len() + 2,
            TextStyle::VerbatimSingle => self.column += verbatim_columns(value, '\''),
            TextStyle::VerbatimDouble => self.column += verbatim_columns(value, '"'),
            TextStyle::Block => {
                self.blocks.push((id, indent.base));
                self.column = indent.base + "|||".len();
            }
        }
    }
}

fn verbatim_columns(value: &str, quote: char) -> usize {
    let characters = value.chars().map(|char| 1 + usize::from(char == quote));
    3 + characters.sum::<usize>()
}
