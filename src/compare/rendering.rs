//! Renders both sides of what a change touches: one batch a side, without what is kept from before.

use super::affected::Touched;
use super::asked::Variables;
use super::kept::{Opinion, Rendered};
use super::settled::{Eyes, Settled, Values, settle};
use super::{Asked, CompareError, Comparer, CrossCheckWanted, Progress, blocking, reading};
use crate::jsonnet::SecondOpinionWanted;
use crate::model::RepoPath;
use crate::parallel;
use crate::redact::Known;
use crate::review::Failure;
use crate::tanka::Room;
use crate::tanka::importers::{Closure, ImportGraph};
use crate::workspace::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// An entry point on one side: its objects, or why there are none.
pub(super) type Outcome = Result<Arc<Rendered>, Failure>;

/// The entry points on both sides. One that is not there on a side is not in its map.
#[derive(Debug, Default)]
pub(super) struct Both {
    pub(super) base: BTreeMap<RepoPath, Outcome>,
    pub(super) workspace: BTreeMap<RepoPath, Outcome>,
    /// The objects of the workspace that were rendered just now.
    pub(super) values: BTreeMap<RepoPath, Values>,
    /// The secrets that both sides know.
    pub(super) secrets: Vec<Arc<[Known]>>,
}

/// The entry points of one side.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) outcomes: BTreeMap<RepoPath, Outcome>,
    /// The secrets that each of them knows.
    pub(super) secrets: BTreeMap<RepoPath, Arc<[Known]>>,
    values: BTreeMap<RepoPath, Values>,
}

/// A side that is to be rendered.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) tree: &'a Arc<dyn Tree>,
    pub(super) graph: &'a Arc<ImportGraph>,
    pub(super) variables: &'a Variables,
    /// True if the values are wanted, beside what is kept of them.
    pub(super) wants_values: bool,
}

/// An entry point that is not kept.
pub(super) struct Job {
    pub(super) entrypoint: RepoPath,
    /// The key it is kept by.
    pub(super) key: String,
    pub(super) closure: Arc<Closure>,
    opinion: SecondOpinionWanted,
}

impl Both {
    /// Bytes of all objects, as they are written.
    pub(super) fn bytes(&self) -> usize {
        let outcomes = self.base.values().chain(self.workspace.values());
        outcomes.flatten().map(|rendered| rendered.bytes()).sum()
    }
}

impl Job {
    fn wants_more_than(&self, rendered: &Rendered) -> bool {
        self.opinion == SecondOpinionWanted::Yes && rendered.opinion == Opinion::NotAsked
    }
}

impl Comparer {
    /// Renders what the change touches, both sides at the same time. The workspace has to convince both
    /// engines, unless one is enough; the base is asked about again only where it did not.
    pub(super) async fn render(
        &self,
        asked: &Asked,
        touched: &Touched,
        progress: &watch::Sender<Progress>,
        cancel: &CancellationToken,
    ) -> Result<Both, CompareError> {
        let entrypoints: Vec<RepoPath> = touched.rendered().cloned().collect();
        if entrypoints.is_empty() {
            return Ok(Both::default());
        }
        let base = Side {
            tree: &asked.sides.base,
            graph: &touched.base,
            variables: &asked.variables,
            wants_values: false,
        };
        let workspace = Side {
            tree: &asked.sides.workspace,
            graph: &touched.workspace,
            variables: &asked.variables,
            wants_values: true,
        };
        let relied_on: BTreeSet<RepoPath> = match asked.cross_check {
            CrossCheckWanted::Later | CrossCheckWanted::Never => BTreeSet::new(),
            CrossCheckWanted::Now => entrypoints.iter().cloned().collect(),
        };
        let total = 2 * entrypoints.len();
        progress.send_replace(Progress { done: 0, total });
        // What both engines have to evaluate again was counted before.
        let done = |count: usize| {
            progress.send_modify(|progress| progress.done = (progress.done + count).min(total))
        };
        let (workspace, before) = tokio::try_join!(
            self.side(workspace, &entrypoints, relied_on, &done, cancel),
            self.side(base, &entrypoints, BTreeSet::new(), &done, cancel),
        )?;
        let Outcomes {
            outcomes: workspace,
            values,
            secrets,
        } = workspace;
        let secrets = secrets
            .into_values()
            .chain(before.secrets.into_values())
            .collect();
        let against = workspace.iter().filter(|(_, outcome)| {
            let rendered = outcome.as_ref();
            rendered.is_ok_and(|rendered| rendered.opinion.is_against())
        });
        let against: Vec<RepoPath> = against.map(|(entrypoint, _)| entrypoint.clone()).collect();
        let again: BTreeSet<RepoPath> = against.iter().cloned().collect();
        let mut both = Both {
            base: before.outcomes,
            workspace,
            values,
            secrets,
        };
        if !against.is_empty() {
            let again = self.side(base, &against, again, &|_| {}, cancel).await?;
            both.base.extend(again.outcomes);
            both.secrets.extend(again.secrets.into_values());
        }
        Ok(both)
    }

