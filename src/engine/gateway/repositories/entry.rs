//! One configured repository. It is opened once, and one task at a time keeps it current. That task continues even if
//! all callers stop waiting.

use super::seen_heads::SeenHeads;
use super::{Clock, MirrorBounds, Watcher, age, throttled_progress};
use crate::base::config::RepositorySettings;
use crate::state::workspace::{BaseProgress, FetchProgress, Mirror, OnFetch, Repository, RepositoryError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// Pause after a failed attempt to open a remote repository.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Pause after a mirror was checked for damage or renewed, also if that failed.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(15 * 60);
/// Age factor for an idle mirror: it is fetched when its age is this many times the limit for a turn.
const UNASKED_AGE_FACTOR: u32 = 5;

/// The contact with the remote during an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemoteContact {
    Tried,
    None,
}

type OpenResult = Result<Arc<Repository>, RepositoryError>;

#[derive(Clone)]
pub(super) struct SharedSettings {
    pub(super) data: PathBuf,
    pub(super) watcher: Watcher,
    pub(super) bounds: MirrorBounds,
    pub(super) now: Clock,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) tasks: TaskTracker,
    pub(super) heads: Arc<SeenHeads>,
}

pub(super) struct RepositoryEntry {
    name: String,
    pub(super) settings: RepositorySettings,
    shared: SharedSettings,
    opened: OnceLock<Arc<Repository>>,
    // Held only to read or write the state.
    state: Mutex<EntryState>,
    // Held while a damaged mirror is checked and renewed.
    repair_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct EntryState {
    attempt: Option<Attempt>,
    /// The time at which the last attempt ended.
    tried: Option<Instant>,
    /// The reason why the last attempt failed, if it did.
    failed: Option<RepositoryError>,
    /// The time at which the mirror was last checked or renewed.
    renewed: Option<Instant>,
}

/// An opening or a fetch in progress.
#[derive(Clone)]
struct Attempt {
    begun: Instant,
    ended: Shared<BoxFuture<'static, OpenResult>>,
}

impl RepositoryEntry {
    pub(super) fn new(name: String, settings: RepositorySettings, common: SharedSettings) -> Self {
        Self {
            name,
            settings,
            shared: common,
            opened: OnceLock::new(),
            state: Mutex::default(),
            repair_lock: tokio::sync::Mutex::new(()),
        }
    }

    /// Returns the repository. A remote one is mirrored first. Many callers share one opening, which continues without
    /// them.
    pub(super) async fn opened(self: &Arc<Self>) -> OpenResult {
        if let Some(repository) = self.opened.get() {
            return Ok(Arc::clone(repository));
        }
        match self.attempt(self.shared.bounds.age_max) {
            Some(attempt) => attempt.ended.await,
            None => Err(self.failure()),
        }
    }

    /// Returns the repository, freshly fetched if that ends in time.
    pub(super) async fn current(self: &Arc<Self>) -> OpenResult {
        let repository = self.opened().await?;
        if let Some(attempt) = self.attempt(self.shared.bounds.age_max) {
            // A longer fetch continues, and the next turn uses its result.
            let enough = attempt.begun + self.shared.bounds.fetch_wait_max;
            let _ = tokio::time::timeout_at(enough, attempt.ended).await;
        }
        Ok(repository)
    }

    /// Starts to open a repository that is not open, or to fetch a mirror that was idle for a while or whose last fetch
    /// failed. Does not wait for it.
    pub(super) fn keep_current(self: &Arc<Self>) {
        let age_max = self.shared.bounds.age_max;
        let is_failing = self.state().failed.is_some();
        self.attempt(if is_failing {
            age_max
        } else {
            age_max * UNASKED_AGE_FACTOR
        });
    }

    /// Returns why the mirror is not current, if a fetch failed. The text is for people: `infra could not be fetched
    /// since 14:02 UTC (3 h ago): the remote could not be reached`.
    pub(super) fn stale(&self, at: Timestamp) -> Option<String> {
        let repository = self.opened.get()?;
        let why = {
            let state = self.state();
            let wait_max = self.shared.bounds.fetch_wait_max;
            match (&state.failed, &state.attempt) {
                (Some(RepositoryError::Fetch { why, .. }), _) => why.clone(),
                (Some(other), _) => other.to_string(),
                (None, Some(attempt)) if attempt.begun.elapsed() >= wait_max => {
                    format!(
                        "the remote has not answered for {} s",
                        attempt.begun.elapsed().as_secs()
                    )
                }
                (None, _) => return None,
            }
        };
        let since = repository.last_fetched().map(|fetched| age::since(fetched, at));
        let since = since.map_or_else(String::new, |since| format!(" since {since}"));
        Some(format!("{} could not be fetched{since}: {why}", self.name))
    }

