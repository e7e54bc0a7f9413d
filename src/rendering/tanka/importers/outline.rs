//! The outline of a Jsonnet file: its imports and the chart directories it renders. It depends only on the content,
//! so it is built once per blob and shared by all trees.

use super::lexer::{ImportLexer, ImportToken};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of cached outlines. They are small. The limit protects against a flood of versions.
const OUTLINES_MAX: usize = 65_536;
/// Maximum number of tokens that are examined in one call.
const CALL_TOKENS_MAX: usize = 4_096;

/// The other files that a Jsonnet file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outline {
    /// The imports in order, without duplicates.
    pub(super) imports: Vec<OutlineImport>,
    /// Directories of charts and kustomizations as written, relative to the directory of the file. A call that only
    /// looks like a rendering call also counts.
    pub(super) charts: Vec<String>,
}

/// An import as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OutlineImport {
    pub(super) path: String,
    /// True if the imported file is a program, whose own imports also count.
    pub(super) is_program: bool,
}

impl Outline {
    pub(super) fn parse(content: &[u8]) -> Self {
        let program = String::from_utf8_lossy(content);
        let tokens: Vec<ImportToken<'_>> = ImportLexer::new(&program).collect();
        let mut outline = Self::default();
        let mut seen = HashSet::new();
        for (place, token) in tokens.iter().enumerate() {
            let after = tokens.get(place + 1..).unwrap_or_default();
            match (token, after) {
                (
                    ImportToken::Word(word @ ("import" | "importstr" | "importbin")),
                    [ImportToken::Text(path), ..],
                ) => {
                    let import = OutlineImport {
                        path: path.clone(),
                        is_program: *word == "import",
                    };
                    if seen.insert(import.clone()) {
                        outline.imports.push(import);
                    }
                }
                _ => outline.charts.extend(chart(token, after)),
            }
        }
        outline.charts.sort_unstable();
        outline.charts.dedup();
        outline
    }
}

/// Returns the directory in `helm.template(name, DIRECTORY, ..)`, in `kustomize.build(DIRECTORY, ..)`, or in a call
/// of their native functions.
fn chart(token: &ImportToken<'_>, after: &[ImportToken<'_>]) -> Option<String> {
    let name = match token {
        ImportToken::Word(name) => name,
        ImportToken::Text(name) => name.as_str(),
        ImportToken::Sign(_) => return None,
    };
    let (position, parameter) = match name {
        "template" | "helmTemplate" => (1, "chart"),
        "build" | "kustomizeBuild" => (0, "path"),
        _ => return None,
    };
    let arguments = match after {
        [ImportToken::Sign('('), arguments @ ..]
        | [ImportToken::Sign(')'), ImportToken::Sign('('), arguments @ ..] => arguments,
        _ => return None,
    };
    argument(arguments, position, parameter)
}

/// Returns an argument of a call if it is a single string literal.
fn argument(tokens: &[ImportToken<'_>], position: usize, parameter: &str) -> Option<String> {
    let (mut depth, mut index, mut start) = (0_usize, 0, 0);
    for (place, token) in tokens.iter().enumerate().take(CALL_TOKENS_MAX) {
        let is_end = depth == 0 && matches!(token, ImportToken::Sign(',' | ')'));
        if is_end {
            match tokens.get(start..place).unwrap_or_default() {
                [ImportToken::Text(text)] if index == position => return Some(text.clone()),
                [
                    ImportToken::Word(name),
                    ImportToken::Sign('='),
                    ImportToken::Text(text),
                ] if *name == parameter => {
                    return Some(text.clone());
                }
                _ => (index, start) = (index + 1, place + 1),
            }
        }
        match token {
            ImportToken::Sign('(' | '[' | '{') => depth += 1,
            ImportToken::Sign(')' | ']' | '}') => depth = depth.checked_sub(1)?,
            ImportToken::Sign(_) | ImportToken::Word(_) | ImportToken::Text(_) => {}
        }
    }
    None
}

/// A shared cache of outlines by blob.
#[derive(Debug, Default)]
pub struct OutlineCache {
    // The lock is held for one look-up. Missing outlines are built without it.
    by_blob: Mutex<HashMap<String, Arc<Outline>>>,
}

impl OutlineCache {
    /// Returns the outline of the file with the blob id `blob`. Calls `content` only if the outline is not cached.
    /// A file that cannot be read now gets an empty outline, which is not cached.
    pub(super) fn get_or_parse(&self, blob: &str, content: impl FnOnce() -> Option<Bytes>) -> Arc<Outline> {
        let locked = || self.by_blob.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outline) = locked().get(blob) {
            return Arc::clone(outline);
        }
        let Some(content) = content() else {
            return Arc::default();
        };
        let outline = Arc::new(Outline::parse(&content));
        let mut by_blob = locked();
        if by_blob.len() >= OUTLINES_MAX {
            by_blob.clear();
        }
        by_blob.insert(blob.to_owned(), Arc::clone(&outline));
        outline
    }
}

#[cfg(test)]
mod tests {
    use super::Outline;

    fn imports(program: &str) -> Vec<String> {
        let outline = Outline::parse(program.as_bytes());
        outline.imports.into_iter().map(|import| import.path).collect()
    }

    #[test]
    fn imports_are_found_in_every_form_and_nowhere_else() {
        for (program, expected) in [
            ("import 'a' + import \"b\"", vec!["a", "b"]),
            (
                "importstr 'a', importbin @'b', (import\n\n'c')",
                vec!["a", "b", "c"],
            ),
            ("import /* why */ 'a' // import 'b'\n# import 'c'", vec!["a"]),
            ("'import \"x\"' + |||\n  import 'y'\n|||", vec![]),
            (
                "import 'a(b)%.libsonnet' + import 'it\\'s'",
                vec!["a(b)%.libsonnet", "it's"],
            ),
            ("important 'a', ximport 'b', import_ 'c'", vec![]),
            ("import 'a'; import 'a'", vec!["a"]),
            ("import |||\n  a\n|||", vec!["a\n"]),
        ] {
            assert_eq!(imports(program), expected, "{program}");
        }
        let mixed = Outline::parse(b"(importstr 'a') + import 'a'");
        let kinds: Vec<bool> = mixed.imports.iter().map(|import| import.is_program).collect();
        assert_eq!(kinds, [false, true]);
        assert_eq!(imports("\u{feff}import 'a' \u{1f680}"), ["a"]);
        assert_eq!(Outline::parse(b"\xff import 'a' \xff").imports.len(), 1);
    }

    #[test]
    fn charts_are_directories_in_calls_that_render_them() {
        for (program, expected) in [
            (
                "helm.template('name', './charts/x', { values: { a: [1, 2] } })",
                vec!["./charts/x"],
            ),
            (
                "std.native('helmTemplate')('n', '../c', { calledFrom: std.thisFile })",
                vec!["../c"],
            ),
            ("std.native(\"kustomizeBuild\")('base', {})", vec!["base"]),
            (
                "kustomize.build(path='./base') + kustomize.build('other')",
                vec!["./base", "other"],
            ),
            ("helm.template(name='n', chart='c')", vec!["c"]),
            ("helm.template(f('x', 'y'), 'c')", vec!["c"]),
            ("helm.template('n', prefix + '/c')", vec![]),
            ("helm.template('n')", vec![]),
            ("{ template: 'x', build: 'y' }", vec![]),
            ("helm.template(", vec![]),
        ] {
            assert_eq!(Outline::parse(program.as_bytes()).charts, expected, "{program}");
        }
    }
}
