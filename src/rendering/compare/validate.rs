//! Validation of files: the problems in their texts, and whether all environments that use them render. For any
//! number of files, each import is resolved once and each environment is rendered once.

use super::environments;
use super::import_resolver::ImportResolver;
use super::rendering::RenderSide;
use super::unresolved::{ImportSearch, list_paths};
use super::{CompareError, CompareProgress, Comparer, Sides, Variables, blocking};
use crate::base::model::RepoPath;
use crate::base::parallel;
use crate::base::redact::Redactor;
use crate::rendering::jsonnet::lint::{self, ImportCache, LintCode, LintFinding, LintSeverity};
use crate::rendering::jsonnet::path::clean;
use crate::rendering::review::RenderFailure;
use crate::rendering::tanka::importers::ImportGraph;
use crate::state::workspace::{Tree, TreeError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Maximum number of entry points that are rendered for one file.
const USERS_MAX: usize = 200;
/// Number of entry points in one batch, whose objects are in memory at the same time.
const TOGETHER_MAX: usize = 32;
/// Library directories, searched from the directory of a file upwards.
const LIBRARIES: [&str; 2] = ["lib", "vendor"];

/// The result of validating a file.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The problems in its text, in order.
    pub findings: Vec<LintFinding>,
    /// The environments that use it.
    pub environments: Vec<Arc<DependentEnvironment>>,
    /// The number of entry points that use it but were not rendered, because there are too many.
    pub left_out: usize,
}

/// An environment that uses a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentEnvironment {
    /// The name of the environment.
    pub name: String,
    /// The reason why it does not render.
    pub failure: Option<RenderFailure>,
}

/// A file and its validation.
pub type FileValidation = (RepoPath, Result<Validation, CompareError>);

/// The progress of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationStage {
    /// The texts of the files are checked.
    Files(CompareProgress),
    /// The environments that use the files are rendered.
    Environments(CompareProgress),
}

impl Validation {
    /// True if there is no error. Warnings are not errors.
    pub fn is_valid(&self) -> bool {
        let is_wrong = |finding: &LintFinding| finding.severity == LintSeverity::Error;
        let fails = self.environments.iter().any(|user| user.failure.is_some());
        !fails && !self.findings.iter().any(is_wrong)
    }
}

/// A file that was read, its problems, and the entry points that use it.
struct FileFindings {
    path: RepoPath,
    found: Result<(Vec<LintFinding>, Vec<RepoPath>), CompareError>,
}

/// A callback for the progress.
type StageCallback = dyn Fn(ValidationStage) + Send + Sync;

impl Comparer {
    /// Checks one file of the workspace and renders the environments that use it.
    pub async fn validate(
        self: &Arc<Self>,
        sides: Sides,
        path: RepoPath,
        cancel: &CancellationToken,
    ) -> Result<Validation, CompareError> {
        let found = self
            .validate_all(sides, vec![path], Arc::new(|_| {}), cancel)
            .await?;
        let first = found.into_iter().next();
        first.map_or_else(
            || Err(CompareError::Internal("no file".to_owned())),
            |(_, found)| found,
        )
    }

    /// Checks files of the workspace and renders every environment that uses any of them once. An unreadable file
    /// does not affect the others.
    pub async fn validate_all(
        self: &Arc<Self>,
        sides: Sides,
        paths: Vec<RepoPath>,
        on_stage: Arc<StageCallback>,
        cancel: &CancellationToken,
    ) -> Result<Vec<FileValidation>, CompareError> {
        let redactor = self.learn_secrets(&sides, &super::RenderedSides::default());
        let (comparer, tree, is_guarded) = (
            Arc::clone(self),
            Arc::clone(&sides.workspace),
            sides.guard.is_some(),
        );
        let (known, stage_callback, enough) = (Arc::clone(&redactor), Arc::clone(&on_stage), cancel.clone());
        let reading = blocking(move || {
            let graph = comparer.graphs.workspace(&sides)?;
            let reading = TextValidation {
                resolver: ImportResolver::new(&sides, &graph),
                followed: ImportCache::default(),
                graph: &graph,
                sides: &sides,
                redactor: &known,
            };
            let read = reading.check_all(paths, stage_callback.as_ref(), &enough)?;
            Ok((read, graph))
        });
        let (read, graph) = reading.await?;
        let seen = RenderContext {
            tree: &tree,
            graph: &graph,
            redactor: &redactor,
            is_guarded,
        };
        let rendered = self.render_users(&read, seen, on_stage.as_ref(), cancel).await?;
        let judged = read.into_iter().map(|read| build_validation(read, &rendered));
        Ok(judged.collect())
    }

