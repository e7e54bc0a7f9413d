//! The linter: problems of a Jsonnet file that are found without evaluating it.
//!
//! An error is always proven: text that is not Jsonnet, an unknown name, a missing import, or a value of a kind that
//! its use does not allow. If the kind of a value is not certain, there is no finding. Code that works but has no
//! effect is a warning.

mod arguments;
mod check;
mod import_values;
mod kinds;
mod loops;
mod scope;
mod standard_library;
#[cfg(test)]
mod tests;
mod export;
mod types;

pub use import_values::ImportCache;

use super::syntax::{
    LineColumn, LineIndex, NodeKind, SourceRange, Span, SyntaxTree, parse, unescape, with_stack_for,
};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LintSeverity {
    /// An error if the code is evaluated.
    Error,
    /// Code that works but has no effect.
    Warning,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LintCode {
    /// The text is not Jsonnet.
    Syntax,
    /// A name that is not defined in its scope.
    UnknownVariable,
    /// `self`, `super` or `$` outside of an object.
    OutsideObject,
    /// An import of a file that does not exist.
    UnresolvedImport,
    /// A value of a kind that its use does not allow.
    Type,
    /// A call that does not match the function.
    Arguments,
    /// A local that is not used.
    UnusedVariable,
    /// A local that depends on its own value.
    EndlessLoop,
}

/// A problem in a Jsonnet file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintFinding {
    /// The severity of the finding.
    pub severity: LintSeverity,
    /// The kind of problem.
    pub code: LintCode,
    /// The file, by the caller's name for it.
    pub file: String,
    /// The location in the file.
    pub range: SourceRange,
    /// The description of the problem.
    pub message: String,
    /// A suggestion of valid code, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Writes `error: lib/a.libsonnet:1:7-13 what was found (what would work)`.
impl fmt::Display for LintFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            LintSeverity::Error => "error",
            LintSeverity::Warning => "warning",
        };
        write!(out, "{severity}: {}:{} {}", self.file, self.range, self.message)?;
        match &self.hint {
            Some(hint) => write!(out, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A function that returns true if an import of the file, as written, resolves to a file.
pub type ImportPredicate<'a> = dyn Fn(&str) -> bool + Sync + 'a;

/// The files that imports certainly resolve to.
pub trait ImportLookup: Sync {
    /// Returns the name of the file that an import resolves to, from the importing file and the path as written.
    fn resolve(&self, importer: &str, import: &str) -> Option<String>;

    /// Returns the text of an imported file.
    fn text(&self, file: &str) -> Option<Arc<str>>;
}

/// A lookup that resolves no imports.
struct NoImports;

impl ImportLookup for NoImports {
    fn resolve(&self, _importer: &str, _import: &str) -> Option<String> {
        None
    }

    fn text(&self, _file: &str) -> Option<Arc<str>> {
        None
    }
}

/// Returns the findings in a file, in the order of the text. Does not follow imports.
pub fn lint(file: &str, text: &str, resolves: &ImportPredicate<'_>) -> Vec<LintFinding> {
    lint_with_imports(file, text, resolves, &NoImports, &ImportCache::default())
}

/// Lints like [`lint`], and follows imports. `followed` caches the facts about imported files for the next file.
pub fn lint_with_imports(
    file: &str,
    text: &str,
    resolves: &ImportPredicate<'_>,
    sources: &dyn ImportLookup,
    followed: &ImportCache,
) -> Vec<LintFinding> {
    let tree = match parse(text) {
        Ok(tree) => tree,
        Err(error) => return vec![unreadable(file, error.range, error.message)],
    };
    let imported = import_values::ImportFollower::new(sources, followed).follow_imports(file, &tree);
    let found = with_stack_for(tree.depth, || {
        let mut notes = RawFindings { list: Vec::new() };
        let scopes = scope::resolve(&tree, &mut notes);
        check_imports(&tree, resolves, &mut notes);
        loops::find(&tree, &scopes, &mut notes);
        check::check(&tree, &scopes, &imported, &mut notes);
        notes.list
    });
    let Some(mut notes) = found else {
        let start = LineColumn { line: 1, column: 1 };
        let range = SourceRange {
            begin: start,
            end: start,
        };
        return vec![unreadable(
            file,
            range,
            "there is not enough stack for a file nested this deep".to_owned(),
        )];
    };
    notes.sort_by_key(|note| (note.span.start, note.span.end, note.code));
    let lines = LineIndex::new(text);
    let finding = |note: RawFinding| LintFinding {
        severity: note.code.severity(),
        code: note.code,
        file: file.to_owned(),
        range: lines.range(note.span),
        message: note.message,
        hint: note.hint,
    };
    notes.into_iter().map(finding).collect()
}

fn unreadable(file: &str, range: SourceRange, message: String) -> LintFinding {
    let (severity, code) = (LintSeverity::Error, LintCode::Syntax);
    LintFinding {
        severity,
        code,
        file: file.to_owned(),
        range,
        message,
        hint: None,
    }
}

impl LintCode {
    fn severity(self) -> LintSeverity {
        match self {
            Self::UnusedVariable | Self::EndlessLoop => LintSeverity::Warning,
            Self::Syntax
            | Self::UnknownVariable
            | Self::OutsideObject
            | Self::UnresolvedImport
            | Self::Type
            | Self::Arguments => LintSeverity::Error,
        }
    }
}

/// A finding whose location is a range of bytes.
struct RawFinding {
    code: LintCode,
    span: Span,
    message: String,
    hint: Option<String>,
}

/// The findings so far.
struct RawFindings {
    list: Vec<RawFinding>,
}

impl RawFindings {
    fn add(&mut self, code: LintCode, span: Span, message: impl Into<String>) {
        self.add_with_hint(code, span, message, None);
    }

    fn add_with_hint(
        &mut self,
        code: LintCode,
        span: Span,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let message = message.into();
        self.list.push(RawFinding {
            code,
            span,
            message,
            hint,
        });
    }
}

fn check_imports(tree: &SyntaxTree<'_>, resolves: &ImportPredicate<'_>, notes: &mut RawFindings) {
    for node in &tree.nodes {
        let NodeKind::Import { file, .. } = &node.kind else {
            continue;
        };
        let NodeKind::Text { style, value, .. } = &tree.node(*file).kind else {
            continue;
        };
        let path = match style.keeps_escapes() {
            true => unescape(value).unwrap_or_default(),
            false => value.as_ref().into(),
        };
        if !resolves(&path) {
            let message =
                format!("couldn't open import {path:?}: no match locally or in the Jsonnet library paths");
            let hint =
                "is the package installed, and is the path relative to this file or to a library path?";
            notes.add_with_hint(
                LintCode::UnresolvedImport,
                node.span,
                message,
                Some(hint.to_owned()),
            );
        }
    }
}
