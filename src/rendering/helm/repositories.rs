//! Chart repositories: indexes and archives over https from allowed hosts. Downloads are checked before use.

use super::archive;
use super::error::DependencyError;
use super::index::{self, Index, Release};
use super::version::ChartVersion;
use crate::state::download::{
    AllowedHosts, DownloadObserver, DownloadOutcome, DownloadRequest, Downloader, NotLoopback,
};
use bytes::Bytes;
use jiff::Timestamp;
use reqwest::Url;
use sha2::{Digest as _, Sha256};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The configuration key that allows hosts.
const KEY: &str = "[helm] hosts_allowed";
const ARCHIVE_BYTES_MAX: u64 = 16 << 20;

/// The repositories from which charts are downloaded.
#[derive(Debug)]
pub struct ChartRepositories {
    downloads: Downloader,
    now: fn() -> Timestamp,
}

impl ChartRepositories {
    /// Creates the repositories of the allowed hosts. Downloads run on `runtime`, and the calling threads must be
    /// allowed to block. The HTTP client must not follow redirects or decode content. `now` is the time for new
    /// lock files.
    pub fn new(
        hosts_allowed: &[String],
        client: reqwest::Client,
        runtime: tokio::runtime::Handle,
        now: fn() -> Timestamp,
    ) -> Self {
        let downloads = Downloader::new(AllowedHosts::new(hosts_allowed, KEY), client, runtime);
        Self { downloads, now }
    }

    /// Replaces an allowed host by a server on this machine, at a plain http address of loopback. Used to test
    /// without a network.
    pub fn with_host_override(mut self, host: &str, address: &str) -> Result<Self, NotLoopback> {
        self.downloads = self.downloads.with_host_override(host, address)?;
        Ok(self)
    }

    /// Returns the time for a new lock file.
    pub(super) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Returns the versions of the requested charts in a repository.
    pub(super) fn index(
        &self,
        repository: &str,
        charts: &BTreeSet<&str>,
        watch: &DownloadObserver,
    ) -> Result<Index, DependencyError> {
        let wanted = DownloadRequest {
            url: self.address(repository, "index.yaml")?,
            what: "index",
            bytes_max: index::BYTES_MAX,
        };
        let DownloadOutcome::Found(sent) = self.downloads.get(&wanted, watch)? else {
            return Err(DependencyError::NoIndex(repository.to_owned()));
        };
        let stopped = || watch.is_stopped();
        Index::read(&sent, charts, &stopped).map_err(|why| DependencyError::Index {
            repository: repository.to_owned(),
            why,
        })
    }

    /// Returns the archive of a chart version, after a check that it contains that version of that chart and no
    /// path that leads out of it.
    pub(super) fn archive(
        &self,
        repository: &str,
        chart: &str,
        release: &Release,
        watch: &DownloadObserver,
    ) -> Result<Bytes, DependencyError> {
        let wanted = DownloadRequest {
            url: self.address(repository, &release.url)?,
            what: "chart",
            bytes_max: ARCHIVE_BYTES_MAX,
        };
        let DownloadOutcome::Found(sent) = self.downloads.get(&wanted, watch)? else {
            return Err(DependencyError::NoArchive);
        };
        check_digest(&sent, &release.digest)?;
        let found = archive::read(&sent)?;
        let version = ChartVersion::parse(&found.version);
        let is_version =
            version.is_some_and(|version| version.precedence(&release.version) == Ordering::Equal);
        match found.name == chart && is_version {
            true => Ok(sent.into()),
            false => Err(DependencyError::OtherChart {
                name: found.name,
                version: found.version,
            }),
        }
    }

    /// Resolves an address against that of the repository and adds the query of the repository. A refused address
    /// is never requested, and never quoted, because it may contain a password.
    fn address(&self, repository: &str, reference: &str) -> Result<Url, DependencyError> {
        if self.downloads.hosts().is_empty() {
            return Err(DependencyError::FetchDisabled);
        }
        let mut base = Url::parse(repository).map_err(|_| DependencyError::Address)?;
        self.downloads.hosts().check_url(&base, "address")?;
        if let Ok(absolute) = Url::parse(reference) {
            return Ok(absolute);
        }
        let directory = format!("{}/", base.path().trim_end_matches('/'));
        base.set_path(&directory);
        let mut url = base.join(reference).map_err(|_| DependencyError::Address)?;
        url.set_query(base.query());
        Ok(url)
    }
}

fn check_digest(sent: &[u8], stated: &str) -> Result<(), DependencyError> {
    let stated = stated.strip_prefix("sha256:").unwrap_or(stated);
    if stated.is_empty() {
        return Ok(());
    }
    let found = hex::encode(Sha256::digest(sent));
    match found.eq_ignore_ascii_case(stated) {
        true => Ok(()),
        false => Err(DependencyError::Digest {
            expected: stated.chars().take(64).collect(),
            found,
        }),
    }
}
