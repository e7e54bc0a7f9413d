//! Downloads of files over https from hosts that an operator allowed, redirects included, within bounds of size and
//! time. The caller chooses the file and checks its content.

mod hosts;
mod bounded_gzip;
mod observer;

pub use bounded_gzip::{BoundedGzip, ExceededBound};
pub use hosts::{AllowedHosts, NotLoopback, RemoteRefused};
pub use observer::DownloadObserver;

use reqwest::Url;
use std::time::Duration;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// The time without data from the server before the download is given up.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Time limit of a whole download.
const DOWNLOAD_TIME_MAX: Duration = Duration::from_secs(600);

/// A downloader that uses allowed hosts only. Downloads run on an async runtime; callers wait for them on threads that
/// may block.
#[derive(Clone, Debug)]
pub struct Downloader {
    hosts: AllowedHosts,
    client: reqwest::Client,
    runtime: tokio::runtime::Handle,
}

/// A file to download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadRequest {
    /// The address of the file.
    pub url: Url,
    /// The kind of file, in one word for progress messages.
    pub what: &'static str,
    /// Bytes of the file, at most.
    pub bytes_max: u64,
}

/// The result of a request.
#[derive(Debug)]
pub enum DownloadOutcome {
    /// The file.
    Found(Vec<u8>),
    /// The file does not exist.
    Missing,
}

/// The reason why a download failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// The address is not allowed.
    #[error(transparent)]
    Refused(#[from] RemoteRefused),
    /// The server could not be reached, or its answer was not valid.
    #[error("{0}")]
    Remote(String),
    /// The caller stopped the download.
    #[error("the download was stopped")]
    Stopped,
}

impl Downloader {
    /// Creates a downloader for these hosts. The client must not follow redirects, since each one is checked here, and
    /// must not decompress content.
    pub fn new(hosts: AllowedHosts, client: reqwest::Client, runtime: tokio::runtime::Handle) -> Self {
        Self {
            hosts,
            client,
            runtime,
        }
    }

    /// Returns the allowed hosts.
    pub fn hosts(&self) -> &AllowedHosts {
        &self.hosts
    }

    /// Replaces a host by a server on this machine, at a plain http address of loopback. This allows tests of downloads
    /// without a network.
    pub fn with_host_override(mut self, host: &str, address: &str) -> Result<Self, NotLoopback> {
        self.hosts.add_override(host, address)?;
        Ok(self)
    }

    /// Downloads a file. Blocks, and must not be called on a thread of the runtime.
    pub fn get(
        &self,
        wanted: &DownloadRequest,
        observer: &DownloadObserver,
    ) -> Result<DownloadOutcome, DownloadError> {
        let whole = async {
            tokio::select! {
                biased;
                () = observer.stopped() => Err(DownloadError::Stopped),
                answer = tokio::time::timeout(DOWNLOAD_TIME_MAX, self.follow(wanted, observer)) => {
                    answer.unwrap_or_else(|_| Err(remote("the download took too long")))
                }
            }
        };
        self.runtime.block_on(whole)
    }

    async fn follow(
        &self,
        wanted: &DownloadRequest,
        observer: &DownloadObserver,
    ) -> Result<DownloadOutcome, DownloadError> {
        let mut url = wanted.url.clone();
        let mut what = "address";
        for _ in 0..=REDIRECTS_MAX {
            self.hosts.check_url(&url, what)?;
            let response = with_silence_limit(self.client.get(self.hosts.effective_url(&url)).send()).await?;
            let status = response.status();
            if status.is_redirection() {
                let location = response.headers().get(reqwest::header::LOCATION);
                let location = location.and_then(|location| location.to_str().ok());
                let next = location.and_then(|location| url.join(location).ok());
                url = next.ok_or_else(|| remote("the remote redirects without a valid address"))?;
                what = "redirect";
                continue;
            }
            return match status.as_u16() {
                200 => body(response, wanted, observer).await.map(DownloadOutcome::Found),
                404 | 410 => Ok(DownloadOutcome::Missing),
                code => Err(remote(&format!("the remote answered with status {code}"))),
            };
        }
        Err(RemoteRefused(format!("more than {REDIRECTS_MAX} redirects")).into())
    }
}

async fn body(
    mut response: reqwest::Response,
    wanted: &DownloadRequest,
    observer: &DownloadObserver,
) -> Result<Vec<u8>, DownloadError> {
    let DownloadRequest { what, bytes_max, .. } = wanted;
    let too_large = || remote(&format!("the {what} has more than {bytes_max} bytes"));
    let of = response.content_length();
    if of.is_some_and(|of| of > *bytes_max) {
        return Err(too_large());
    }
    let of = of.and_then(|of| usize::try_from(of).ok());
    let mut content = Vec::new();
    while let Some(chunk) = with_silence_limit(response.chunk()).await? {
        content.extend_from_slice(&chunk);
        if content.len() as u64 > *bytes_max {
            return Err(too_large());
        }
        observer.bytes(what, content.len(), of);
    }
    Ok(content)
}

/// Waits for the server, up to the limit of silence. Errors of the client may contain addresses, so they are not
/// quoted.
async fn with_silence_limit<T>(wait: impl Future<Output = reqwest::Result<T>>) -> Result<T, DownloadError> {
    match tokio::time::timeout(SILENCE_MAX, wait).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(err)) if err.is_connect() => Err(remote("the remote could not be reached")),
        Ok(Err(_)) => Err(remote("the download was interrupted")),
        Err(_) => Err(remote("the remote sent nothing for too long")),
    }
}

fn remote(why: &str) -> DownloadError {
    DownloadError::Remote(why.to_owned())
}
