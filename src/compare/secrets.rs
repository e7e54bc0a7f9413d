//! The secrets that a rendering knows: those in the files it is made from, and the `Secret`s of all its
//! environments and of those it is built on. All of it is known before anything of the rendering is written or told,
//! so a secret is hidden whatever the program made of it.

use super::rendering::{Job, Side, jobs};
use super::{CompareError, Comparer};
use crate::jsonnet::SecondOpinionWanted;
use crate::model::RepoPath;
use crate::redact::{InFile, Known, NamedFiles, Redactor, is_named_like_one};
use crate::review::Masker;
use crate::tanka::importers::{Closure, ImportGraph, State};
use crate::tanka::{Room, Whole};
use crate::workspace::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Entry points that are rendered because others import them.
const INNER_MAX: usize = 1_000;
/// Files of a chart that are looked at.
const CHART_FILES_MAX: usize = 5_000;

/// The secrets of entry points; nothing for one that could not be rendered.
pub(super) type Held = BTreeMap<RepoPath, Option<Arc<[Known]>>>;

/// The other entry points among the files that one is made from.
pub(super) fn inner<'a>(job: &'a Job, graph: &'a ImportGraph) -> impl Iterator<Item = &'a RepoPath> {
    let files = job.closure.dependencies.keys();
    files.filter(|file| **file != job.entrypoint && graph.closures().contains_key(*file))
}

/// The secrets of the files that an entry point is made from.
pub(super) fn of_files(closure: &Closure, tree: &dyn Tree, redactor: &Redactor) -> Vec<Known> {
    let mut known = Vec::new();
    let (mut files, mut named) = (Vec::new(), NamedFiles::default());
    let mut take = |path: &RepoPath, found: &InFile| {
        known.extend_from_slice(&found.secrets);
        named.add(&found.files);
        files.push(path.clone());
    };
    for (path, dependency) in &closure.dependencies {
        match &dependency.state {
            State::File { blob } => {
                let read = || {
                    let (version, blob) = tree.identified(path).ok()?;
                    Some((version.content, blob))
                };
                if let Some(found) = redactor.in_file_at(blob, read) {
                    take(path, &found);
                }
            }
            State::Directory { digest } if !digest.is_empty() => {
                let files = tree.below(path.as_str()).unwrap_or_default();
                for file in files.iter().take(CHART_FILES_MAX) {
                    if let Ok((version, blob)) = tree.identified(file) {
                        take(file, &redactor.in_file(Some(&blob), &version.content));
                    }
                }
            }
            _ => {}
        }
    }
    // A file may be a secret because another one says so.
    let is_named = |path: &&RepoPath| is_named_like_one(path.file_name()) || named.holds(path);
    for version in files
        .iter()
        .filter(is_named)
        .filter_map(|path| tree.read(path).ok())
    {
        known.extend(redactor.secrets_of_named_file(&version.content));
    }
    known
}

/// The values of the `Secret`s of all environments of an entry point.
pub(super) fn of_whole(whole: &Whole, redactor: &Redactor) -> Vec<Known> {
    let members = whole.members.iter();
    let objects = members
        .filter_map(|member| member.objects.as_ref().ok())
        .flatten();
    let held = objects.flat_map(|object| Masker::held(&object.value));
    held.flat_map(|held| redactor.secrets_held(&held.name, &held.value))
        .collect()
}

/// A redactor that knows these as well.
pub(super) fn knowing(redactor: &Arc<Redactor>, known: &[Known]) -> Arc<Redactor> {
    if known.is_empty() {
        return Arc::clone(redactor);
    }
    let fresh = redactor.fresh();
    fresh.learn(known);
    Arc::new(fresh)
}

impl Comparer {
    /// The secrets of the entry points that others are built on. They are rendered for it.
    pub(super) async fn held_by_inner(
        &self,
        side: Side<'_>,
        left: &[Job],
        cancel: &CancellationToken,
    ) -> Result<Held, CompareError> {
        let wanted = left.iter().flat_map(|job| inner(job, side.graph));
        let wanted: BTreeSet<RepoPath> = wanted.take(INNER_MAX).cloned().collect();
        let mut held = Held::new();
        if wanted.is_empty() {
            return Ok(held);
        }
        let wanted: Vec<RepoPath> = wanted.into_iter().collect();
        let mut rendered = Vec::new();
        for job in jobs(&side, &wanted, BTreeSet::new()).await? {
            match self.kept().get(&job.key) {
                Some(kept) => drop(held.insert(job.entrypoint, Some(Arc::clone(&kept.secrets)))),
                None => rendered.push(job),
            }
        }
        let target = |job: &Job| {
            side.variables
                .entrypoint(job.entrypoint.as_str(), SecondOpinionWanted::No)
        };
        let targets = rendered.iter().map(target).collect();
        let room = Arc::new(Room::default());
        let renderer = self.renderer(side.tree).in_room(&room);
        let answers = renderer.show_all(targets, &|| {}, cancel).await;
        drop(renderer);
        let (tree, redactor) = (Arc::clone(side.tree), Arc::clone(&self.redactor));
        let found = super::blocking(move || {
            let _room = room;
            let answered = rendered.into_iter().zip(answers);
            let found = answered.map(|(job, answer)| {
                let known = answer.ok().map(|whole| {
                    let mut known = of_whole(&whole, &redactor);
                    known.extend(of_files(&job.closure, tree.as_ref(), &redactor));
                    known.into()
                });
                (job.entrypoint, known)
            });
            Ok(found.collect::<Held>())
        });
        held.extend(found.await?);
        Ok(held)
    }
}