    /// Renders these entry points on one side; those that are not there are left out. `done` is told
    /// of each that nobody waits for any more.
    pub(super) async fn side(
        &self,
        side: Side<'_>,
        entrypoints: &[RepoPath],
        with_opinion: BTreeSet<RepoPath>,
        done: &(dyn Fn(usize) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Outcomes, CompareError> {
        let opinions = with_opinion.len();
        let jobs = jobs(&side, entrypoints, with_opinion).await?;
        let (mut found, mut left, mut unheard) = (Outcomes::default(), Vec::new(), Vec::new());
        for job in jobs {
            match self.kept().get(&job.key) {
                None => left.push(job),
                Some(rendered) => {
                    let secrets = Arc::clone(&rendered.secrets);
                    found.secrets.insert(job.entrypoint.clone(), secrets);
                    match job.wants_more_than(&rendered) {
                        true => unheard.push((job, rendered)),
                        false => drop(found.outcomes.insert(job.entrypoint, Ok(rendered))),
                    }
                }
            }
        }
        let (all, count, heard) = (entrypoints.len(), left.len(), unheard.len());
        tracing::debug!(
            "rendering {count} of {all} entry points, {opinions} with a second opinion, which {heard} need alone"
        );
        done(all.saturating_sub(count + heard));
        let heard = self.hear(side, unheard, done, cancel).await?;
        for (job, rendered, is_covered) in heard.settled {
            if is_covered {
                self.kept().put(job.key, &rendered);
            }
            found.outcomes.insert(job.entrypoint, Ok(rendered));
        }
        left.extend(heard.apart);
        let held = self.held_by_inner(side, &left, cancel).await?;
        // Held while values are read, and never while anything is evaluated.
        let room = Arc::new(Room::default());
        let targets = left
            .iter()
            .map(|job| side.variables.entrypoint(job.entrypoint.as_str(), job.opinion));
        let answers = match left.is_empty() {
            true => Vec::new(),
            false => {
                self.renderer(side.tree)
                    .in_room(&room)
                    .show_all(targets.collect(), &|| done(1), cancel)
                    .await
            }
        };
        if cancel.is_cancelled() {
            return Err(CompareError::Cancelled);
        }
        let (redactor, spool, tree, graph) = (
            Arc::clone(&self.redactor),
            self.spool.clone(),
            Arc::clone(side.tree),
            Arc::clone(side.graph),
        );
        let answered: Vec<_> = left.into_iter().zip(answers).collect();
        // What is large is read again when it is its turn.
        let wants_values = side.wants_values && !room.is_large();
        let settled = move |answered| {
            let eyes = Eyes {
                redactor: &redactor,
                spool: &spool,
                tree: tree.as_ref(),
                graph: &graph,
                held: &held,
            };
            let settled = settle(answered, eyes);
            Settled {
                values: match wants_values {
                    true => settled.values,
                    false => Values::new(),
                },
                ..settled
            }
        };
        // Together they are large or not, whatever each of them is.
        let bytes = match room.is_large() {
            true => usize::MAX,
            false => 0,
        };
        let settled = reading(bytes, move || {
            // It goes along: the values are in memory until they are settled, also when nobody waits any more.
            let _room = room;
            Ok(parallel::map(answered, settled))
        });
        for settled in settled.await? {
            if let (Ok(rendered), Some(key)) = (&settled.outcome, settled.key) {
                self.kept().put(key, rendered);
            }
            found.secrets.insert(settled.entrypoint.clone(), settled.secrets);
            found.values.insert(settled.entrypoint.clone(), settled.values);
            found.outcomes.insert(settled.entrypoint, settled.outcome);
        }
        Ok(found)
    }
}

/// The entry points that are there on this side, each with the hash of what it is made from.
pub(super) async fn jobs(
    side: &Side<'_>,
    entrypoints: &[RepoPath],
    with_opinion: BTreeSet<RepoPath>,
) -> Result<Vec<Job>, CompareError> {
    let given = match side.variables == &Variables::default() {
        true => String::new(),
        false => format!("{:?}", side.variables),
    };
    let (graph, entrypoints) = (Arc::clone(side.graph), entrypoints.to_vec());
    blocking(move || {
        let there = entrypoints.into_iter().filter_map(|entrypoint| {
            let closure = Arc::clone(graph.closures().get(&entrypoint)?);
            Some((entrypoint, closure))
        });
        let jobs = there.map(|(entrypoint, closure)| Job {
            opinion: match with_opinion.contains(&entrypoint) {
                true => SecondOpinionWanted::Yes,
                false => SecondOpinionWanted::No,
            },
            key: format!("{} {given}", closure.id()),
            entrypoint,
            closure,
        });
        Ok(jobs.collect())
    })
    .await
}
