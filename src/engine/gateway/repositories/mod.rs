//! The configured repositories. They are opened on first use and kept current.

pub(super) mod age;
mod entry;
mod seen_heads;

use crate::base::config::{Config, RepositorySettings};
use crate::base::model::RepoPath;
use crate::state::workspace::{Base, Repository, RepositoryError};
use entry::{RepositoryEntry, SharedSettings};
use jiff::Timestamp;
use seen_heads::SeenHeads;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time for which a stop waits for fetches to end. Leftovers are removed at the next start.
const END_MAX: Duration = Duration::from_secs(2);

/// A callback for waits: the repository and its progress. It is called at most once a second.
pub type Watcher = Arc<dyn Fn(&str, &str) + Send + Sync>;

type Clock = fn() -> Timestamp;

/// The limits for mirrors: their age, the wait of a turn, and the size of files.
#[derive(Clone, Copy, Debug)]
pub struct MirrorBounds {
    /// Maximum age of a mirror when a turn starts from its head.
    pub age_max: Duration,
    /// Longest time for which a turn waits for a fetch of an existing mirror.
    pub fetch_wait_max: Duration,
    /// Largest file that is read, in bytes.
    pub file_bytes_max: u64,
}

impl From<&Config> for MirrorBounds {
    fn from(config: &Config) -> Self {
        Self {
            age_max: config.limits.mirror_age_max,
            fetch_wait_max: config.limits.fetch_wait_max,
            file_bytes_max: config.sandbox.file_bytes_max,
        }
    }
}

/// All configured repositories.
pub struct Repositories {
    entries: BTreeMap<String, Arc<RepositoryEntry>>,
    shared: SharedSettings,
}

impl Repositories {
    /// Lists the repositories without opening them. `data` is the data directory.
    pub fn new(
        settings: &BTreeMap<String, RepositorySettings>,
        data: PathBuf,
        bounds: MirrorBounds,
        watcher: Watcher,
        now: fn() -> Timestamp,
    ) -> Self {
        let common = SharedSettings {
            data,
            watcher,
            bounds,
            now,
            stop: Arc::default(),
            tasks: TaskTracker::new(),
            heads: Arc::<SeenHeads>::default(),
        };
        let entry = |(name, settings): (&String, &RepositorySettings)| {
            let entry = RepositoryEntry::new(name.clone(), settings.clone(), common.clone());
            (name.clone(), Arc::new(entry))
        };
        Self {
            entries: settings.iter().map(entry).collect(),
            shared: common,
        }
    }

    /// Begins to load the newest commit of each repository. Does not wait for it.
    pub fn begin_to_load(&self) {
        self.entries.values().for_each(RepositoryEntry::begin_to_load);
    }

    /// Returns the configured names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the trusted branch.
    pub fn branch(&self, name: &str) -> &str {
        self.entries
            .get(name)
            .map_or("", |entry| entry.settings.branch.as_str())
    }

    /// Opens a repository. A remote one is mirrored first. Many callers share one opening, which continues without
    /// them.
    pub async fn get(&self, name: &str) -> Result<Arc<Repository>, RepositoryError> {
        self.entry(name)?.opened().await
    }

    /// Returns the newest commit of the branch. A mirror that is too old is fetched first. If the fetch fails or takes
    /// too long, the existing mirror is used, and [`Repositories::stale`] gives the reason.
    pub async fn head(&self, name: &str) -> Result<String, RepositoryError> {
        let entry = self.entry(name)?;
        let repository = entry.current().await?;
        if let Some(head) = repository.cached_head() {
            self.shared.heads.note(name, &head);
            return Ok(head);
        }
        let head = self.read(entry, move |repository| repository.head()).await?;
        let branch = &entry.settings.branch;
        let empty = || {
            RepositoryError::Refused(format!(
                "repository {name} has no commit on branch `{branch}`, or is not there any more"
            ))
        };
        let head = head.ok_or_else(empty)?;
        self.shared.heads.note(name, &head);
        Ok(head)
    }

    /// Returns the newest commit of the branch that anything has seen. Nothing is read for it.
    pub fn seen_head(&self, name: &str) -> Option<String> {
        self.shared.heads.newest(name)
    }

