//! The meaning of a tree, without the whitespace between its tokens and without the choices of a formatter: quotes,
//! doubled parentheses, the order of imports at the top, the spelling of a plain name.

use drydock::rendering::jsonnet::syntax::{
    BinaryOperator, Field, FieldKind, FieldName, ForSpec, ImportKind, NodeId, NodeKind, Parameters,
    SyntaxTree, TextStyle, unescape, with_stack_for,
};
use std::fmt::Write as _;

/// Returns a text that is equal for two trees exactly if they have the same meaning.
pub(super) fn meaning(tree: &SyntaxTree<'_>) -> String {
    let mut written = MeaningWriter {
        tree,
        text: String::new(),
    };
    with_stack_for(tree.depth, || {
        let rest = written.imports();
        written.node(rest);
        written.text
    })
    .unwrap()
}

struct MeaningWriter<'t, 's> {
    tree: &'t SyntaxTree<'s>,
    text: String,
}

impl MeaningWriter<'_, '_> {
    /// Records the imports at the beginning of the text, whose order has no meaning. Returns the node after them.
    fn imports(&mut self) -> NodeId {
        let mut next = self.tree.root;
        let mut imports = Vec::new();
        while let NodeKind::Local { binds, body } = &self.tree.node(next).kind {
            let imported: Option<Vec<String>> = binds
                .iter()
                .map(|bind| match &self.tree.node(bind.body).kind {
                    NodeKind::Import {
                        kind: ImportKind::Code,
                        file,
                    } if bind.parameters.is_none() => Some(format!("{}={}", bind.name, self.text_of(*file)?)),
                    _ => None,
                })
                .collect();
            let Some(imported) = imported else { break };
            imports.extend(imported);
            next = *body;
        }
        imports.sort();
        self.put(&format!("{imports:?}"));
        next
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push(' ');
    }

    /// Returns the meaning of a string.
    fn text_of(&self, id: NodeId) -> Option<String> {
        let NodeKind::Text { style, value, .. } = &self.tree.node(id).kind else {
            return None;
        };
        Some(match style {
            TextStyle::Single | TextStyle::Double => unescape(value).unwrap().into_owned(),
            TextStyle::Block => value.replace('\r', ""),
            TextStyle::VerbatimSingle | TextStyle::VerbatimDouble => value.to_string(),
        })
    }

    fn nodes(&mut self, what: &str, ids: impl IntoIterator<Item = NodeId>) {
        self.put(what);
        self.put("(");
        for id in ids {
            self.node(id);
        }
        self.put(")");
    }

