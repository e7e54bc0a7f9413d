//! Files over https: from hosts that an operator allowed, redirects included, within bounds, and given up
//! when nothing comes. What is fetched, and what it has to be, is for whoever asks.

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
/// Silence of the server after which it is given up.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Time limit of a whole download.
const DOWNLOAD_TIME_MAX: Duration = Duration::from_secs(600);

/// The network, as far as it is allowed. Downloads run on a runtime and are waited for on threads that may
/// block.
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
    /// The kind of file, in a word for whoever waits.
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

/// The reason why a file could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// The remote is not one that may be asked.
    #[error(transparent)]
    Refused(#[from] RemoteRefused),
    /// The remote could not be reached, or did not answer as it should.
    #[error("{0}")]
    Remote(String),
    /// The download was stopped by its caller.
    #[error("the download was stopped")]
    Stopped,
}

impl Downloader {
    /// The network for these hosts. The client must follow no redirects, which are looked at here one
    /// by one, and leave what is sent as it is.
    pub fn new(hosts: AllowedHosts, client: reqwest::Client, runtime: tokio::runtime::Handle) -> Self {
        Self {
            hosts,
            client,
            runtime,
        }
    }

    /// The hosts that may be asked.
    pub fn hosts(&self) -> &AllowedHosts {
        &self.hosts
    }

    /// Adds a server on this machine in the place of a host, at a plain http address of loopback: how downloads are
    /// tried out without a network.
    pub fn with_host_override(mut self, host: &str, address: &str) -> Result<Self, NotLoopback> {
        self.hosts.add_override(host, address)?;
        Ok(self)
    }

    /// Downloads a file. Blocks, and must not be called on a thread of the runtime.
    pub fn get(
        &self,
        wanted: &DownloadRequest,
        watch: &DownloadObserver,
    ) -> Result<DownloadOutcome, DownloadError> {
        let whole = async {
            tokio::select! {
                biased;
                () = watch.stopped() => Err(DownloadError::Stopped),
                answer = tokio::time::timeout(DOWNLOAD_TIME_MAX, self.follow(wanted, watch)) => {
                    answer.unwrap_or_else(|_| Err(remote("the download took too long")))
                }
            }
        };
        self.runtime.block_on(whole)
    }

    async fn follow(
        &self,
        wanted: &DownloadRequest,
        watch: &DownloadObserver,
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
                url = next.ok_or_else(|| remote("the remote redirects to nowhere"))?;
                what = "redirect";
                continue;
            }
            return match status.as_u16() {
                200 => body(response, wanted, watch).await.map(DownloadOutcome::Found),
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
    watch: &DownloadObserver,
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
        watch.bytes(what, content.len(), of);
    }
    Ok(content)
}

/// Waits for a server, but not for one that says nothing. Errors of the client may quote addresses.
async fn with_silence_limit<T>(wait: impl Future<Output = reqwest::Result<T>>) -> Result<T, DownloadError> {
    match tokio::time::timeout(SILENCE_MAX, wait).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(err)) if err.is_connect() => Err(remote("the remote could not be reached")),
        Ok(Err(_)) => Err(remote("the download broke off")),
        Err(_) => Err(remote("the remote said nothing for too long")),
    }
}

fn remote(why: &str) -> DownloadError {
    DownloadError::Remote(why.to_owned())
}
