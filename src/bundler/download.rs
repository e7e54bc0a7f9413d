//! One file over https: from allowed hosts only, redirects included, within a bound, and given up
//! when nothing comes.

use super::fetch::{FetchError, Watch};
use super::network::Hosts;
use super::uri::RemoteRefused;
use std::time::Duration;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// Silence of the server after which it is given up.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The whole download.
const DOWNLOAD_TIME_MAX: Duration = Duration::from_secs(600);

/// What came of a request.
pub(super) enum Answer {
    /// The file.
    Found(Vec<u8>),
    /// There is none.
    Missing,
}

/// Downloads `url`, which `hosts` has to allow, and wherever it is redirected to.
pub(super) async fn get(
    client: &reqwest::Client,
    hosts: &Hosts,
    url: reqwest::Url,
    bytes_max: u64,
    watch: &Watch,
) -> Result<Answer, FetchError> {
    let whole = tokio::time::timeout(DOWNLOAD_TIME_MAX, follow(client, hosts, url, bytes_max, watch));
    whole
        .await
        .unwrap_or_else(|_| Err(remote("the download took too long")))
}

async fn follow(
    client: &reqwest::Client,
    hosts: &Hosts,
    mut url: reqwest::Url,
    bytes_max: u64,
    watch: &Watch,
) -> Result<Answer, FetchError> {
    for _ in 0..=REDIRECTS_MAX {
        hosts.check_url(&url)?;
        let response = patient(client.get(url.clone()).send()).await?;
        let status = response.status();
        if status.is_redirection() {
            let location = response.headers().get(reqwest::header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            url = next.ok_or_else(|| remote("the remote redirects to nowhere"))?;
            continue;
        }
        return match status.as_u16() {
            200 => body(response, bytes_max, watch).await.map(Answer::Found),
            404 | 410 => Ok(Answer::Missing),
            code => Err(remote(&format!("the remote answered with status {code}"))),
        };
    }
    Err(RemoteRefused(format!("more than {REDIRECTS_MAX} redirects")).into())
}

async fn body(mut response: reqwest::Response, bytes_max: u64, watch: &Watch) -> Result<Vec<u8>, FetchError> {
    let too_large = || remote(&format!("the archive has more than {bytes_max} bytes"));
    let of = response.content_length();
    if of.is_some_and(|of| of > bytes_max) {
        return Err(too_large());
    }
    let of = of.and_then(|of| usize::try_from(of).ok());
    let mut content = Vec::new();
    while let Some(chunk) = patient(response.chunk()).await? {
        if watch.is_stopped() {
            return Err(FetchError::Stopped);
        }
        content.extend_from_slice(&chunk);
        if content.len() as u64 > bytes_max {
            return Err(too_large());
        }
        watch.bytes("archive", content.len(), of);
    }
    Ok(content)
}

/// Waits, but not for a server that says nothing. Errors of the client may quote addresses.
async fn patient<T>(wait: impl Future<Output = reqwest::Result<T>>) -> Result<T, FetchError> {
    match tokio::time::timeout(SILENCE_MAX, wait).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(err)) if err.is_connect() => Err(remote("the remote could not be reached")),
        Ok(Err(_)) => Err(remote("the download broke off")),
        Err(_) => Err(remote("the remote said nothing for too long")),
    }
}

fn remote(why: &str) -> FetchError {
    FetchError::Remote(why.to_owned())
}
