//! The configured repositories, opened when they are first needed and kept current.

use crate::config::RepositorySettings;
use crate::model::RepoPath;
use crate::workspace::{Base, FetchProgress, Mirror, OnFetch, Progress, Repository, RepositoryError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

/// How old a mirror may be when a turn starts from its head.
const MIRROR_AGE_MAX: Duration = Duration::from_secs(60);
/// How often progress is passed on.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Told what is being waited for: the repository, and how far it is. At most once a second.
pub type Watcher = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// All configured repositories.
pub struct Repositories {
    entries: BTreeMap<String, Entry>,
    data: PathBuf,
    watcher: Watcher,
    stop: Arc<AtomicBool>,
}

struct Entry {
    settings: RepositorySettings,
    opened: OnceCell<Arc<Repository>>,
    fetched: Mutex<Option<Instant>>,
}

impl Repositories {
    /// Lists the repositories; nothing is opened yet. `data` is the data directory.
    pub fn new(settings: &BTreeMap<String, RepositorySettings>, data: PathBuf, watcher: Watcher) -> Self {
        let entry = |(name, settings): (&String, &RepositorySettings)| {
            let entry = Entry {
                settings: settings.clone(),
                opened: OnceCell::new(),
                fetched: Mutex::new(None),
            };
            (name.clone(), entry)
        };
        Self {
            entries: settings.iter().map(entry).collect(),
            data,
            watcher,
            stop: Arc::default(),
        }
    }

    /// The configured names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The trusted branch.
    pub fn branch(&self, name: &str) -> &str {
        self.entries
            .get(name)
            .map_or("", |entry| entry.settings.branch.as_str())
    }

    /// Opens a repository, mirroring a remote one first. Many callers wait for one opening.
    pub async fn get(&self, name: &str) -> Result<Arc<Repository>, RepositoryError> {
        let entry = self.entry(name)?;
        let open = || self.open(name.to_owned(), entry.settings.clone());
        let repository = entry.opened.get_or_try_init(open).await?;
        Ok(Arc::clone(repository))
    }

    /// The branch's newest commit. A mirror older than a minute is fetched first; when that fails,
    /// what is there still serves.
    pub async fn head(&self, name: &str) -> Result<String, RepositoryError> {
        let repository = self.get(name).await?;
        let entry = self.entry(name)?;
        if entry.settings.url.is_some() {
            let mut fetched = entry.fetched.lock().await;
            if fetched.is_none_or(|at| at.elapsed() > MIRROR_AGE_MAX) {
                self.refresh(name, &repository).await;
                *fetched = Some(Instant::now());
            }
        }
        if let Some(head) = repository.opened_head() {
            return Ok(head);
        }
        let head = blocking(move || repository.head()).await?;
        let branch = &entry.settings.branch;
        let empty = || {
            RepositoryError::Refused(format!(
                "repository {name} has no commit on branch `{branch}`, or is not there any more"
            ))
        };
        head.ok_or_else(empty)
    }

    /// The tree of a commit, loaded once and shared by everyone on it.
    pub async fn base(&self, name: &str, commit: &str) -> Result<Arc<Base>, RepositoryError> {
        let repository = self.get(name).await?;
        if let Some(base) = repository.opened(commit) {
            return Ok(base);
        }
        let (commit, told) = (commit.to_owned(), self.told(name));
        let progress =
            move |progress: Progress| told(&format!("loading {} of {} files", progress.done, progress.of));
        blocking(move || repository.base(&commit, &progress)).await
    }

    /// A text file as it is on the trusted branch now.
    pub async fn text_on_branch(&self, name: &str, path: &str) -> Result<String, RepositoryError> {
        let path = RepoPath::parse(path).map_err(|error| RepositoryError::Refused(error.to_string()))?;
        let head = self.head(name).await?;
        let repository = self.get(name).await?;
        let missing = RepositoryError::Refused(format!("there is no file `{path}` on its branch"));
        let file = blocking(move || repository.file_at(&head, &path))
            .await?
            .ok_or(missing)?;
        String::from_utf8(file.content.to_vec())
            .map_err(|_| RepositoryError::Refused("it is not UTF-8 text".to_owned()))
    }

    async fn refresh(&self, name: &str, repository: &Arc<Repository>) {
        let (repository, progress, stop) = (
            Arc::clone(repository),
            self.on_fetch(name),
            Arc::clone(&self.stop),
        );
        if let Err(error) = blocking(move || repository.refresh(&progress, &stop)).await {
            tracing::warn!(repository = name, %error, "a mirror could not be fetched; its last state is used");
        }
    }

    async fn open(
        &self,
        name: String,
        settings: RepositorySettings,
    ) -> Result<Arc<Repository>, RepositoryError> {
        let (progress, stop) = (self.on_fetch(&name), Arc::clone(&self.stop));
        let bases = self.data.join("bases").join(&name);
        let directory = self.data.join("mirrors").join(format!("{name}.git"));
        blocking(move || match (settings.path, settings.url) {
            (Some(path), _) => Repository::local(&name, &path, Some(&settings.branch), &bases),
            (None, Some(url)) => {
                let RepositorySettings { token, branch, .. } = settings;
                Repository::mirror(
                    Mirror {
                        name,
                        url,
                        token,
                        branch,
                        directory,
                        bases,
                    },
                    &progress,
                    &stop,
                )
            }
            (None, None) => Err(RepositoryError::Refused(format!(
                "repository `{name}` has neither path nor url"
            ))),
        })
        .await
    }

    /// Ends fetches that are under way: for a shutdown.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn on_fetch(&self, name: &str) -> OnFetch {
        let told = self.told(name);
        Arc::new(move |progress: FetchProgress| {
            let unit = if progress.bytes { "bytes" } else { "objects" };
            let of = progress.of.map_or_else(String::new, |of| format!(" of {of}"));
            told(&format!(
                "fetching, {}: {}{of} {unit}",
                progress.what, progress.done
            ));
        })
    }

    /// Passes on what is waited for, at most once a second.
    fn told(&self, name: &str) -> impl Fn(&str) + Send + Sync + 'static {
        let (watcher, name) = (Arc::clone(&self.watcher), name.to_owned());
        let last: std::sync::Mutex<Option<Instant>> = std::sync::Mutex::default();
        move |text: &str| {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_none_or(|last| last.elapsed() >= TOLD_EVERY) {
                *last = Some(Instant::now());
                watcher(&name, text);
            }
        }
    }

    fn entry(&self, name: &str) -> Result<&Entry, RepositoryError> {
        let unknown = || RepositoryError::Refused(format!("no repository `{name}` is configured"));
        self.entries.get(name).ok_or_else(unknown)
    }
}

/// Git is read from disk, so it is read on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepositoryError> + Send + 'static,
) -> Result<T, RepositoryError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(RepositoryError::Unreadable(error.to_string())),
    }
}
