//! Packages over the network: archives from GitHub, everything else as git. Only hosts that an
//! operator allowed are asked, over https, and what was had once is not asked for again.

use super::archive::{self, ArchiveLimits};
use super::dependency::{Git, Scheme};
use super::download::{self, Answer};
use super::fetch::{Fetch, FetchError, Form, Watch};
use super::git::{self, Which};
use super::layer::{Layer, PackageId};
use super::shelf::Shelf;
use super::uri::RemoteRefused;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of layers that are kept in memory.
const KEPT_BYTES_MAX: u64 = 256 << 20;
/// The host that has archives.
const GITHUB: &str = "github.com";
/// Where it sends who asks for one.
const GITHUB_ARCHIVES: &str = "codeload.github.com";

/// The network, as far as it is allowed.
pub struct Network {
    hosts: Hosts,
    client: reqwest::Client,
    runtime: tokio::runtime::Handle,
    scratch: PathBuf,
    limits: ArchiveLimits,
    kept: Mutex<Kept>,
    shelf: Option<Shelf>,
}

/// Why there is no network for packages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Only this machine can stand in for a host.
    #[error("`{0}` is not an address of this machine")]
    NotHere(String),
}

/// The hosts that may be asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    allowed: Vec<String>,
    // Hosts that a server on this machine stands in for.
    here: BTreeMap<String, reqwest::Url>,
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
            .field("hosts", &self.hosts)
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
        Self {
            hosts: Hosts {
                allowed: hosts_allowed
                    .iter()
                    .map(|host| host.to_ascii_lowercase())
                    .collect(),
                here: BTreeMap::new(),
            },
            client,
            runtime,
            scratch,
            limits: ArchiveLimits::default(),
            kept: Mutex::default(),
            shelf: None,
        }
    }

    /// The same with a directory where packages stay, at most so many bytes of them. It is made when it
    /// is needed, and several processes may share it.
    #[must_use]
    pub fn with_shelf(mut self, directory: PathBuf, bytes_max: u64) -> Self {
        self.shelf = (bytes_max > 0).then(|| Shelf::new(directory, bytes_max));
        self
    }

    /// The same with other bounds of archives.
    #[must_use]
    pub fn with_limits(mut self, limits: ArchiveLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with a server on this machine in the place of an allowed host, at a plain http address
    /// of loopback: how it is tried out without a network.
    pub fn with_stand_in(mut self, host: &str, address: &str) -> Result<Self, NetworkError> {
        let not_here = || NetworkError::NotHere(address.to_owned());
        let url = reqwest::Url::parse(address).map_err(|_| not_here())?;
        if url.scheme() != "http" || url.host_str() != Some("127.0.0.1") {
            return Err(not_here());
        }
        self.hosts.here.insert(host.to_owned(), url);
        Ok(self)
    }

    fn archive(&self, id: PackageId, git: &Git, watch: &Watch) -> Result<Layer, FetchError> {
        let path = format!("{}/{}/archive/{}.tar.gz", git.user, git.repo, id.commit);
        let url = self.hosts.url(&git.host, &path)?;
        let bytes_max = self.limits.sent_bytes_max;
        let get = download::get(&self.client, &self.hosts, url, bytes_max, watch);
        match self.runtime.block_on(get)? {
            Answer::Found(sent) => Ok(archive::read(&sent, id, self.limits)?),
            Answer::Missing => Err(FetchError::NoVersion(git.name())),
        }
    }

    fn as_git(&self, id: PackageId, git: &Git, which: Which, watch: &Watch) -> Result<Layer, FetchError> {
        git::package(self.address(git)?.as_str(), id, which, &self.scratch, watch)
    }

    fn address(&self, git: &Git) -> Result<reqwest::Url, FetchError> {
        Ok(self
            .hosts
            .url(&git.host, &format!("{}/{}.git", git.user, git.repo))?)
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
        self.hosts.check(git)?;
        if is_commit(version) {
            return Ok(version.to_ascii_lowercase());
        }
        let found = git::resolve(self.address(git)?.as_str(), version, &self.scratch, watch)?;
        found.ok_or_else(|| FetchError::NoVersion(format!("{} {version}", git.name())))
    }

    fn package(&self, git: &Git, commit: &str, form: Form, watch: &Watch) -> Result<Arc<Layer>, FetchError> {
        self.hosts.check(git)?;
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

impl Hosts {
    /// Refuses a package of a host that nobody allowed, or over anything but https.
    pub(super) fn check(&self, git: &Git) -> Result<(), FetchError> {
        if git.scheme != Scheme::Https {
            return Err(RemoteRefused("scheme ssh; use the https address".to_owned()).into());
        }
        if self.allowed.is_empty() {
            return Err(FetchError::Off);
        }
        self.check_host(&git.host)
    }

    /// Refuses an address that was come to by a redirect.
    pub(super) fn check_url(&self, url: &reqwest::Url) -> Result<(), FetchError> {
        if self.here.values().any(|here| here.origin() == url.origin()) {
            return Ok(());
        }
        if url.scheme() != "https" {
            return Err(RemoteRefused(format!("redirect to scheme {}", url.scheme())).into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RemoteRefused("redirect with a user or password".to_owned()).into());
        }
        if url.port().is_some() {
            return Err(RemoteRefused("redirect to a port".to_owned()).into());
        }
        match url.host_str() {
            Some(GITHUB_ARCHIVES) => self.check_host(GITHUB),
            Some(host) => self.check_host(host),
            None => Err(RemoteRefused("redirect to no host".to_owned()).into()),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), FetchError> {
        let host = host.to_ascii_lowercase();
        if self.allowed.contains(&host) {
            return Ok(());
        }
        let why = format!("host {host} is not in `[bundler] hosts_allowed`");
        Err(RemoteRefused(why).into())
    }

    fn url(&self, host: &str, path: &str) -> Result<reqwest::Url, RemoteRefused> {
        let base = match self.here.get(host) {
            Some(here) => here.to_string(),
            None => format!("https://{host}/"),
        };
        let url = reqwest::Url::parse(&format!("{base}{path}"));
        url.map_err(|_| RemoteRefused(format!("host {host} has no address")))
    }
}

fn is_commit(version: &str) -> bool {
    version.len() == 40 && version.bytes().all(|digit| digit.is_ascii_hexdigit())
}