    /// Returns the attempt in progress, or starts one if the repository is not open or its mirror is older than
    /// `age_max`.
    fn attempt(self: &Arc<Self>, age_max: Duration) -> Option<Attempt> {
        let mut state = self.state();
        if state.attempt.is_some() {
            return state.attempt.clone();
        }
        let is_remote = self.settings.url.is_some();
        let rest = match (self.opened.get(), is_remote) {
            (Some(_), false) => return None,
            (None, false) => Duration::ZERO,
            (Some(_), true) => age_max,
            (None, true) => age_max.min(OPEN_AGAIN_AFTER),
        };
        if state.tried.is_some_and(|tried| tried.elapsed() < rest) {
            return None;
        }
        let entry = Arc::clone(self);
        let running = self.shared.tasks.spawn(async move { entry.run().await });
        let entry = Arc::clone(self);
        let ended = async move {
            running.await.unwrap_or_else(|error| {
                let failed = Err(RepositoryError::Unreadable(error.to_string()));
                entry.note(&failed, RemoteContact::Tried);
                failed
            })
        };
        let attempt = Attempt {
            begun: Instant::now(),
            ended: ended.boxed().shared(),
        };
        state.attempt = Some(attempt.clone());
        Some(attempt)
    }

    async fn run(self: Arc<Self>) -> OpenResult {
        let at = (self.shared.now)();
        let Some(repository) = self.opened.get().cloned() else {
            let opened = self.open(at).await;
            // A mirror from an earlier run is fetched when a caller first needs it to be current.
            let is_current = opened
                .as_ref()
                .is_ok_and(|opened| opened.last_fetched() == Some(at));
            if let Ok(opened) = &opened {
                let _ = self.opened.set(Arc::clone(opened));
            }
            let contact = match is_current || opened.is_err() {
                true => RemoteContact::Tried,
                false => RemoteContact::None,
            };
            self.note(&opened, contact);
            return opened;
        };
        let fetched = self.refresh(&repository, at).await;
        if let Err(error) = &fetched {
            tracing::warn!(repository = self.name, %error, "a mirror could not be fetched; its last state is used");
        }
        let ended = fetched.map(|()| Arc::clone(&repository));
        self.note(&ended, RemoteContact::Tried);
        self.see_head().await;
        self.tidy(repository, &ended);
        ended
    }

    /// Sees the newest commit of the branch, without contact with the remote.
    pub(super) async fn see_head(&self) {
        let Some(repository) = self.opened.get().cloned() else {
            return;
        };
        let head = super::blocking(move || match repository.cached_head() {
            Some(head) => Ok(Some(head)),
            None => repository.head(),
        });
        if let Ok(Some(head)) = head.await {
            self.shared.heads.note(&self.name, &head);
        }
    }

    fn note(&self, ended: &OpenResult, contact: RemoteContact) {
        let mut state = self.state();
        state.attempt = None;
        state.failed = ended.as_ref().err().cloned();
        if contact == RemoteContact::Tried {
            state.tried = Some(Instant::now());
        }
    }

    async fn open(&self, at: Timestamp) -> OpenResult {
        let (name, settings) = (self.name.clone(), self.settings.clone());
        let (progress, stop) = (self.on_fetch(), Arc::clone(&self.shared.stop));
        let bases = self.shared.data.join("bases").join(&name);
        let directory = self.shared.data.join("mirrors").join(format!("{name}.git"));
        let file_bytes_max = self.shared.bounds.file_bytes_max;
        let open = move || match (settings.path, settings.url) {
            (Some(path), _) => Repository::open_local(&name, &path, Some(&settings.branch), &bases),
            (None, Some(url)) => {
                let RepositorySettings { token, branch, .. } = settings;
                let mirror = Mirror {
                    name,
                    url,
                    token,
                    branch,
                    directory,
                    bases,
                };
                Repository::mirror(mirror, at, &progress, &stop)
            }
            (None, None) => Err(RepositoryError::Refused(format!(
                "repository `{name}` has neither path nor url"
            ))),
        };
        super::blocking(move || {
            let repository = open()?;
            repository.bound_files(file_bytes_max);
            Ok(repository)
        })
        .await
    }

