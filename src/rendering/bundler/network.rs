//! Packages from the network: archives from GitHub, everything else through git. Only hosts that an operator
//! allowed are contacted, over https. Fetched packages are cached.

use super::archive::{self, ArchiveLimits};
use super::dependency::{Git, Scheme};
use super::fetch::{Fetch, FetchError, FetchMethod};
use super::git::{self, IncludedFiles};
use super::package_cache::PackageCache;
use super::snapshot::{PackageId, PackageSnapshot};
use crate::base::model::is_hex;
use crate::state::download::{
    AllowedHosts, DownloadObserver, DownloadOutcome, DownloadRequest, Downloader, NotLoopback, RemoteRefused,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of the packages that are cached in memory, in bytes.
const CACHE_BYTES_MAX: u64 = 256 << 20;
/// The host that offers archives.
const GITHUB: &str = "github.com";
/// The configuration key that allows hosts.
const KEY: &str = "[bundler] hosts_allowed";
/// The host to which GitHub redirects requests for an archive.
const GITHUB_ARCHIVES: &str = "codeload.github.com";

/// Fetches packages from the allowed hosts.
pub struct NetworkFetcher {
    downloads: Downloader,
    scratch: PathBuf,
    limits: ArchiveLimits,
    memory_cache: Mutex<SnapshotCache>,
    disk_cache: Option<PackageCache>,
}

#[derive(Default)]
struct SnapshotCache {
    snapshots: BTreeMap<(PackageId, FetchMethod), Arc<PackageSnapshot>>,
    // Oldest first.
    order: Vec<(PackageId, FetchMethod)>,
    bytes: u64,
}

impl std::fmt::Debug for NetworkFetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("hosts", self.downloads.hosts())
            .finish_non_exhaustive()
    }
}

impl NetworkFetcher {
    /// Creates a fetcher for these hosts. Downloads run on `runtime`, and the calling threads must be allowed to
    /// block. `scratch` is created on demand, and nothing remains in it. The HTTP client must not follow redirects,
    /// because each one is checked here.
    pub fn new(
        hosts_allowed: &[String],
        client: reqwest::Client,
        runtime: tokio::runtime::Handle,
        scratch: PathBuf,
    ) -> Self {
        let hosts = AllowedHosts::new(hosts_allowed, KEY).allow_along_with(GITHUB_ARCHIVES, GITHUB);
        Self {
            downloads: Downloader::new(hosts, client, runtime),
            scratch,
            limits: ArchiveLimits::default(),
            memory_cache: Mutex::default(),
            disk_cache: None,
        }
    }

    /// Sets the directory of the package cache and its maximum size in bytes. The directory is created on demand,
    /// and several processes may share it.
    #[must_use]
    pub fn with_package_cache(mut self, directory: PathBuf, bytes_max: u64) -> Self {
        self.disk_cache = (bytes_max > 0).then(|| PackageCache::new(directory, bytes_max));
        self
    }

