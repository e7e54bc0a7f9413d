//! The newest commits of the trusted branches that were seen.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The newest commit of each repository that anything has seen. One task waits for changes.
#[derive(Debug, Default)]
pub(super) struct SeenHeads {
    // Held only to read or write an entry.
    commits: Mutex<BTreeMap<String, String>>,
    changed: Notify,
}

impl SeenHeads {
    /// Remembers the newest commit of a repository. A new one ends the wait for a change.
    pub(super) fn note(&self, repository: &str, commit: &str) {
        let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        if commits.get(repository).is_some_and(|seen| seen == commit) {
            return;
        }
        commits.insert(repository.to_owned(), commit.to_owned());
        drop(commits);
        self.changed.notify_one();
    }

    /// Returns the newest commit that was seen.
    pub(super) fn newest(&self, repository: &str) -> Option<String> {
        let commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        commits.get(repository).cloned()
    }

    /// Waits until a commit is seen that was not seen before.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::SeenHeads;
    use futures_util::FutureExt;

    #[test]
    fn a_new_commit_ends_the_wait_once_and_a_known_one_does_not() {
        let heads = SeenHeads::default();
        assert_eq!(
            (heads.newest("infra"), heads.changed().now_or_never()),
            (None, None)
        );
        heads.note("infra", "a");
        heads.note("apps", "a");
        assert_eq!(heads.changed().now_or_never(), Some(()));
        heads.note("infra", "a");
        assert_eq!(heads.changed().now_or_never(), None);
        heads.note("infra", "b");
        assert_eq!(heads.changed().now_or_never(), Some(()));
        assert_eq!(heads.newest("infra").as_deref(), Some("b"));
    }
}
