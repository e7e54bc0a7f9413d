//! What a rendering knows that is secret: what the files it is made from hold, and the `Secret`s of all its
//! environments and of those it is built on. All of it is known before anything of the rendering is written or told,
//! so a secret is hidden whatever the program made of it.

use super::rendering::{Job, Side, jobs};
use super::{CompareError, Comparer};
use crate::jsonnet::SecondOpinionWanted;
use crate::model::RepoPath;
use crate::redact::{Known, Redactor};
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

/// What entry points hold; nothing for one that could not be rendered.
pub(super) type Held = BTreeMap<RepoPath, Option<Arc<[Known]>>>;

/// The other entry points among the files that one is made from.
pub(super) fn inner<'a>(job: &'a Job, graph: &'a ImportGraph) -> impl Iterator<Item = &'a RepoPath> {
    let files = job.closure.dependencies.keys();
    files.filter(|file| **file != job.entrypoint && graph.closures().contains_key(*file))
}

/// What the files hold that an entry point is made from.
pub(super) fn of_files(closure: &Closure, tree: &dyn Tree, redactor: &Redactor) -> Vec<Known> {
    let mut known = Vec::new();
    for (path, dependency) in &closure.dependencies {
        match &dependency.state {
            State::File { blob } => {
                let read = || tree.read(path).ok().map(|version| version.content);
                known.extend_from_slice(&redactor.secrets_at(blob, read));
            }
            State::Directory { digest } if !digest.is_empty() => {
                let files = tree.below(path.as_str()).unwrap_or_default();
                for file in files.iter().take(CHART_FILES_MAX) {
                    if let Ok((version, blob)) = tree.identified(file) {
                        known.extend_from_slice(&redactor.secrets_of(Some(&blob), &version.content));
                    }
                }
            }
            _ => {}
        }
    }
    known
}

/// What the `Secret`s of all environments of an entry point hold.
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
    /// What the entry points hold that others are built on. They are rendered for it.
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
