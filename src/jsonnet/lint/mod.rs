//! The linter: problems of a Jsonnet file that are found without evaluating it.
//!
//! An error is only what is proven: text that is no Jsonnet, a name nobody gave, an import that is not
//! there, and values used as what they cannot be. Where the kind of a value is not known for sure, there
//! is no finding. What works but serves nothing is a warning.

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
    /// An error where the code is evaluated.
    Error,
    /// Code that works and serves nothing.
    Warning,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LintCode {
    /// The text is no Jsonnet.
    Syntax,
    /// A name that nothing in reach gives.
    UnknownVariable,
    /// `self`, `super` or `$` where there is no object.
    OutsideObject,
    /// A file that is not there.
    UnresolvedImport,
    /// A value used as what it cannot be.
    Type,
    /// A call that does not fit the function.
    Arguments,
    /// A local that nothing uses.
    UnusedVariable,
    /// A local that needs its own value first.
    EndlessLoop,
}

/// A problem in a Jsonnet file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintFinding {
    /// The severity.
    pub severity: LintSeverity,
    /// The kind of problem.
    pub code: LintCode,
    /// The file, as the caller names it.
    pub file: String,
    /// The place in the file.
    pub range: SourceRange,
    /// The problem, in words.
    pub message: String,
    /// A suggestion of what would work, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// `error: lib/a.libsonnet:1:7-13 what was found (what would work)`.
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

/// Answers whether an import of the file, as it is written, finds anything.
pub type ImportPredicate<'a> = dyn Fn(&str) -> bool + Sync + 'a;

/// The files that imports mean for sure.
pub trait ImportLookup: Sync {
    /// The name of the file that an import means, by the importing file and the import as it is written.
    fn resolve(&self, importer: &str, import: &str) -> Option<String>;

    /// The text of a file that an import means.
    fn text(&self, file: &str) -> Option<Arc<str>>;
}

/// Follows nothing.
struct NoImports;

impl ImportLookup for NoImports {
    fn resolve(&self, _importer: &str, _import: &str) -> Option<String> {
        None
    }

    fn text(&self, _file: &str) -> Option<Arc<str>> {
        None
    }
}

/// Returns the findings in a file, in the order of the text. What imports give is not followed.
pub fn lint(file: &str, text: &str, resolves: &ImportPredicate<'_>) -> Vec<LintFinding> {
    lint_with_imports(file, text, resolves, &NoImports, &ImportCache::default())
}

/// Lints like [`lint`], and follows imports. What imported files give is kept in `followed` for the next file.
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
            "there is no stack for a file nested this deep".to_owned(),
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

/// A finding whose place is still in bytes.
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
