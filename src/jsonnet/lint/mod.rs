//! The linter: problems of a Jsonnet file that are found without evaluating it.
//!
//! An error is only what is proven: text that is no Jsonnet, a name nobody gave, an import that is not
//! there, and values used as what they cannot be. Where the kind of a value is not known for sure, there
//! is no finding. What works but serves nothing is a warning.

mod arguments;
mod check;
mod follow;
mod kinds;
mod loops;
mod scope;
mod standard;
#[cfg(test)]
mod tests;
mod told;
mod types;

pub use follow::Followed;

use super::syntax::{Kind, Lines, Place, PlaceRange, Span, Tree, parse, unescape, with_stack_for};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// An error where the code is evaluated.
    Error,
    /// Code that works and serves nothing.
    Warning,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
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
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind of problem.
    pub code: Code,
    /// The file, as the caller names it.
    pub file: String,
    /// The place in the file.
    pub range: PlaceRange,
    /// The problem, in words.
    pub message: String,
    /// A suggestion of what would work, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// `error: lib/a.libsonnet:1:7-13 what was found (what would work)`.
impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(out, "{severity}: {}:{} {}", self.file, self.range, self.message)?;
        match &self.hint {
            Some(hint) => write!(out, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Answers whether an import of the file, as it is written, finds anything.
pub type Resolves<'a> = dyn Fn(&str) -> bool + Sync + 'a;

/// The files that imports mean for sure.
pub trait Sources: Sync {
    /// The name of the file that an import means, by the importing file and the import as it is written.
    fn meaning(&self, importer: &str, import: &str) -> Option<String>;

    /// The text of a file that an import means.
    fn text(&self, file: &str) -> Option<Arc<str>>;
}

/// Follows nothing.
struct NoSources;

impl Sources for NoSources {
    fn meaning(&self, _importer: &str, _import: &str) -> Option<String> {
        None
    }

    fn text(&self, _file: &str) -> Option<Arc<str>> {
        None
    }
}

/// Returns the findings in a file, in the order of the text. What imports give is not followed.
pub fn lint(file: &str, text: &str, resolves: &Resolves<'_>) -> Vec<Finding> {
    lint_following(file, text, resolves, &NoSources, &Followed::default())
}

/// Lints like [`lint`], and follows imports. What imported files give is kept in `followed` for the next file.
pub fn lint_following(
    file: &str,
    text: &str,
    resolves: &Resolves<'_>,
    sources: &dyn Sources,
    followed: &Followed,
) -> Vec<Finding> {
    let tree = match parse(text) {
        Ok(tree) => tree,
        Err(error) => return vec![unreadable(file, error.range, error.message)],
    };
    let imported = follow::Follower::new(sources, followed).imports(file, &tree);
    let found = with_stack_for(tree.depth, || {
        let mut notes = Notes { list: Vec::new() };
        let scopes = scope::resolve(&tree, &mut notes);
        imports(&tree, resolves, &mut notes);
        loops::find(&tree, &scopes, &mut notes);
        check::check(&tree, &scopes, &imported, &mut notes);
        notes.list
    });
    let Some(mut notes) = found else {
        let start = Place { line: 1, column: 1 };
        let range = PlaceRange {
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
    let lines = Lines::of(text);
    let finding = |note: Note| Finding {
        severity: note.code.severity(),
        code: note.code,
        file: file.to_owned(),
        range: lines.range(note.span),
        message: note.message,
        hint: note.hint,
    };
    notes.into_iter().map(finding).collect()
}

fn unreadable(file: &str, range: PlaceRange, message: String) -> Finding {
    let (severity, code) = (Severity::Error, Code::Syntax);
    Finding {
        severity,
        code,
        file: file.to_owned(),
        range,
        message,
        hint: None,
    }
}

impl Code {
    fn severity(self) -> Severity {
        match self {
            Self::UnusedVariable | Self::EndlessLoop => Severity::Warning,
            Self::Syntax
            | Self::UnknownVariable
            | Self::OutsideObject
            | Self::UnresolvedImport
            | Self::Type
            | Self::Arguments => Severity::Error,
        }
    }
}

/// A finding whose place is still in bytes.
struct Note {
    code: Code,
    span: Span,
    message: String,
    hint: Option<String>,
}

/// The findings so far.
struct Notes {
    list: Vec<Note>,
}

impl Notes {
    fn add(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.add_with_hint(code, span, message, None);
    }

    fn add_with_hint(&mut self, code: Code, span: Span, message: impl Into<String>, hint: Option<String>) {
        let message = message.into();
        self.list.push(Note {
            code,
            span,
            message,
            hint,
        });
    }
}

fn imports(tree: &Tree<'_>, resolves: &Resolves<'_>, notes: &mut Notes) {
    for node in &tree.nodes {
        let Kind::Import { file, .. } = &node.kind else {
            continue;
        };
        let Kind::Text { style, value, .. } = &tree.node(*file).kind else {
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
            notes.add_with_hint(Code::UnresolvedImport, node.span, message, Some(hint.to_owned()));
        }
    }
}
