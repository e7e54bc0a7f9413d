//! The writer that turns the tree into text, with the comment style.

mod list;
mod object;
mod text;

use super::WRITTEN_BYTES_MAX;
use super::spacing::{Crowded, SPACED, Separate, Spacing, TIGHT};
use crate::rendering::jsonnet::syntax::{
    Comment, Fodder, FodderElement, FodderKind, Fodders, ImportKind, Node, NodeId, NodeKind, SyntaxTree,
};

/// Returns the text, or `None` if it would be too long.
pub(super) fn write(tree: &SyntaxTree<'_>) -> Option<String> {
    let text = String::with_capacity(tree.text.len() + tree.text.len() / 4 + 16);
    let mut writer = SourceWriter {
        nodes: &tree.nodes,
        fodders: &tree.fodders,
        text,
        is_past_shebang: false,
        too_long: false,
    };
    writer.expression(tree.root, Crowded(false));
    let last = tree.fodders.get(tree.last_fodder).len();
    writer.fill_with(tree.last_fodder, (Crowded(true), Separate(false)), last);
    if !tree.fodders.ends_line(tree.last_fodder) {
        writer.text.push('\n');
    }
    (!writer.too_long).then_some(writer.text)
}

pub(super) fn import_word(kind: ImportKind) -> &'static str {
    match kind {
        ImportKind::Code => "import",
        ImportKind::Text => "importstr",
        ImportKind::Bytes => "importbin",
    }
}

struct SourceWriter<'t, 's> {
    nodes: &'t [Node<'s>],
    fodders: &'t Fodders<'s>,
    text: String,
    /// True after the first line end. Before it, comments that begin with `#!` stay unchanged.
    is_past_shebang: bool,
    too_long: bool,
}

impl<'t, 's> SourceWriter<'t, 's> {
    fn push(&mut self, text: &str) {
        if self.text.len() + text.len() > WRITTEN_BYTES_MAX {
            self.too_long = true;
            return;
        }
        self.text.push_str(text);
    }

    fn spaces(&mut self, count: u32) {
        const SPACES: &str = "                                                                ";
        let mut left = count as usize;
        while left > 0 && !self.too_long {
            let part = SPACES.get(..left.min(SPACES.len())).unwrap_or_default();
            self.push(part);
            left -= part.len();
        }
    }

    /// Writes the fodder before a token.
    fn fill(&mut self, fodder: Fodder, spacing: Spacing) {
        if fodder.is_empty() {
            if spacing == SPACED {
                self.text.push(' ');
            }
            return;
        }
        self.fill_with(fodder, spacing, usize::MAX);
    }

    /// Writes like [`Self::fill`], up to element number `last`, counted from one.
    fn fill_with(&mut self, fodder: Fodder, spacing: Spacing, last: usize) {
        let (Crowded(mut crowded), Separate(separate)) = spacing;
        let mut last_indent = 0;
        let fodders = self.fodders;
        for (index, element) in fodders.get(fodder).iter().enumerate() {
            if element.is_interstitial() {
                if crowded {
                    self.push(" ");
                }
                if let Comment::Line(comment) = element.comment {
                    self.push(comment);
                }
                crowded = true;
                continue;
            }
            self.line_end(element, last_indent);
            if index + 1 != last {
                for _ in 0..element.blank_lines {
                    self.push("\n");
                }
                self.spaces(element.indent);
            }
            last_indent = element.indent;
            crowded = false;
        }
        if separate && crowded {
            self.push(" ");
        }
    }

    /// Writes the comment of an element, if it has one, and the end of its last line.
    fn line_end(&mut self, element: &FodderElement<'s>, indent: u32) {
        if element.kind == FodderKind::LineEnd && element.comment != Comment::None {
            self.push("  ");
        }
        match element.comment {
            Comment::None => {}
            Comment::Line(comment) if element.untouched => self.push(comment),
            Comment::Line(comment) => self.line_comment(comment),
            Comment::Lines { start, len } => {
                for (index, line) in self.fodders.lines(start, len).iter().enumerate() {
                    if index > 0 {
                        self.push("\n");
                        if !line.is_empty() {
                            self.spaces(indent);
                        }
                    }
                    self.push(line);
                }
            }
        }
        if !matches!(element.comment, Comment::Line(comment) if comment.starts_with("#!")) {
            self.is_past_shebang |= !element.untouched;
        }
        self.push("\n");
    }

    /// Writes a comment with `//`, unless it is the first line of a script.
    fn line_comment(&mut self, comment: &str) {
        match comment.strip_prefix('#') {
            Some(rest) if self.is_past_shebang || !rest.starts_with('!') => {
                self.push("//");
                self.push(rest);
                self.is_past_shebang = true;
            }
            _ => self.push(comment),
        }
    }

    /// Records a line end that is dropped.
    fn note_dropped_line_end(&mut self, fodder: Fodder) {
        self.is_past_shebang |= self.fodders.has_line_end(fodder);
    }

    fn expression(&mut self, id: NodeId, crowded: Crowded) {
        let (mut id, mut crowded) = (id, crowded);
        while let Some(rest) = self.write_node(id, crowded) {
            (id, crowded) = (rest, Crowded(true));
        }
    }