    /// Renders the environments that use these files, in batches. Only names and failures are kept, redacted with
    /// the secrets of each environment.
    async fn render_users(
        &self,
        read: &[FileFindings],
        seen: RenderContext<'_>,
        on_stage: &StageCallback,
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<RepoPath, Vec<Arc<DependentEnvironment>>>, CompareError> {
        let RenderContext { tree, graph, .. } = seen;
        let users = read.iter().flat_map(|read| &read.found);
        let users: BTreeSet<RepoPath> = users
            .flat_map(|(_, users)| users.iter().take(USERS_MAX))
            .cloned()
            .collect();
        let (users, mut rendered) = (Vec::from_iter(users), BTreeMap::new());
        let (total, count) = (users.len(), AtomicUsize::new(0));
        let done = |more: usize| {
            let done = (count.fetch_add(more, Ordering::Relaxed) + more).min(total);
            on_stage(ValidationStage::Environments(CompareProgress { done, total }));
        };
        let side = RenderSide {
            tree,
            graph,
            variables: &Variables::default(),
            wants_values: false,
        };
        for together in users.chunks(TOGETHER_MAX) {
            let relied_on = together.iter().cloned().collect();
            let found = self.render_side(side, together, relied_on, &done, cancel).await?;
            for (entrypoint, outcome) in &found.outcomes {
                let of_it = environments::failures(graph, entrypoint, outcome);
                let own = seen.redactor.fresh();
                if of_it.iter().any(|user| user.failure.is_some())
                    && let Some(secrets) = found.secrets.get(entrypoint)
                {
                    own.learn(secrets);
                }
                let hidden = of_it
                    .into_iter()
                    .map(|user| Arc::new(redact_failure(user, [&own, seen.redactor])));
                rendered.insert(entrypoint.clone(), hidden.collect());
            }
            if seen.is_guarded {
                // The same caller may see these secrets in other texts.
                found
                    .secrets
                    .values()
                    .for_each(|known| seen.redactor.learn(known));
            }
        }
        Ok(rendered)
    }
}

/// The side that is rendered, and the redactor for all of it.
#[derive(Clone, Copy)]
struct RenderContext<'a> {
    tree: &'a Arc<dyn Tree>,
    graph: &'a Arc<ImportGraph>,
    redactor: &'a Redactor,
    /// True if the redactor belongs to a guard and is used for other texts too.
    is_guarded: bool,
}

/// Redacts the failure of an environment with both redactors.
fn redact_failure(user: DependentEnvironment, redactors: [&Redactor; 2]) -> DependentEnvironment {
    let failure = user.failure.map(|failure| {
        let hide = |failure, redactor: &&Redactor| environments::redacted(&failure, redactor);
        redactors.iter().fold(failure, hide)
    });
    DependentEnvironment { failure, ..user }
}

/// The context for checking the texts of files.
struct TextValidation<'a> {
    sides: &'a Sides,
    graph: &'a ImportGraph,
    resolver: ImportResolver<'a>,
    followed: ImportCache,
    redactor: &'a Redactor,
}