    /// Sets the limits for archives.
    #[must_use]
    pub fn with_limits(mut self, limits: ArchiveLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Replaces an allowed host by a server on this machine, at a plain http address of loopback. Used to test
    /// without a network.
    pub fn with_host_override(mut self, host: &str, address: &str) -> Result<Self, NotLoopback> {
        self.downloads = self.downloads.with_host_override(host, address)?;
        Ok(self)
    }

    /// Refuses a package from a host that is not allowed, or over a protocol other than https.
    fn check(&self, git: &Git) -> Result<(), FetchError> {
        if git.scheme != Scheme::Https {
            return Err(RemoteRefused("scheme ssh; use the https address".to_owned()).into());
        }
        if self.downloads.hosts().is_empty() {
            return Err(FetchError::FetchDisabled);
        }
        Ok(self.downloads.hosts().check(&git.host)?)
    }

    fn fetch_archive(
        &self,
        id: PackageId,
        git: &Git,
        watch: &DownloadObserver,
    ) -> Result<PackageSnapshot, FetchError> {
        let path = format!("{}/{}/archive/{}.tar.gz", git.user, git.repo, id.commit);
        let wanted = DownloadRequest {
            url: url(&git.host, &path)?,
            what: "archive",
            bytes_max: self.limits.sent_bytes_max,
        };
        match self.downloads.get(&wanted, watch)? {
            DownloadOutcome::Found(sent) => Ok(archive::read(&sent, id, self.limits)?),
            DownloadOutcome::Missing => Err(FetchError::NoVersion(git.name())),
        }
    }

    fn fetch_git(
        &self,
        id: PackageId,
        git: &Git,
        which: IncludedFiles,
        watch: &DownloadObserver,
    ) -> Result<PackageSnapshot, FetchError> {
        git::fetch(self.address(git)?.as_str(), id, which, &self.scratch, watch)
    }

    fn address(&self, git: &Git) -> Result<reqwest::Url, FetchError> {
        let url = url(&git.host, &format!("{}/{}.git", git.user, git.repo))?;
        Ok(self.downloads.hosts().effective_url(&url))
    }

    fn fetch_uncached(
        &self,
        id: PackageId,
        git: &Git,
        form: FetchMethod,
        watch: &DownloadObserver,
    ) -> Result<PackageSnapshot, FetchError> {
        match (git.host.as_str(), form) {
            (GITHUB, FetchMethod::Preferred) => match self.fetch_archive(id.clone(), git, watch) {
                // An invalid archive is reported without a second try. If there is no archive, git provides the
                // same set of files, so that the checksum is the same.
                Err(FetchError::NoVersion(_) | FetchError::Remote(_)) if !watch.is_stopped() => {
                    self.fetch_git(id, git, IncludedFiles::Exported, watch)
                }
                other => other,
            },
            (GITHUB, FetchMethod::Alternative) | (_, FetchMethod::Preferred) => {
                self.fetch_git(id, git, IncludedFiles::All, watch)
            }
            (_, FetchMethod::Alternative) => Err(FetchError::NoAlternative),
        }
    }
}

impl Fetch for NetworkFetcher {
    fn resolve(&self, git: &Git, version: &str, watch: &DownloadObserver) -> Result<String, FetchError> {
        self.check(git)?;
        if is_commit(version) {
            return Ok(version.to_ascii_lowercase());
        }
        let found = git::resolve(self.address(git)?.as_str(), version, &self.scratch, watch)?;
        found.ok_or_else(|| FetchError::NoVersion(format!("{} {version}", git.name())))
    }

    fn fetch(
        &self,
        git: &Git,
        commit: &str,
        form: FetchMethod,
        watch: &DownloadObserver,
    ) -> Result<Arc<PackageSnapshot>, FetchError> {
        self.check(git)?;
        let id = PackageId {
            remote: git.remote(),
            commit: commit.to_owned(),
            subdir: git.subdir.clone(),
        };
        let key = (id.clone(), form);
        if let Some(layer) = self.memory_cache().snapshots.get(&key) {
            return Ok(Arc::clone(layer));
        }
        let layer = match self.disk_cache.as_ref().and_then(|cache| cache.get(&id, form)) {
            Some(layer) => layer,
            None => {
                let layer = self.fetch_uncached(id, git, form, watch)?;
                if let Some(cache) = &self.disk_cache {
                    cache.put(&layer, form);
                }
                layer
            }
        };
        let layer = Arc::new(layer);
        self.memory_cache().insert(key, &layer);
        Ok(layer)
    }
}

impl NetworkFetcher {
    fn memory_cache(&self) -> std::sync::MutexGuard<'_, SnapshotCache> {
        self.memory_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SnapshotCache {
    fn insert(&mut self, key: (PackageId, FetchMethod), layer: &Arc<PackageSnapshot>) {
        if self.snapshots.insert(key.clone(), Arc::clone(layer)).is_some() {
            return;
        }
        self.order.push(key);
        self.bytes = self.bytes.saturating_add(layer.bytes());
        while self.bytes > CACHE_BYTES_MAX && !self.order.is_empty() {
            let oldest = self.order.remove(0);
            if let Some(layer) = self.snapshots.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(layer.bytes());
            }
        }
    }
}

fn url(host: &str, path: &str) -> Result<reqwest::Url, RemoteRefused> {
    let url = reqwest::Url::parse(&format!("https://{host}/{path}"));
    url.map_err(|_| RemoteRefused(format!("host {host} has no address")))
}

fn is_commit(version: &str) -> bool {
    version.len() == 40 && is_hex(version)
}
