//! Quoted strings are in single quotes, unless the other kind saves an escape.

use crate::jsonnet::syntax::{Kind, TextStyle, Tree, escape, is_plain, unescape};
use std::borrow::Cow;

pub(super) fn prefer_single_quotes(tree: &mut Tree<'_>) {
    for node in &mut tree.nodes {
        if let Kind::Text { style, value, .. } = &mut node.kind
            && style.keeps_escapes()
        {
            requote(style, value);
        }
    }
}

fn requote(style: &mut TextStyle, value: &mut Cow<'_, str>) {
    if value.bytes().all(is_plain) {
        *style = TextStyle::Single;
        return;
    }
    // Escapes were checked when the text was parsed.
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
