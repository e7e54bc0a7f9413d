//! Tests of the import graph on small projects.

mod affected;
mod closure;
mod property;
mod tk;

use super::{Affected, ImportGraph, Outlines, Reason};
use crate::model::RepoPath;
use crate::tanka::testing::{Files, path};
use std::sync::Arc;

fn graph(files: &Files) -> ImportGraph {
    ImportGraph::build(files, Arc::new(Outlines::default())).unwrap()
}

fn texts<'a>(paths: impl IntoIterator<Item = &'a RepoPath>) -> Vec<&'a str> {
    paths.into_iter().map(RepoPath::as_str).collect()
}

/// The entry points that depend on a path.
fn importers(files: &Files, of: &str) -> Vec<String> {
    let importers = graph(files).importers(&path(of));
    importers
        .into_iter()
        .map(|importer| importer.entrypoint.as_str().to_owned())
        .collect()
}

/// Returns the entry points one edit affects, found incrementally and checked against a cold reading.
fn edited(files: &Files, name: &str, content: Option<&str>) -> Vec<Affected> {
    let base = graph(files);
    let after = files.with(name, content);
    let head = base.with(&after, &[path(name)]).unwrap();
    assert_eq!(head.closures(), graph(&after).closures());
    base.affected(&head)
}

/// One line for each reason: entry point, what happened to which path, and the chain.
fn lines(affected: &[Affected]) -> Vec<String> {
    let lines = affected.iter().flat_map(|affected| {
        let entrypoint = &affected.entrypoint;
        affected.reasons.iter().map(move |reason| match reason {
            Reason::New | Reason::Gone | Reason::Place => format!("{entrypoint}: {reason:?}"),
            Reason::Path {
                path,
                real,
                role,
                change,
                chain,
            } => {
                let real = if real == path {
                    String::new()
                } else {
                    format!(" = {real}")
                };
                format!(
                    "{entrypoint}: {change:?} {role:?} {path}{real} by {}",
                    texts(chain).join(" > ")
                )
            }
        })
    });
    lines.collect()
}
