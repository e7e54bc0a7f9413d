//! The order of imports at the top of a file: sorted by path within their group. A blank line or a comment on its own
//! line ends a group.

use crate::rendering::jsonnet::syntax::{
    Bind, Fodder, FodderElement, Fodders, ImportKind, Node, NodeId, NodeKind, Span, SyntaxTree,
};
use std::collections::HashSet;

/// One `local x = import 'f'` and the comment that follows on its line.
struct ImportBinding<'s> {
    key: String,
    adjacent: Fodder,
    bind: Bind<'s>,
}

/// A group of imports that are sorted together, and the fodder before the first of them.
struct ImportGroup<'s> {
    open: Fodder,
    imports: Vec<ImportBinding<'s>>,
}

pub(super) fn sort(tree: &mut SyntaxTree<'_>) {
    let mut next = import_local(tree, tree.root);
    let mut groups = Vec::new();
    let mut group = ImportGroup {
        open: tree.open_fodder(tree.root),
        imports: Vec::new(),
    };
    let mut rest = tree.root;
    while let Some((binds, body)) = next {
        rest = body;
        let open = tree.open_fodder(body);
        let (mut adjacent, mut before_next) = split(&mut tree.fodders, open);
        tree.fodders.ensure_line_end(&mut adjacent);
        extract(tree, &binds, adjacent, &mut group.imports);
        next = import_local(tree, body);
        if next.is_some() && !group_ends_before(tree, body) {
            continue;
        }
        sort_group(&mut group.imports);
        tree.fodders.ensure_line_end(&mut before_next);
        let after_group = group
            .imports
            .last()
            .map(|import| import.adjacent)
            .unwrap_or_default();
        let open = tree.fodders.concatenate(after_group, before_next);
        groups.push(std::mem::replace(
            &mut group,
            ImportGroup {
                open,
                imports: Vec::new(),
            },
        ));
    }
    if groups.is_empty() {
        return;
    }
    *tree.open_fodder_mut(rest) = group.open;
    for group in groups.into_iter().rev() {
        rest = rebuild(tree, group, rest);
    }
    tree.root = rest;
}

/// Returns the binds and the body of a local that contains only imports.
fn import_local<'s>(tree: &SyntaxTree<'s>, id: NodeId) -> Option<(Vec<Bind<'s>>, NodeId)> {
    let NodeKind::Local { binds, body } = &tree.node(id).kind else {
        return None;
    };
    let imports = binds
        .iter()
        .all(|bind| bind.parameters.is_none() && imported_file(tree, bind.body).is_some());
    imports.then(|| (binds.clone(), *body))
}

fn imported_file<'t>(tree: &'t SyntaxTree<'_>, id: NodeId) -> Option<&'t str> {
    let NodeKind::Import {
        kind: ImportKind::Code,
        file,
    } = &tree.node(id).kind
    else {
        return None;
    };
    match &tree.node(*file).kind {
        NodeKind::Text { value, .. } => Some(value),
        _ => None,
    }
}

/// Splits fodder at the first line end into the part for the token before and the part for the token after.
fn split<'s>(fodders: &mut Fodders<'s>, fodder: Fodder) -> (Fodder, Fodder) {
    let (mut after_previous, mut before_next) = (Fodder::default(), Fodder::default());
    let elements: Vec<FodderElement<'s>> = fodders.get(fodder).to_vec();
    let mut elements = elements.into_iter();
    for element in elements.by_ref() {
        if element.is_interstitial() {
            fodders.push(&mut after_previous, element);
            continue;
        }
        // Blank lines separate groups, so they belong to the following token.
        fodders.push(
            &mut after_previous,
            FodderElement {
                blank_lines: 0,
                ..element
            },
        );
        if element.blank_lines > 0 {
            fodders.push(
                &mut before_next,
                FodderElement::line_end(element.blank_lines, element.indent),
            );
        }
        break;
    }
    for element in elements {
        fodders.append(&mut before_next, element);
    }
    (after_previous, before_next)
}

fn extract<'s>(
    tree: &mut SyntaxTree<'s>,
    binds: &[Bind<'s>],
    after: Fodder,
    imports: &mut Vec<ImportBinding<'s>>,
) {
    let mut before = binds.first().map(|bind| bind.name_fodder).unwrap_or_default();
    for (index, bind) in binds.iter().enumerate() {
        let (mut adjacent, before_next) = match binds.get(index + 1) {
            Some(next) => split(&mut tree.fodders, next.name_fodder),
            None => (after, Fodder::default()),
        };
        tree.fodders.ensure_line_end(&mut adjacent);
        let key = imported_file(tree, bind.body).unwrap_or_default().to_owned();
        let bind = Bind {
            name_fodder: before,
            ..bind.clone()
        };
        imports.push(ImportBinding { key, adjacent, bind });
        before = before_next;
    }
}

/// Returns true if the group ends before this local, which also contains imports.
fn group_ends_before(tree: &SyntaxTree<'_>, local: NodeId) -> bool {
    let mut line_ended = false;
    for element in tree.fodders.get(tree.open_fodder(local)) {
        if line_ended || element.blank_lines > 0 {
            return true;
        }
        line_ended = !element.is_interstitial();
    }
    false
}

/// Sorts a group. If a group binds one name twice, the order has a meaning and stays.
fn sort_group(imports: &mut [ImportBinding<'_>]) {
    if imports.len() < 2 {
        return;
    }
    let names: HashSet<&str> = imports.iter().map(|import| import.bind.name).collect();
    if names.len() == imports.len() {
        imports.sort_by(|one, other| one.key.cmp(&other.key));
    }
}

/// Builds a local for each import, followed by the rest.
fn rebuild<'s>(tree: &mut SyntaxTree<'s>, group: ImportGroup<'s>, rest: NodeId) -> NodeId {
    let mut body = rest;
    let before: Vec<Fodder> = std::iter::once(group.open)
        .chain(group.imports.iter().map(|import| import.adjacent))
        .collect();
    for (import, fodder) in group.imports.into_iter().zip(before).rev() {
        let kind = NodeKind::Local {
            binds: vec![import.bind],
            body,
        };
        body = tree.add(Node {
            fodder,
            span: Span::default(),
            kind,
        });
    }
    body
}
