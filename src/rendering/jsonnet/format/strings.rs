//! The quotes of strings: single quotes, unless double quotes save an escape.

use crate::rendering::jsonnet::syntax::{NodeKind, SyntaxTree, TextStyle, escape, needs_no_escape, unescape};
use std::borrow::Cow;

pub(super) fn prefer_single_quotes(tree: &mut SyntaxTree<'_>) {
    for node in &mut tree.nodes {
        if let NodeKind::Text { style, value, .. } = &mut node.kind
            && style.keeps_escapes()
        {
            requote(style, value);
        }
    }
}

fn requote(style: &mut TextStyle, value: &mut Cow<'_, str>) {
    if value.bytes().all(needs_no_escape) {
        *style = TextStyle::Single;
        return;
    }
    // The parser has already checked the escapes.
    let Ok(meaning) = unescape(value) else { return };
    let (single, double) = (meaning.contains('\''), meaning.contains('"'));
    if single && double {
        return;
    }
    let (quote, wanted) = if single {
        ('"', TextStyle::Double)
    } else {
        ('\'', TextStyle::Single)
    };
    *value = Cow::Owned(escape(&meaning, quote));
    *style = wanted;
}
