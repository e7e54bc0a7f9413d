//! Whether one file is valid: what is found in its text, and whether everything that uses it renders.

use super::environments;
use super::rendering::{Both, Side};
use super::{CompareError, Comparer, Sides, Variables, blocking};
use crate::jsonnet::lint::{self, Code, Finding, Severity};
use crate::jsonnet::path::clean;
use crate::model::RepoPath;
use crate::review::Failure;
use crate::tanka::Listing;
use crate::tanka::importers::ImportGraph;
use crate::workspace::{Tree, TreeError};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Entry points that are rendered for one file.
const USERS_MAX: usize = 200;
/// Directories of libraries, from the directory of a file upwards.
const LIBRARIES: [&str; 2] = ["lib", "vendor"];

/// What was found out about a file.
#[derive(Clone, Debug)]
pub struct Validation {
    /// What is wrong with its text, in the order of it.
    pub findings: Vec<Finding>,
    /// The environments that use it, and why one does not render.
    pub environments: Vec<(String, Option<Failure>)>,
    /// Entry points that use it and were not rendered, because there are too many.
    pub left_out: usize,
}

impl Validation {
    /// Whether nothing is wrong. Warnings are nothing wrong.
    pub fn is_valid(&self) -> bool {
        let is_wrong = |finding: &Finding| finding.severity == Severity::Error;
        let fails = self.environments.iter().any(|(_, failure)| failure.is_some());
        !fails && !self.findings.iter().any(is_wrong)
    }
}

/// A file as it was read, and what uses it.
struct Read {
    findings: Vec<Finding>,
    graph: Arc<ImportGraph>,
    users: Vec<RepoPath>,
}

impl Comparer {
    /// Looks at one file of the workspace, and renders what uses it.
    pub async fn validate(
        self: &Arc<Self>,
        sides: Sides,
        path: RepoPath,
        cancel: &CancellationToken,
    ) -> Result<Validation, CompareError> {
        let (comparer, tree) = (Arc::clone(self), Arc::clone(&sides.workspace));
        let looks = sides.clone();
        if let Some(guard) = &sides.guard {
            guard.check(sides.workspace.as_ref(), &path)?;
        }
        let read = blocking(move || {
            let graph = comparer.graphs.touched(&sides, None, 0)?.workspace;
            read(sides.workspace.as_ref(), graph, &path)
        });
        let Read {
            mut findings,
            graph,
            users,
        } = read.await?;
        let rendered: Vec<RepoPath> = users.iter().take(USERS_MAX).cloned().collect();
        let with_opinion: BTreeSet<RepoPath> = rendered.iter().cloned().collect();
        let side = Side {
            tree: &tree,
            graph: &graph,
            variables: &Variables::default(),
            wants_values: false,
        };
        let found = self.side(side, &rendered, with_opinion, &|_| {}, cancel).await?;
        let both = Both {
            secrets: found.secrets,
            ..Both::default()
        };
        let redactor = self.learn(&looks, &both);
        let environments = environments::failures(&graph, &found.outcomes, &redactor);
        let left_out = users.len() - rendered.len();
        let all_render = environments.iter().all(|(_, failure)| failure.is_none());
        if all_render && left_out == 0 && !environments.is_empty() {
            // No environment comes to where the file is missing: it is optional.
            let imports = findings.iter_mut();
            imports
                .filter(|finding| finding.code == Code::UnresolvedImport)
                .for_each(|finding| finding.severity = Severity::Warning);
        }
        for finding in &mut findings {
            finding.message = redactor.redact(&finding.message).into_owned();
        }
        Ok(Validation {
            findings,
            environments,
            left_out,
        })
    }
}

fn read(tree: &dyn Tree, graph: Arc<ImportGraph>, path: &RepoPath) -> Result<Read, CompareError> {
    let version = tree.read(path)?;
    let text = std::str::from_utf8(&version.content).map_err(|_| TreeError::WrongKind {
        path: path.clone(),
        what: "not UTF-8 text",
    })?;
    let users: Vec<RepoPath> = graph
        .importers(path)
        .into_iter()
        .map(|importer| importer.entrypoint)
        .collect();
    let closures: Vec<_> = users
        .iter()
        .filter_map(|user| graph.closures().get(user))
        .collect();
    let listing = Listing::new(tree.files()?);
    let resolves = |import: &str| {
        if closures.is_empty() {
            return import == "tk" || is_somewhere(&listing, path, import);
        }
        let is_missing = |closure: &&Arc<crate::tanka::importers::Closure>| {
            let mut unresolved = closure.unresolved.iter();
            unresolved.any(|missing| missing.importer == *path && missing.path == import)
        };
        !closures.iter().any(is_missing)
    };
    // An import that means another file in another environment is not followed.
    let sources = |importer: &str, import: &str| {
        let importer = RepoPath::parse(importer).ok()?;
        let mut meanings = closures.iter().map(|closure| closure.meaning(&importer, import));
        let meant = meanings.next()??;
        meanings
            .all(|other| other.as_ref() == Some(&meant))
            .then_some(())?;
        let version = tree.read(&meant).ok()?;
        let text = std::str::from_utf8(&version.content).ok()?;
        Some((meant.to_string(), text.into()))
    };
    Ok(Read {
        findings: lint::lint_following(path.as_str(), text, &resolves, &sources),
        graph,
        users,
    })
}

/// Whether an import of a file that nothing uses may mean anything: beside it, or in the libraries of
/// any directory above it.
fn is_somewhere(listing: &Listing, path: &RepoPath, import: &str) -> bool {
    let own = path.parent().unwrap_or_default();
    let above = std::iter::successors(Some(own), |directory| match directory.rsplit_once('/') {
        Some((parent, _)) => Some(parent),
        None if directory.is_empty() => None,
        None => Some(""),
    });
    let libraries = above.flat_map(|directory| {
        LIBRARIES.map(|library| match directory {
            "" => library.to_owned(),
            directory => format!("{directory}/{library}"),
        })
    });
    let mut places = std::iter::once(own.to_owned()).chain(libraries);
    places.any(|directory| clean(&directory, import).is_some_and(|found| listing.is_file(&found)))
}
