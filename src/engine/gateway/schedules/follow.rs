//! The times of pipelines follow their definitions. When the trusted branch of a repository has another commit, the schedules of
//! its pipelines become those of this commit. Nothing is done between commits, unless an attempt failed.

use super::Schedules;
use crate::base::config::ScheduleSettings;
use crate::base::model::{Action, Op, Reply, Sender};
use crate::engine::gateway::runs::{PublishedTimes, UnscheduledReason};
use crate::state::store::StoreError;
use crate::state::workspace::RepositoryError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The wait before another attempt after a failure.
const RETRY_WAIT: Duration = Duration::from_secs(30);
/// The wait before definitions that cannot be used are read again. The reason may pass, such as a sandbox without room.
const UNUSABLE_WAIT: Duration = Duration::from_secs(600);

/// The reason why the definitions of a commit are read again.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the server stops")]
    Stopping,
}

/// The outcome of an attempt to follow a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Followed {
    /// The stored times are those of this commit.
    Commit(String),
    /// The definitions cannot be used, so the times stay as they were.
    Unusable,
}

impl Schedules {
    /// Keeps the times of pipelines those of the trusted branches until `cancel`.
    pub async fn follow_definitions(self: Arc<Self>, cancel: CancellationToken) {
        // The commit of each configured schedule whose definitions are followed.
        let mut commits = BTreeMap::new();
        while !cancel.is_cancelled() {
            let again_after = tokio::select! {
                again_after = self.follow_new_commits(&mut commits, &cancel) => again_after,
                () = cancel.cancelled() => return,
            };
            let retry = async {
                match again_after {
                    None => std::future::pending().await,
                    Some(wait) => tokio::time::sleep(wait).await,
                }
            };
            tokio::select! {
                () = self.parts.repositories.head_changed() => {}
                () = retry => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    /// Follows the commits that were seen and are new. Returns the wait before another attempt, if one of them needs it.
    async fn follow_new_commits(
        &self,
        commits: &mut BTreeMap<String, String>,
        cancel: &CancellationToken,
    ) -> Option<Duration> {
        let mut again_after: Option<Duration> = None;
        let configured = self.parts.config.schedules.iter();
        for (name, settings) in configured.filter(|(_, settings)| settings.starts_pipelines) {
            let seen = self.parts.repositories.seen_head(&settings.definition.repository);
            let Some(seen) = seen.filter(|seen| commits.get(name) != Some(seen)) else {
                continue;
            };
            let wait = match self.follow((name.as_str(), settings), seen, cancel).await {
                Ok(Followed::Commit(commit)) => {
                    commits.insert(name.clone(), commit);
                    continue;
                }
                Ok(Followed::Unusable) => UNUSABLE_WAIT,
                Err(error) => {
                    warn!(schedule = name, %error, "the times of the pipelines of the schedule {name} are read again later");
                    RETRY_WAIT
                }
            };
            again_after = Some(again_after.map_or(wait, |earlier| earlier.min(wait)));
        }
        again_after
    }

    /// Makes the stored times of pipelines those of the newest commit. Definitions that cannot be used leave the times as they
    /// are, and that is said once for each commit, unless their service may not read the repository any more.
    async fn follow(
        &self,
        (name, settings): (&str, &ScheduleSettings),
        seen: String,
        cancel: &CancellationToken,
    ) -> Result<Followed, FollowError> {
        let read = self
            .definitions
            .times(&self.parts, (name, settings), cancel)
            .await;
        let at = (self.parts.now)();
        match read {
            Ok(PublishedTimes {
                commit,
                schedules,
                timed_at,
            }) => {
                let (store, owner) = (&self.parts.store, Sender::of_schedule(name));
                if store.store_pipeline_schedules(owner, schedules, timed_at).await? {
                    info!(schedule = name, commit, "the times of pipelines have changed");
                    self.changed.notify_one();
                }
                Ok(Followed::Commit(commit))
            }
            Err(UnscheduledReason::Repository(error)) => Err(error.into()),
            // What the end of the server interrupts says nothing about the definitions.
            Err(_) if cancel.is_cancelled() => Err(FollowError::Stopping),
            Err(why @ (UnscheduledReason::Definition(_) | UnscheduledReason::Pipeline(_))) => {
                warn!(schedule = name, commit = seen, "{}", why.line());
                if self.may_read((name, settings)) {
                    let op = self.unusable((name, settings), &seen, why.to_string());
                    self.parts.store.enqueue(vec![op], at).await?;
                    self.outgoing.wake();
                }
                Ok(Followed::Unusable)
            }
        }
    }

    /// True if the service of a configured schedule has a grant for its repository.
    fn may_read(&self, (name, settings): (&str, &ScheduleSettings)) -> bool {
        let identity = self.parts.access.admit(&Sender::of_schedule(name));
        identity.is_some_and(|identity| identity.role(&settings.definition.repository).is_some())
    }

    /// Returns the operation that posts why the definitions of a commit cannot be used. A known id is posted once.
    fn unusable(&self, (name, settings): (&str, &ScheduleSettings), commit: &str, why: String) -> Op {
        Op {
            id: format!("schedules-{name}-{commit}/unusable"),
            channel: settings.definition.channel.clone(),
            place: self.place(&settings.definition),
            action: Action::Post {
                reply: Reply::text(why),
                reply_to: None,
                placeholder: false,
            },
            response_url: None,
        }
    }
}
