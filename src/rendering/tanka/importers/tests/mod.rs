//! Tests of the import graph on small projects.

mod affected;
mod closure;
mod property;
mod tk;

use super::{AffectedEntrypoint, AffectedReason, ImportGraph, OutlineCache};
use crate::base::model::RepoPath;
use crate::rendering::tanka::testing::{ReadOnlyTree, path};
use std::sync::Arc;

fn graph(files: &ReadOnlyTree) -> ImportGraph {
    ImportGraph::build(files, Arc::new(OutlineCache::default())).unwrap()
}

fn texts<'a>(paths: impl IntoIterator<Item = &'a RepoPath>) -> Vec<&'a str> {
    paths.into_iter().map(RepoPath::as_str).collect()
}

/// Returns the entry points that depend on a path.
fn importers(files: &ReadOnlyTree, of: &str) -> Vec<String> {
    let importers = graph(files).importers(&path(of));
    importers
        .into_iter()
        .map(|importer| importer.entrypoint.as_str().to_owned())
        .collect()
}

/// Returns the entry points that one edit affects. The result is computed incrementally and compared with a full
/// read.
fn edited(files: &ReadOnlyTree, name: &str, content: Option<&str>) -> Vec<AffectedEntrypoint> {
    let base = graph(files);
    let after = files.with(name, content);
    let head = base.with_changes(&after, &[path(name)]).unwrap();
    assert_eq!(head.closures(), graph(&after).closures());
    base.affected(&head)
}

/// Formats one line per reason: the entry point, the path and its change, and the chain.
fn lines(affected: &[AffectedEntrypoint]) -> Vec<String> {
    let lines = affected.iter().flat_map(|affected| {
        let entrypoint = &affected.entrypoint;
        affected.reasons.iter().map(move |reason| match reason {
            AffectedReason::New | AffectedReason::Removed | AffectedReason::ProjectRoot => {
                format!("{entrypoint}: {reason:?}")
            }
            AffectedReason::Path {
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
