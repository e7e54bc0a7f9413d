//! Prerendering. When a turn begins, the newest commit of its repository is rendered in the background. The model takes
//! seconds to answer, and the comparison at the end then finds the base ready. Each commit is rendered once, one at a
//! time, until a newer one is known.

use crate::rendering::compare::{Comparer, Sides};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

/// The prerendering of the newest commit of each repository.
#[derive(Debug)]
pub(super) struct Prerenderer {
    /// The newest commit of each repository, by name. The lock is held only briefly and never across an await.
    newest: Mutex<HashMap<String, NewestCommit>>,
    one_at_a_time: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// The newest commit on which a turn began.
#[derive(Debug)]
struct NewestCommit {
    commit: String,
    superseded: CancellationToken,
}

impl Default for Prerenderer {
    fn default() -> Self {
        Self {
            newest: Mutex::default(),
            one_at_a_time: Arc::new(Semaphore::new(1)),
            tasks: TaskTracker::new(),
        }
    }
}

impl Prerenderer {
    /// Begins to render a commit, unless it was begun before. The rendering of an older commit of the repository stops.
    /// `shutdown` ends all of it.
    pub(super) fn begin(
        &self,
        (repository, commit): (&str, &str),
        sides: Sides,
        comparer: &Arc<Comparer>,
        leaving: &CancellationToken,
    ) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.get(repository).is_some_and(|known| known.commit == commit) {
            return;
        }
        let superseded = leaving.child_token();
        let known = NewestCommit {
            commit: commit.to_owned(),
            superseded: superseded.clone(),
        };
        if let Some(older) = newest.insert(repository.to_owned(), known) {
            older.superseded.cancel();
        }
        drop(newest);
        let (one_at_a_time, comparer) = (Arc::clone(&self.one_at_a_time), Arc::clone(comparer));
        let (repository, commit) = (repository.to_owned(), commit.to_owned());
        self.tasks.spawn(async move {
            let rendering = async {
                let _place = one_at_a_time.acquire().await;
                comparer.prerender(sides).await
            };
            let rendered = tokio::select! {
                biased;
                () = superseded.cancelled() => return debug!("{repository} at {commit} is not prerendered further"),
                rendered = rendering => rendered,
            };
            match rendered {
                Ok(result) => debug!(?result, "{repository} at {commit} was prerendered"),
                Err(error) => debug!(%error, "{repository} at {commit} could not be prerendered"),
            }
        });
    }

    pub(super) async fn wait_idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Prerenderer;
    use crate::base::redact::Redactor;
    use crate::rendering::compare::{Comparer, Sides};
    use crate::rendering::jsonnet::{EvalError, EvalRequest, Evaluation};
    use crate::rendering::tanka::Evaluate;
    use crate::rendering::tanka::testing::ReadOnlyTree;
    use async_trait::async_trait;
    use std::sync::Arc;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    /// A fake that reports its requests and never answers.
    struct Endless(mpsc::UnboundedSender<String>);

    /// A guard that reports when its request is dropped.
    struct Dropped<'a>(&'a mpsc::UnboundedSender<String>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.send("dropped".to_owned()).unwrap();
        }
    }

    #[async_trait]
    impl Evaluate for Endless {
        async fn evaluate(
            &self,
            request: EvalRequest,
            _: &CancellationToken,
        ) -> Result<Evaluation, EvalError> {
            let _dropped = Dropped(&self.0);
            let names = request.tree.files().unwrap();
            let name = names
                .iter()
                .find(|name| name.as_str().starts_with("environments"));
            self.0.send(name.unwrap().to_string()).unwrap();
            std::future::pending().await
        }
    }

    fn comparer() -> (Arc<Comparer>, mpsc::UnboundedReceiver<String>) {
        let (asked, seen) = mpsc::unbounded_channel();
        let redactor = Arc::new(Redactor::new([]));
        let comparer = Comparer::new(Arc::new(Endless(asked)), redactor, b"key".to_vec());
        (Arc::new(comparer), seen)
    }

    fn sides(environment: &str) -> Sides {
        let main = format!("environments/{environment}/main.jsonnet");
        let spec = format!("environments/{environment}/spec.json");
        let tree = ReadOnlyTree::new(&[("jsonnetfile.json", "{}"), (&main, "{}"), (&spec, "{}")]);
        Sides::from_changes(tree, Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn a_commit_is_prerendered_once_and_until_there_is_a_newer_one() {
        let (comparer, mut seen) = comparer();
        let (prerenderer, leaving) = (Prerenderer::default(), CancellationToken::new());
        let begin = |commit, environment| {
            prerenderer.begin(("infra", commit), sides(environment), &comparer, &leaving)
        };
        begin("a", "one");
        begin("a", "again");
        assert_eq!(seen.recv().await.unwrap(), "environments/one/main.jsonnet");
        begin("b", "two");
        assert_eq!(seen.recv().await.unwrap(), "dropped");
        assert_eq!(seen.recv().await.unwrap(), "environments/two/main.jsonnet");
        assert_eq!(prerenderer.tasks.len(), 1);
        leaving.cancel();
        prerenderer.wait_idle().await;
    }

    #[tokio::test]
    async fn prerendering_ends_at_shutdown_and_runs_one_repository_at_a_time() {
        let (comparer, mut seen) = comparer();
        let (prerenderer, leaving) = (Prerenderer::default(), CancellationToken::new());
        prerenderer.begin(("one", "a"), sides("one"), &comparer, &leaving);
        prerenderer.begin(("two", "a"), sides("two"), &comparer, &leaving);
        assert_eq!(seen.recv().await.unwrap(), "environments/one/main.jsonnet");
        leaving.cancel();
        prerenderer.wait_idle().await;
        assert_eq!(seen.recv().await.unwrap(), "dropped");
        assert!(seen.try_recv().is_err());
        // Nothing begins afterwards.
        prerenderer.begin(("one", "b"), sides("three"), &comparer, &leaving);
        prerenderer.wait_idle().await;
        assert!(seen.try_recv().is_err());
    }
}
