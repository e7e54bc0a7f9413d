//! Renders facts. Paths are shown as code, so that users can copy them unchanged: no channel modifies code to keep it
//! from becoming a link.

use super::{Inline, PLAIN, SpanStyle, backticks};

/// The maximum number of paths in one fact that are shown as code; a message can have only a limited number of style
/// changes.
const PATHS_MAX: usize = 20;

/// Renders a fact of Drydock: backticks mark code, and the first 20 paths are code as well. The rest has `style`.
pub(in crate::interfaces::channel) fn fact(text: &str, style: SpanStyle) -> Vec<Inline> {
    let mut paths = 0;
    let mut inlines = Vec::new();
    for inline in backticks(text) {
        let Inline::Text { text, .. } = inline else {
            inlines.push(inline);
            continue;
        };
        for word in text.split_inclusive(char::is_whitespace) {
            let path = word.trim_matches(|c: char| c.is_whitespace() || ",;:.()".contains(c));
            let parts = word.split_once(path);
            match parts.filter(|_| paths < PATHS_MAX && is_path(path)) {
                Some((before, after)) => {
                    paths += 1;
                    push(&mut inlines, before, style);
                    inlines.push(Inline::of_code(path, PLAIN));
                    push(&mut inlines, after, style);
                }
                None => push(&mut inlines, word, style),
            }
        }
    }
    inlines
}

/// Appends words, and merges them with the text before them if possible.
fn push(inlines: &mut Vec<Inline>, words: &str, style: SpanStyle) {
    match inlines.last_mut() {
        Some(Inline::Text { text, .. }) => text.push_str(words),
        _ if words.is_empty() => {}
        _ => inlines.push(Inline::of_text(words, style)),
    }
}

/// Returns true for `environments/dev` and `main.jsonnet`, and false for `3/4`, `0.25` or a web address.
fn is_path(word: &str) -> bool {
    let has_letter = word.chars().any(char::is_alphabetic);
    let has_ending = word.rsplit_once('.').is_some_and(|(stem, ending)| {
        let is_ending =
            (2..=10).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_lowercase());
        !stem.is_empty() && is_ending
    });
    has_letter && !word.contains("://") && (word.contains('/') || has_ending)
}

#[cfg(test)]
mod tests {
    use super::fact;
    use crate::interfaces::channel::markdown::{Inline, SpanStyle};

    fn marked(text: &str) -> String {
        let inlines = fact(text, SpanStyle::default());
        let shown = inlines.iter().map(|inline| match inline {
            Inline::Code { text, .. } => format!("[{text}]"),
            Inline::Text { text, .. } | Inline::Link { label: text, .. } => text.clone(),
        });
        shown.collect()
    }

    #[test]
    fn paths_are_code_and_nothing_else_is() {
        for (text, shown) in [
            (
                "environments/dev/main.jsonnet, lib/web.libsonnet (new)",
                "[environments/dev/main.jsonnet], [lib/web.libsonnet] (new)",
            ),
            ("main.jsonnet: ok.", "[main.jsonnet]: ok."),
            ("`a b` and charts/x", "[a b] and [charts/x]"),
            ("3/4 checks, 0.25 s, e.g. v1.2", "3/4 checks, 0.25 s, e.g. v1.2"),
            ("https://evil.example/x", "https://evil.example/x"),
            ("(a/b)", "([a/b])"),
            ("", ""),
            (" / . ,", " / . ,"),
        ] {
            assert_eq!(marked(text), shown);
        }
    }

    #[test]
    fn a_fact_with_many_paths_keeps_all_its_words() {
        let shown = marked(&"a/b ".repeat(30));
        assert_eq!(shown, "[a/b] ".repeat(20) + &"a/b ".repeat(10));
    }
}
