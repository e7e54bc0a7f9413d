//! The kinds of the imports of a text, for an engine that does not say it when it asks for a file.

use crate::jsonnet::syntax::{self, ImportKind, Kind};

/// The kind of what is imported by the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jsonnet) enum Imported {
    /// The value of a file.
    Code,
    /// Its text or bytes.
    Bytes,
    /// Both, in one text.
    Both,
}

impl Imported {
    /// Looks for the imports in `text` that name a file as `written`. A text that cannot be read imports code.
    pub(super) fn of(text: &str, written: &str, depth_max: usize) -> Self {
        let Ok(tree) = syntax::parse_within(text, depth_max) else {
            return Self::Code;
        };
        let (mut is_code, mut is_bytes) = (false, false);
        for node in &tree.nodes {
            let Kind::Import { kind, file } = &node.kind else {
                continue;
            };
            match kind {
                _ if tree.literal(*file).is_none_or(|path| path != written) => {}
                ImportKind::Code => is_code = true,
                ImportKind::Text | ImportKind::Bytes => is_bytes = true,
            }
        }
        match (is_code, is_bytes) {
            (_, false) => Self::Code,
            (false, true) => Self::Bytes,
            (true, true) => Self::Both,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Imported;

    #[test]
    fn an_import_is_known_by_its_words() {
        for (text, expected) in [
            ("import 'x'", Imported::Code),
            ("[importstr 'x', import 'y']", Imported::Bytes),
            ("importbin '\\u0078'", Imported::Bytes),
            ("importstr @'x'", Imported::Bytes),
            ("[importstr 'x', import 'x']", Imported::Both),
            ("importstr 'x", Imported::Code),
        ] {
            assert_eq!(Imported::of(text, "x", 40), expected, "{text}");
        }
    }
}