    fn node(&mut self, id: NodeId) {
        let tree = self.tree;
        match &tree.node(id).kind {
            NodeKind::Apply(apply) => {
                let names: Vec<&str> = apply.named.iter().map(|named| named.name).collect();
                let strict = apply.tail_strict.is_some();
                let what = format!("call {} {names:?} {strict}", apply.positional.len());
                let positional = apply.positional.iter().map(|item| item.expression);
                let named = apply.named.iter().map(|named| named.value);
                let all: Vec<NodeId> = [apply.target]
                    .into_iter()
                    .chain(positional)
                    .chain(named)
                    .collect();
                self.nodes(&what, all);
            }
            // `a {}` is short for `a + {}`.
            NodeKind::ApplyBrace { left, right } => self.nodes("+", [*left, *right]),
            NodeKind::Binary {
                left,
                operator,
                right,
                ..
            } => {
                let symbol = if *operator == BinaryOperator::Plus {
                    "+"
                } else {
                    operator.symbol()
                };
                self.nodes(symbol, [*left, *right]);
            }
            NodeKind::Array { items, .. } => self.nodes("array", items.iter().map(|item| item.expression)),
            NodeKind::ArrayComprehension { body, specs, .. } => {
                self.nodes("array for", [*body]);
                self.specs(specs);
            }
            NodeKind::Assert {
                condition,
                message,
                rest,
                ..
            } => {
                self.nodes(
                    "assert",
                    [*condition]
                        .into_iter()
                        .chain(message.map(|(_, message)| message)),
                );
                self.node(*rest);
            }
            NodeKind::Boolean(value) => self.put(if *value { "true" } else { "false" }),
            NodeKind::Conditional(conditional) => {
                let otherwise = conditional.if_false.map(|(_, otherwise)| otherwise);
                let parts = [conditional.condition, conditional.if_true];
                self.nodes("if", parts.into_iter().chain(otherwise));
            }
            NodeKind::Dollar => self.put("$"),
            NodeKind::Error(operand) => self.nodes("error", [*operand]),
            NodeKind::Function { parameters, body } => {
                self.put("function");
                self.parameters(parameters);
                self.node(*body);
            }
            NodeKind::Import { kind, file } => {
                let what = format!("{kind:?} {:?}", self.text_of(*file));
                self.put(&what);
            }
            NodeKind::InSuper { element, .. } => self.nodes("in super", [*element]),
            NodeKind::Index { target, index, .. } => match self.text_of(*index) {
                Some(name) => self.nodes(&format!("element {name:?}"), [*target]),
                None => self.nodes("index", [*target, *index]),
            },
            NodeKind::Member { target, name, .. } => self.nodes(&format!("element {name:?}"), [*target]),
            NodeKind::Local { binds, body } => {
                for bind in binds {
                    self.put(&format!("local {}", bind.name));
                    if let Some(parameters) = &bind.parameters {
                        self.parameters(parameters);
                    }
                    self.nodes("=", [bind.body]);
                }
                self.node(*body);
            }
            NodeKind::Null => self.put("null"),
            NodeKind::Number(digits) => self.put(digits),
            NodeKind::Object { fields, .. } => {
                self.put("object");
                self.fields(fields);
            }
            NodeKind::ObjectComprehension { fields, specs, .. } => {
                self.put("object for");
                self.fields(fields);
                self.specs(specs);
            }
            NodeKind::Parens { inner, .. } => {
                let mut inner = *inner;
                while let NodeKind::Parens { inner: deeper, .. } = &tree.node(inner).kind {
                    inner = *deeper;
                }
                self.nodes("parentheses", [inner]);
            }
            NodeKind::SelfObject => self.put("self"),
            NodeKind::Slice(slice) => {
                self.nodes("slice", [slice.target]);
                for part in [slice.begin, slice.end, slice.step] {
                    self.nodes(":", part);
                }
            }
            NodeKind::SuperIndex { index, .. } => self.nodes("super index", [*index]),
            NodeKind::SuperMember { name, .. } => self.put(&format!("super {name:?}")),
            NodeKind::Text { .. } => {
                let text = self.text_of(id);
                self.put(&format!("{text:?}"));
            }
            NodeKind::Unary { operator, operand } => {
                self.nodes(&format!("unary {}", operator.symbol()), [*operand])
            }
            NodeKind::Variable(name) => self.put(name),
        }
    }

    fn parameters(&mut self, parameters: &Parameters<'_>) {
        self.put("parameters(");
        for parameter in &parameters.list {
            let default = parameter.default.map(|(_, default)| default);
            self.nodes(parameter.name, default);
        }
        self.put(")");
    }

    fn specs(&mut self, specs: &[ForSpec<'_>]) {
        for spec in specs {
            self.nodes(&format!("for {}", spec.variable), [spec.array]);
            self.nodes("if", spec.conditions.iter().map(|spec| spec.condition));
        }
    }

    fn fields(&mut self, fields: &[Field<'_>]) {
        for field in fields {
            match &field.kind {
                FieldKind::Assert { message } => {
                    self.nodes("assert", [field.value].into_iter().chain(*message));
                    continue;
                }
                FieldKind::Local { name, .. } => self.put(&format!("local {name}")),
                FieldKind::Field {
                    name,
                    plus,
                    visibility,
                } => {
                    self.name(name);
                    let _ = write!(self.text, "{plus} {visibility:?} ");
                }
            }
            if let Some(parameters) = &field.parameters {
                self.parameters(parameters);
            }
            self.nodes("value", [field.value]);
        }
    }

    fn name(&mut self, name: &FieldName<'_>) {
        match name {
            FieldName::Identifier(name) => self.put(&format!("named {name:?}")),
            FieldName::Text(text) => {
                let name = self.text_of(*text).unwrap();
                self.put(&format!("named {name:?}"));
            }
            FieldName::Computed { name, .. } => match self.text_of(*name) {
                Some(name) => self.put(&format!("named {name:?}")),
                None => self.nodes("computed", [*name]),
            },
        }
    }
}
