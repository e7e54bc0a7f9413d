//! Packages over the network: archives from GitHub, everything else as git. Only hosts that an
//! operator allowed are asked, over https, and what was had once is not asked for again.

use super::archive::{self, ArchiveLimits};
use super::dependency::{Git, Scheme};
use super::fetch::{Fetch, FetchError, Form};
use super::git::{self, Which};
use super::layer::{Layer, PackageId};
use super::shelf::Shelf;
use crate::download::{Answer, Downloads, Hosts, NotHere, RemoteRefused, Wanted, Watch};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of layers that are kept in memory.
const KEPT_BYTES_MAX: u64 = 256 << 20;
/// The host that has archives.
const GITHUB: &str = "github.com";
/// The key that allows hosts.
const KEY: &str = "[bundler] hosts_allowed";
/// The host that GitHub sends requests for an archive to.
const GITHUB_ARCHIVES: &str = "codeload.github.com";

/// The network, as far as it is allowed.
pub struct Network {
    downloads: Downloads,
    scratch: PathBuf,
    limits: ArchiveLimits,
    kept: Mutex<Kept>,
    shelf: Option<Shelf>,
}

#[derive(Default)]
struct Kept {
    layers: BTreeMap<(PackageId, Form), Arc<Layer>>,
    // The oldest first.
    order: Vec<(PackageId, Form)>,
    bytes: u64,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("hosts", self.downloads.hosts())
            .finish_non_exhaustive()
    }
}

impl Network {
    /// The network for these hosts. Downloads run on `runtime`, and are asked for from threads that may
    /// block. `scratch` is made when it is needed, and nothing stays in it. The client must follow no
    /// redirects: each is looked at here.
    pub fn new(
        hosts_allowed: &[String],
        client: reqwest::Client,
        runtime: tokio::runtime::Handle,
        scratch: PathBuf,
    ) -> Self {
        let hosts = Hosts::new(hosts_allowed, KEY).with(GITHUB_ARCHIVES, GITHUB);
        Self {
            downloads: Downloads::new(hosts, client, runtime),
            scratch,
            limits: ArchiveLimits::default(),
            kept: Mutex::default(),
            shelf: None,
        }
    }

    /// Sets the directory where packages stay, at most so many bytes of them. It is made when it
    /// is needed, and several processes may share it.
    #[must_use]
    pub fn with_shelf(mut self, directory: PathBuf, bytes_max: u64) -> Self {
        self.shelf = (bytes_max > 0).then(|| Shelf::new(directory, bytes_max));
        self
    }

    /// Sets the bounds of archives.
    #[must_use]
    pub fn with_limits(mut self, limits: ArchiveLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Puts a server on this machine in the place of an allowed host, at a plain http address
    /// of loopback: how it is tried out without a network.
    pub fn with_stand_in(mut self, host: &str, address: &str) -> Result<Self, NotHere> {
        self.downloads = self.downloads.with_stand_in(host, address)?;
        Ok(self)
    }

    /// Refuses a package of a host that nobody allowed, or over anything but https.
    fn check(&self, git: &Git) -> Result<(), FetchError> {
        if git.scheme != Scheme::Https {
            return Err(RemoteRefused("scheme ssh; use the https address".to_owned()).into());
        }
        if self.downloads.hosts().is_empty() {
            return Err(FetchError::Off);
        }
        Ok(self.downloads.hosts().check(&git.host)?)
    }

    fn archive(&self, id: PackageId, git: &Git, watch: &Watch) -> Result<Layer, FetchError> {
        let path = format!("{}/{}/archive/{}.tar.gz", git.user, git.repo, id.commit);
        let wanted = Wanted {
            url: url(&git.host, &path)?,
            what: "archive",
            bytes_max: self.limits.sent_bytes_max,
        };
        match self.downloads.get(&wanted, watch)? {
            Answer::Found(sent) => Ok(archive::read(&sent, id, self.limits)?),
            Answer::Missing => Err(FetchError::NoVersion(git.name())),
        }
    }

    fn as_git(&self, id: PackageId, git: &Git, which: Which, watch: &Watch) -> Result<Layer, FetchError> {
        git::package(self.address(git)?.as_str(), id, which, &self.scratch, watch)
    }

    fn address(&self, git: &Git) -> Result<reqwest::Url, FetchError> {
        let url = url(&git.host, &format!("{}/{}.git", git.user, git.repo))?;
        Ok(self.downloads.hosts().place(&url))
    }

    fn had(&self, id: PackageId, git: &Git, form: Form, watch: &Watch) -> Result<Layer, FetchError> {
        match (git.host.as_str(), form) {
            (GITHUB, Form::Usual) => match self.archive(id.clone(), git, watch) {
                // An archive that is no package is not tried in another way: it says something.
                // Git stands in for it, so that both give the same sum.
                Err(FetchError::NoVersion(_) | FetchError::Remote(_)) if !watch.is_stopped() => {
                    self.as_git(id, git, Which::Exported, watch)
                }
                other => other,
            },
            (GITHUB, Form::Other) | (_, Form::Usual) => self.as_git(id, git, Which::All, watch),
            (_, Form::Other) => Err(FetchError::NoOtherForm),
        }
    }
}

impl Fetch for Network {
    fn resolve(&self, git: &Git, version: &str, watch: &Watch) -> Result<String, FetchError> {
        self.check(git)?;
        if is_commit(version) {
            return Ok(version.to_ascii_lowercase());
        }
        let found = git::resolve(self.address(git)?.as_str(), version, &self.scratch, watch)?;
        found.ok_or_else(|| FetchError::NoVersion(format!("{} {version}", git.name())))
    }

    fn package(&self, git: &Git, commit: &str, form: Form, watch: &Watch) -> Result<Arc<Layer>, FetchError> {
        self.check(git)?;
        let id = PackageId {
            remote: git.remote(),
            commit: commit.to_owned(),
            subdir: git.subdir.clone(),
        };
        let key = (id.clone(), form);
        if let Some(layer) = self.kept().layers.get(&key) {
            return Ok(Arc::clone(layer));
        }
        let layer = match self.shelf.as_ref().and_then(|shelf| shelf.get(&id, form)) {
            Some(layer) => layer,
            None => {
                let layer = self.had(id, git, form, watch)?;
                if let Some(shelf) = &self.shelf {
                    shelf.put(&layer, form);
                }
                layer
            }
        };
        let layer = Arc::new(layer);
        self.kept().keep(key, &layer);
        Ok(layer)
    }
}

impl Network {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn keep(&mut self, key: (PackageId, Form), layer: &Arc<Layer>) {
        if self.layers.insert(key.clone(), Arc::clone(layer)).is_some() {
            return;
        }
        self.order.push(key);
        self.bytes = self.bytes.saturating_add(layer.bytes());
        while self.bytes > KEPT_BYTES_MAX && !self.order.is_empty() {
            let oldest = self.order.remove(0);
            if let Some(layer) = self.layers.remove(&oldest) {
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
    version.len() == 40 && version.bytes().all(|digit| digit.is_ascii_hexdigit())
}