impl TextValidation<'_> {
    fn check_all(
        &self,
        paths: Vec<RepoPath>,
        on_stage: &StageCallback,
        cancel: &CancellationToken,
    ) -> Result<Vec<FileFindings>, CompareError> {
        let (total, count) = (paths.len(), AtomicUsize::new(0));
        let read = parallel::map(paths, |path| {
            let found = match cancel.is_cancelled() {
                true => Err(CompareError::Cancelled),
                false => self.check_file(&path),
            };
            let done = count.fetch_add(1, Ordering::Relaxed) + 1;
            on_stage(ValidationStage::Files(CompareProgress { done, total }));
            FileFindings { path, found }
        });
        match cancel.is_cancelled() {
            true => Err(CompareError::Cancelled),
            false => Ok(read),
        }
    }

    fn check_file(&self, path: &RepoPath) -> Result<(Vec<LintFinding>, Vec<RepoPath>), CompareError> {
        let tree = self.sides.workspace.as_ref();
        if let Some(guard) = &self.sides.guard {
            guard.check(tree, path)?;
        }
        let version = tree.read(path)?;
        let text = std::str::from_utf8(&version.content).map_err(|_| TreeError::WrongKind {
            path: path.clone(),
            what: "not UTF-8 text",
        })?;
        if self.sides.guard.is_some() {
            self.redactor.learn_file(None, &version.content);
        }
        let users = self.graph.dependent_entrypoints(path);
        let sources = self.resolver.for_users(&users, path);
        let missing = Mutex::new(BTreeMap::new());
        let resolves = |import: &str| {
            let why = match users.is_empty() {
                true if import == "tk" || is_somewhere(self.graph, path, import) => None,
                true => Some(None),
                false => sources.missing(path, import).map(Some),
            };
            if let Some(why) = why {
                let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
                missing.insert(import.to_owned(), why);
            }
            why.is_none()
        };
        let mut findings = lint::lint_with_imports(path.as_str(), text, &resolves, &sources, &self.followed);
        for (import, why) in missing.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let quoted = format!("{import:?}");
            let of_import = |finding: &&mut LintFinding| {
                finding.code == LintCode::UnresolvedImport && finding.message.contains(&quoted)
            };
            let (hint, found) = match why.filter(|why| !why.is_absent()) {
                None => (Some(self.import_hint(path, &users, &import)), None),
                // The file exists but cannot be used.
                Some(found) => (None, Some(found)),
            };
            for finding in findings.iter_mut().filter(of_import) {
                finding.hint.clone_from(&hint);
                if let Some(found) = found {
                    finding.message = format!("couldn't open import {quoted}: {}", found.why);
                }
            }
        }
        if !findings.is_empty() {
            let own = self.redactor.fresh();
            own.learn_file(None, &version.content);
            let hide = |text: &str| self.redactor.redact(&own.redact(text)).into_owned();
            for finding in &mut findings {
                finding.message = hide(&finding.message);
                finding.hint = finding.hint.as_deref().map(hide);
            }
        }
        Ok((findings, users))
    }

    /// Returns the searched paths of an import, and similar files.
    fn import_hint(&self, path: &RepoPath, users: &[RepoPath], import: &str) -> String {
        let layout = users.first().and_then(|user| self.graph.closures().get(user));
        let libraries = match layout {
            Some(closure) => closure.layout.jpath().into_iter().rev().collect(),
            None => LIBRARIES.map(str::to_owned).to_vec(),
        };
        let search = ImportSearch::run(self.sides.workspace.as_ref(), path, &libraries, import);
        format!("looked for {}{}", list_paths(&search.searched), search.hint())
    }
}

fn build_validation(
    read: FileFindings,
    rendered: &BTreeMap<RepoPath, Vec<Arc<DependentEnvironment>>>,
) -> FileValidation {
    let FileFindings { path, found } = read;
    let found = found.map(|(mut findings, users)| {
        let left_out = users.iter().filter(|user| !rendered.contains_key(user)).count();
        let environments = users.iter().filter_map(|user| rendered.get(user)).flatten();
        let environments: Vec<Arc<DependentEnvironment>> = environments.cloned().collect();
        let all_render = environments.iter().all(|user| user.failure.is_none());
        if all_render && left_out == 0 && !environments.is_empty() {
            // All environments render, so none of them evaluates the import. The missing file is optional.
            let imports = findings.iter_mut();
            imports
                .filter(|finding| finding.code == LintCode::UnresolvedImport)
                .for_each(|finding| finding.severity = LintSeverity::Warning);
        }
        Validation {
            findings,
            environments,
            left_out,
        }
    });
    (path, found)
}

/// True if an import may resolve, in a file that no environment uses: beside the file, or in the libraries of any
/// directory above it.
fn is_somewhere(graph: &ImportGraph, path: &RepoPath, import: &str) -> bool {
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
    places.any(|directory| clean(&directory, import).is_some_and(|found| graph.has_file(&found)))
}