    /// Waits until a commit is seen that was not seen before. One task waits for it.
    pub async fn head_changed(&self) {
        self.shared.heads.changed().await;
    }

    /// Sees the newest commit of the branch, without contact with the remote. Does nothing while the repository is not open.
    pub async fn see_head(&self, name: &str) {
        if let Some(entry) = self.entries.get(name) {
            entry.see_head().await;
        }
    }

    /// Returns why a mirror is not current, if a fetch failed: one line for people, without a full stop.
    pub fn stale(&self, name: &str, at: Timestamp) -> Option<String> {
        self.entries.get(name)?.stale(at)
    }

    /// Starts to open a repository that is not open, or to fetch a mirror that was idle for a while or whose last fetch
    /// failed. Does not wait for it.
    pub fn keep_current(&self, name: &str) {
        if let Some(entry) = self.entries.get(name) {
            entry.keep_current();
        }
    }

    /// Returns the limits for mirrors.
    pub fn bounds(&self) -> MirrorBounds {
        self.shared.bounds
    }

    /// Returns the tree of a commit. It is loaded once and shared.
    pub async fn base(&self, name: &str, commit: &str) -> Result<Arc<Base>, RepositoryError> {
        let repository = self.get(name).await?;
        if let Some(base) = repository.cached_base(commit) {
            return Ok(base);
        }
        let entry = self.entry(name)?;
        let (commit, progress) = (commit.to_owned(), entry.on_load());
        self.read(entry, move |repository| repository.base(&commit, &progress))
            .await
    }

    /// Returns a text file from the current head of the trusted branch.
    pub async fn text_on_branch(&self, name: &str, path: &str) -> Result<String, RepositoryError> {
        let path = RepoPath::parse(path).map_err(|error| RepositoryError::Refused(error.to_string()))?;
        let head = self.head(name).await?;
        let missing = RepositoryError::Refused(format!("there is no file `{path}` on its branch"));
        let read = move |repository: &Repository| repository.file_at(&head, &path);
        let file = self.read(self.entry(name)?, read).await?.ok_or(missing)?;
        String::from_utf8(file.content.to_vec())
            .map_err(|_| RepositoryError::Refused("it is not UTF-8 text".to_owned()))
    }

    /// Reads from a repository. If the mirror is damaged, it is renewed and the read is repeated once.
    async fn read<T: Send + 'static>(
        &self,
        entry: &Arc<RepositoryEntry>,
        read: impl Fn(&Repository) -> Result<T, RepositoryError> + Send + Sync + 'static,
    ) -> Result<T, RepositoryError> {
        let repository = entry.opened().await?;
        let read = Arc::new(read);
        let once = || {
            let (repository, read) = (Arc::clone(&repository), Arc::clone(&read));
            blocking(move || read(&repository))
        };
        match once().await {
            Err(RepositoryError::Unreadable(_)) if entry.settings.url.is_some() => {
                entry.repair(&repository).await;
                once().await
            }
            result => result,
        }
    }

    /// Stops the fetches in progress, for a shutdown.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits briefly for stopped fetches to end.
    pub async fn ended(&self) {
        self.shared.tasks.close();
        let _ = tokio::time::timeout(END_MAX, self.shared.tasks.wait()).await;
    }

    fn entry(&self, name: &str) -> Result<&Arc<RepositoryEntry>, RepositoryError> {
        let unknown = || RepositoryError::Refused(format!("no repository `{name}` is configured"));
        self.entries.get(name).ok_or_else(unknown)
    }
}

/// Returns a progress callback that calls the watcher at most once a second.
fn throttled_progress(watcher: &Watcher, name: &str) -> impl Fn(&str) + Send + Sync + 'static {
    let (watcher, name) = (Arc::clone(watcher), name.to_owned());
    let last: std::sync::Mutex<Option<Instant>> = std::sync::Mutex::default();
    move |text: &str| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL) {
            *last = Some(Instant::now());
            watcher(&name, text);
        }
    }
}

/// Runs Git reads on a blocking thread, because they use the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepositoryError> + Send + 'static,
) -> Result<T, RepositoryError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(RepositoryError::Unreadable(error.to_string())),
    }
}
