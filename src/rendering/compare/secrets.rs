//! The secrets that a rendering knows: those in its input files, and the `Secret`s of all its environments and of
//! the entry points it imports. They are all known before anything of the rendering is written or shown, so that a
//! secret is hidden whatever the program does with it.

use super::rendering::{RenderJob, RenderSide, jobs};
use super::{CompareError, Comparer};
use crate::base::model::RepoPath;
use crate::base::redact::{FileSecrets, KnownSecret, NamedFiles, Redactor, is_secret_file_name};
use crate::rendering::jsonnet::CrossCheckMode;
use crate::rendering::review::Masker;
use crate::rendering::tanka::importers::{Closure, ImportGraph, PathState};
use crate::rendering::tanka::{MemoryPermit, RenderedEntrypoint};
use crate::state::workspace::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum number of entry points that are rendered because others import them.
const INNER_MAX: usize = 1_000;
/// Maximum number of files of a chart that are examined.
const CHART_FILES_MAX: usize = 5_000;

/// The secrets of entry points; `None` for one that could not be rendered.
pub(super) type EntrypointSecrets = BTreeMap<RepoPath, Option<Arc<[KnownSecret]>>>;

/// Returns the other entry points among the input files of an entry point.
pub(super) fn inner_entrypoints<'a>(
    job: &'a RenderJob,
    graph: &'a ImportGraph,
) -> impl Iterator<Item = &'a RepoPath> {
    let files = job.closure.dependencies.keys();
    files.filter(|file| **file != job.entrypoint && graph.closures().contains_key(*file))
}

/// Returns the secrets in the input files of an entry point.
pub(super) fn secrets_of_files(closure: &Closure, tree: &dyn Tree, redactor: &Redactor) -> Vec<KnownSecret> {
    let mut known = Vec::new();
    let (mut files, mut named) = (Vec::new(), NamedFiles::default());
    let mut take = |path: &RepoPath, found: &FileSecrets| {
        known.extend_from_slice(&found.secrets);
        named.add(&found.files);
        files.push(path.clone());
    };
    for (path, dependency) in &closure.dependencies {
        match &dependency.state {
            PathState::File { blob } => {
                let read = || {
                    let (version, blob) = tree.read_with_blob(path).ok()?;
                    Some((version.content, blob))
                };
                if let Some(found) = redactor.secrets_in_blob(blob, read) {
                    take(path, &found);
                }
            }
            PathState::Directory { digest } if !digest.is_empty() => {
                let files = tree.files_below(path.as_str()).unwrap_or_default();
                for file in files.iter().take(CHART_FILES_MAX) {
                    if let Ok((version, blob)) = tree.read_with_blob(file) {
                        take(file, &redactor.secrets_in_file(Some(&blob), &version.content));
                    }
                }
            }
            _ => {}
        }
    }
    // Another file can declare a file to be a secret.
    let is_named = |path: &&RepoPath| is_secret_file_name(path.file_name()) || named.contains(path);
    for version in files
        .iter()
        .filter(is_named)
        .filter_map(|path| tree.read(path).ok())
    {
        known.extend(redactor.secrets_of_named_file(&version.content));
    }
    known
}

/// Returns the values of the `Secret`s of all environments of an entry point.
pub(super) fn secrets_of_rendered(whole: &RenderedEntrypoint, redactor: &Redactor) -> Vec<KnownSecret> {
    let members = whole.members.iter();
    let objects = members
        .filter_map(|member| member.objects.as_ref().ok())
        .flatten();
    let held = objects.flat_map(|object| Masker::secret_values(&object.value));
    held.flat_map(|held| redactor.secrets_in_entry(&held.name, &held.value))
        .collect()
}

/// Returns a redactor that also knows these secrets.
pub(super) fn with_secrets(redactor: &Arc<Redactor>, known: &[KnownSecret]) -> Arc<Redactor> {
    if known.is_empty() {
        return Arc::clone(redactor);
    }
    let fresh = redactor.fresh();
    fresh.learn(known);
    Arc::new(fresh)
}

impl Comparer {
    /// Renders the entry points that others import, and returns their secrets.
    pub(super) async fn secrets_of_inner(
        &self,
        side: RenderSide<'_>,
        left: &[RenderJob],
        cancel: &CancellationToken,
    ) -> Result<EntrypointSecrets, CompareError> {
        let wanted = left.iter().flat_map(|job| inner_entrypoints(job, side.graph));
        let wanted: BTreeSet<RepoPath> = wanted.take(INNER_MAX).cloned().collect();
        let mut held = EntrypointSecrets::new();
        if wanted.is_empty() {
            return Ok(held);
        }
        let wanted: Vec<RepoPath> = wanted.into_iter().collect();
        let mut rendered = Vec::new();
        for job in jobs(&side, &wanted, BTreeSet::new()).await? {
            match self.render_cache().get(&job.key) {
                Some(kept) => drop(held.insert(job.entrypoint, Some(Arc::clone(&kept.secrets)))),
                None => rendered.push(job),
            }
        }
        let target = |job: &RenderJob| {
            side.variables
                .entrypoint(job.entrypoint.as_str(), CrossCheckMode::Off)
        };
        let targets = rendered.iter().map(target).collect();
        let permit = Arc::new(MemoryPermit::default());
        let renderer = self.renderer(side.tree).with_memory_permit(&permit);
        let answers = renderer.render_all(targets, &|| {}, cancel).await;
        drop(renderer);
        let (tree, redactor) = (Arc::clone(side.tree), Arc::clone(&self.redactor));
        let found = super::blocking(move || {
            let _permit = permit;
            let answered = rendered.into_iter().zip(answers);
            let found = answered.map(|(job, answer)| {
                let known = answer.ok().map(|whole| {
                    let mut known = secrets_of_rendered(&whole, &redactor);
                    known.extend(secrets_of_files(&job.closure, tree.as_ref(), &redactor));
                    known.into()
                });
                (job.entrypoint, known)
            });
            Ok(found.collect::<EntrypointSecrets>())
        });
        held.extend(found.await?);
        Ok(held)
    }
}
