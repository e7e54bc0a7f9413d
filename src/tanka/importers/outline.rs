//! The outline of a Jsonnet file: its imports and the chart directories it renders. It depends on the content alone, so it is made once per
//! blob, whichever trees have it.

use super::lexer::{ImportLexer, ImportToken};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Outlines that are kept. They are small; the bound is against a flood of versions.
const OUTLINES_MAX: usize = 65_536;
/// Tokens of one call that are looked at.
const CALL_TOKENS_MAX: usize = 4_096;

/// The other files that a Jsonnet file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outline {
    /// The imports in order, each once.
    pub(super) imports: Vec<OutlineImport>,
    /// Directories of charts and kustomizations, as written: relative to the file's own directory. A
    /// call that only looks like such a rendering counts, too.
    pub(super) charts: Vec<String>,
}

/// An import as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OutlineImport {
    pub(super) path: String,
    /// True if the imported file is a program, whose own imports count, too.
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

/// The directory in `helm.template(name, DIRECTORY, ..)`, `kustomize.build(DIRECTORY, ..)`, or in a call
/// of the native functions behind them.
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

/// The argument of a call, if it is nothing but a text.
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

/// The outlines of blobs, shared by everything that looks at imports.
#[derive(Debug, Default)]
pub struct OutlineCache {
    // Held for one look-up; what is missing is made outside of it.
    by_blob: Mutex<HashMap<String, Arc<Outline>>>,
}

impl OutlineCache {
    /// The outline of the file whose blob id is `blob`; its content is asked for where that is not known. One that cannot
    /// be read now imports nothing, and is asked for again the next time.
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