    /// Writes a node. Returns the next node in a sequence of locals and assertions.
    fn write_node(&mut self, id: NodeId, crowded: Crowded) -> Option<NodeId> {
        let nodes = self.nodes;
        let node = nodes.get(id.index())?;
        if node.kind.left().is_none() {
            self.fill(node.fodder, (crowded, Separate(true)));
        }
        match &node.kind {
            NodeKind::Apply(apply) => self.apply(apply, crowded),
            NodeKind::ApplyBrace { left, right } => {
                self.expression(*left, crowded);
                self.expression(*right, Crowded(true));
            }
            NodeKind::Array {
                items,
                trailing_comma,
                close,
            } => self.array(items, *trailing_comma, *close),
            NodeKind::ArrayComprehension {
                body,
                comma,
                specs,
                close,
            } => {
                self.push("[");
                self.expression(*body, Crowded(false));
                if let Some(fodder) = comma {
                    self.fill(*fodder, TIGHT);
                    self.push(",");
                }
                self.specs(specs);
                self.fill(*close, (Crowded(true), Separate(false)));
                self.push("]");
            }
            NodeKind::Assert {
                condition,
                message,
                semicolon,
                rest,
            } => {
                self.push("assert");
                self.expression(*condition, Crowded(true));
                if let Some((colon, message)) = message {
                    self.fill(*colon, SPACED);
                    self.push(":");
                    self.expression(*message, Crowded(true));
                }
                self.fill(*semicolon, TIGHT);
                self.push(";");
                return Some(*rest);
            }
            NodeKind::Binary {
                left,
                operator_fodder,
                operator,
                right,
            } => {
                self.expression(*left, crowded);
                self.fill(*operator_fodder, SPACED);
                self.push(operator.symbol());
                self.expression(*right, Crowded(true));
            }
            NodeKind::Boolean(value) => self.push(if *value { "true" } else { "false" }),
            NodeKind::Conditional(conditional) => {
                self.push("if");
                self.expression(conditional.condition, Crowded(true));
                self.fill(conditional.then, SPACED);
                self.push("then");
                self.expression(conditional.if_true, Crowded(true));
                if let Some((otherwise, if_false)) = conditional.if_false {
                    self.fill(otherwise, SPACED);
                    self.push("else");
                    self.expression(if_false, Crowded(true));
                }
            }
            NodeKind::Dollar => self.push("$"),
            NodeKind::Error(operand) => {
                self.push("error");
                self.expression(*operand, Crowded(true));
            }
            NodeKind::Function { parameters, body } => {
                self.push("function");
                self.parameters(parameters);
                self.expression(*body, Crowded(true));
            }
            NodeKind::Import { kind, file } => {
                self.push(import_word(*kind));
                self.expression(*file, Crowded(true));
            }
            NodeKind::InSuper {
                element,
                in_fodder,
                super_fodder,
            } => {
                self.expression(*element, Crowded(true));
                self.fill(*in_fodder, SPACED);
                self.push("in");
                self.fill(*super_fodder, SPACED);
                self.push("super");
            }
            NodeKind::Index {
                target,
                open,
                index,
                close,
            } => {
                self.expression(*target, crowded);
                self.element(*open, *index, *close);
            }
            NodeKind::Member {
                target,
                dot,
                name_fodder,
                name,
            } => {
                self.expression(*target, crowded);
                self.member(*dot, *name_fodder, name);
            }
            NodeKind::Local { binds, body } => {
                self.binds(binds);
                return Some(*body);
            }
            NodeKind::Null => self.push("null"),
            NodeKind::Number(digits) => self.push(digits),
            NodeKind::Object {
                fields,
                trailing_comma,
                close,
            } => {
                self.push("{");
                self.fields(fields);
                self.push(trailing_comma.text());
                self.fill(*close, (Crowded(!fields.is_empty()), Separate(true)));
                self.push("}");
            }
            NodeKind::ObjectComprehension {
                fields,
                trailing_comma,
                specs,
                close,
            } => {
                self.push("{");
                self.fields(fields);
                self.push(trailing_comma.text());
                self.specs(specs);
                self.fill(*close, SPACED);
                self.push("}");
            }
            NodeKind::Parens { inner, close } => {
                self.push("(");
                self.expression(*inner, Crowded(false));
                self.fill(*close, TIGHT);
                self.push(")");
            }
            NodeKind::SelfObject => self.push("self"),
            NodeKind::Slice(slice) => {
                self.expression(slice.target, crowded);
                self.slice(slice);
            }
            NodeKind::SuperIndex { open, index, close } => {
                self.push("super");
                self.element(*open, *index, *close);
            }
            NodeKind::SuperMember {
                dot,
                name_fodder,
                name,
            } => {
                self.push("super");
                self.member(*dot, *name_fodder, name);
            }
            NodeKind::Text { style, value, block } => self.string(*style, value, *block),
            NodeKind::Unary { operator, operand } => {
                self.push(operator.symbol());
                self.expression(*operand, Crowded(false));
            }
            NodeKind::Variable(name) => self.push(name),
        }
        None
    }
}