    async fn refresh(&self, repository: &Arc<Repository>, at: Timestamp) -> Result<(), RepositoryError> {
        let (repository, progress) = (Arc::clone(repository), self.on_fetch());
        let stop = Arc::clone(&self.shared.stop);
        super::blocking(move || repository.refresh(at, &progress, &stop)).await
    }

    /// Renews a mirror in the background if it has too many packs, or if a fetch failed because it is damaged.
    fn tidy(self: &Arc<Self>, repository: Arc<Repository>, fetched: &OpenResult) {
        let has_failed = fetched.is_err();
        let entry = Arc::clone(self);
        self.shared.tasks.spawn(async move {
            let look = if has_failed {
                Repository::is_torn
            } else {
                Repository::needs_renewal
            };
            if !entry.inspect_blocking(&repository, look).await {
                return;
            }
            // Callers that cannot read a damaged mirror wait for this lock.
            let _one = match has_failed {
                true => Some(entry.repair_lock.lock().await),
                false => None,
            };
            if entry.may_renew() {
                if has_failed {
                    tracing::error!(
                        repository = entry.name,
                        "a mirror is damaged; it is fetched again completely"
                    );
                }
                entry.renew(&repository).await;
            }
        });
    }

    /// Renews a mirror that could not be read if it is damaged. Skipped if that was done or tried recently.
    pub(super) async fn repair(&self, repository: &Arc<Repository>) {
        let _one = self.repair_lock.lock().await;
        if self.settings.url.is_none() || !self.may_renew() {
            return;
        }
        let stop = Arc::clone(&self.shared.stop);
        if self
            .inspect_blocking(repository, move |repository| repository.is_damaged(&stop))
            .await
        {
            tracing::error!(
                repository = self.name,
                "a mirror is damaged; it is fetched again completely"
            );
            self.renew(repository).await;
        }
    }

    async fn inspect_blocking(
        &self,
        repository: &Arc<Repository>,
        look: impl FnOnce(&Repository) -> bool + Send + 'static,
    ) -> bool {
        let repository = Arc::clone(repository);
        super::blocking(move || Ok(look(&repository)))
            .await
            .unwrap_or(false)
    }

    /// True if a renewal may be tried now. The attempt is then recorded.
    fn may_renew(&self) -> bool {
        let mut state = self.state();
        let may = state.renewed.is_none_or(|at| at.elapsed() >= RENEW_AGAIN_AFTER);
        if may {
            state.renewed = Some(Instant::now());
        }
        may
    }

    async fn renew(&self, repository: &Arc<Repository>) {
        let (repository, progress) = (Arc::clone(repository), self.on_fetch());
        let (at, stop) = ((self.shared.now)(), Arc::clone(&self.shared.stop));
        match super::blocking(move || repository.renew(at, &progress, &stop)).await {
            Ok(()) => {
                self.state().failed = None;
                tracing::info!(repository = self.name, "a mirror was fetched again completely");
            }
            Err(error) => {
                tracing::warn!(repository = self.name, %error, "a mirror could not be fetched again");
            }
        }
    }

    fn failure(&self) -> RepositoryError {
        let failed = self.state().failed.clone();
        failed.unwrap_or_else(|| RepositoryError::Unreadable("it is not open".to_owned()))
    }

    /// Begins to open the repository and to load the files of its newest commit. Does not wait for it. Whoever needs them shares
    /// both, and gets the error if there is one.
    pub(super) fn begin_to_load(self: &Arc<Self>) {
        let (entry, progress) = (Arc::clone(self), self.on_load());
        self.shared.tasks.spawn(async move {
            let repository = entry.opened().await?;
            let load = move || match repository.head()? {
                Some(head) => repository.base(&head, &progress).map(drop),
                None => Ok(()),
            };
            super::blocking(load).await
        });
    }

    /// Returns the receiver of the progress with which the files of a commit are packed.
    pub(super) fn on_load(&self) -> impl Fn(BaseProgress) + Send + Sync + 'static {
        let report = throttled_progress(&self.shared.watcher, &self.name);
        move |progress: BaseProgress| {
            report(&format!("loading {} of {} files", progress.done, progress.total));
        }
    }

    fn on_fetch(&self) -> OnFetch {
        let report = throttled_progress(&self.shared.watcher, &self.name);
        Arc::new(move |progress: FetchProgress| {
            let unit = if progress.bytes { "bytes" } else { "objects" };
            let of = progress.total.map_or_else(String::new, |of| format!(" of {of}"));
            report(&format!(
                "fetching, {}: {}{of} {unit}",
                progress.what, progress.done
            ));
        })
    }

    fn state(&self) -> MutexGuard<'_, EntryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
