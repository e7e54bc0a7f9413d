//! A fetch into the copy of a remote. The token is sent only to the configured host.

use super::files::FETCHED;
use super::{Meter, Mirror, OnFetch};
use crate::base::model::Secret;
use crate::state::workspace::RepositoryError;
use crate::state::workspace::repository::revision;
use base64::Engine as _;
use gix::protocol::transport::client::blocking_io::http;
use gix::remote::Direction;
use jiff::Timestamp;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time without data from the remote after which a fetch fails.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Maximum number of branches and tags in one fetch.
const REFERENCES_MAX: usize = 100_000;

/// Refuses an address that contains a secret, uses plain http to another machine, or is not the address of a web
/// server.
pub(super) fn check_url(text: &str) -> Result<gix::Url, RepositoryError> {
    let refused = |why: &str| RepositoryError::Refused(format!("the repository's url {why}"));
    let url = gix::url::parse(text).map_err(|_| refused("is not a url"))?;
    if url.user().is_some() || url.password().is_some() || text.contains('@') {
        return Err(refused(
            "must not hold a user or password; configure a token instead",
        ));
    }
    let loopback = matches!(url.host(), Some("127.0.0.1" | "localhost" | "[::1]" | "::1"));
    match url.scheme {
        gix::url::Scheme::Https => Ok(url),
        gix::url::Scheme::Http if loopback => Ok(url),
        _ => Err(refused("must start with `https://`")),
    }
}

pub(super) enum FetchResult {
    /// The fetch is complete.
    Complete,
    /// The remote uses this other hash format, so nothing was fetched.
    OtherFormat(gix::hash::Kind),
}

impl FetchResult {
    /// Returns an error if nothing was fetched.
    pub(super) fn require_complete(self, mirror: &Mirror) -> Result<(), RepositoryError> {
        match self {
            Self::Complete => Ok(()),
            Self::OtherFormat(_) => Err(other_format_error(mirror)),
        }
    }
}

/// Returns the error for a fetch into a copy of the other hash format.
pub(super) fn other_format_error(mirror: &Mirror) -> RepositoryError {
    could_not(
        mirror,
        "its object format is another one now; configure it under a new name",
    )
}

/// Fetches new objects, removes references that the remote no longer has, and records `at` as the time of the
/// fetch.
pub(super) fn fetch(
    repository: &gix::Repository,
    mirror: &Mirror,
    at: Timestamp,
    progress: &OnFetch,
    stop: &AtomicBool,
) -> Result<FetchResult, RepositoryError> {
    let url = check_url(&mirror.url)?;
    // The client would panic without a provider. The program normally installs it at start.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(could_not(mirror, "no TLS provider is installed"));
    }
    let failed = |err: gix::Error| failure(mirror, &err, stop);
    let specs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
    let remote = repository
        .remote_at_without_url_rewrite(url)
        .and_then(|remote| remote.with_refspecs(specs, Direction::Fetch))
        .map_err(failed)?
        .with_fetch_tags(gix::remote::fetch::Tags::None);
    let mut connection = remote.connect(Direction::Fetch).map_err(failed)?;
    connection.set_transport_options(Box::new(transport(mirror.token.as_ref())));
    // Never ask a person or a helper program for a token.
    connection.set_credentials(|_| Ok(None));
    let prepared = connection
        .prepare_fetch(
            Meter::new(progress.clone()),
            gix::remote::ref_map::Options::default(),
        )
        .map_err(failed)?;
    let format = prepared.ref_map().object_hash;
    if format != repository.object_hash() {
        return Ok(FetchResult::OtherFormat(format));
    }
    let outcome = prepared
        .with_write_packed_refs_only(true)
        .receive(Meter::new(progress.clone()), stop)
        .map_err(failed)?;
    let there: HashSet<String> = outcome
        .ref_map
        .mappings
        .iter()
        .take(REFERENCES_MAX)
        .filter_map(|mapping| mapping.local.as_ref().map(ToString::to_string))
        .collect();
    forget_others(repository, &there).map_err(failed)?;
    #[allow(clippy::disallowed_methods, reason = "it is noted in the mirror itself")]
    let noted = std::fs::write(repository.git_dir().join(FETCHED), at.to_string());
    noted.map_err(|err| could_not(mirror, &format!("it could not be stored: {}", err.kind())))?;
    Ok(FetchResult::Complete)
}

/// Returns the commit of the branch at the remote, and fetches nothing. `repository` is empty.
pub(super) fn branch_commit(
    repository: &gix::Repository,
    mirror: &Mirror,
    stop: &AtomicBool,
) -> Result<String, RepositoryError> {
    let url = check_url(&mirror.url)?;
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(could_not(mirror, "no TLS provider is installed"));
    }
    let failed = |err: gix::Error| failure(mirror, &err, stop);
    let wanted = format!("refs/heads/{}", mirror.branch);
    let spec = format!("+{wanted}:{wanted}");
    let remote = repository
        .remote_at_without_url_rewrite(url)
        .and_then(|remote| remote.with_refspecs([spec.as_str()], Direction::Fetch))
        .map_err(failed)?
        .with_fetch_tags(gix::remote::fetch::Tags::None);
    let mut connection = remote.connect(Direction::Fetch).map_err(failed)?;
    connection.set_transport_options(Box::new(transport(mirror.token.as_ref())));
    connection.set_credentials(|_| Ok(None));
    let (listed, _) = connection
        .ref_map(gix::progress::Discard, gix::remote::ref_map::Options::default())
        .map_err(failed)?;
    let branch = listed.remote_refs.iter().find_map(|reference| {
        let (name, target, _) = reference.unpack();
        (name == wanted.as_str()).then(|| target.map(|id| id.to_hex().to_string()))?
    });
    branch.ok_or_else(|| could_not(mirror, &format!("it has no branch `{}`", mirror.branch)))
}

fn could_not(mirror: &Mirror, why: &str) -> RepositoryError {
    RepositoryError::Fetch {
        repository: mirror.name.clone(),
        why: why.to_owned(),
    }
}

/// Removes branches and tags that the remote no longer has. A remote without any is more likely broken than empty,
/// so then nothing is removed.
fn forget_others(repository: &gix::Repository, there: &HashSet<String>) -> gix::Result<()> {
    if there.is_empty() {
        return Ok(());
    }
    let references = repository.references()?;
    let gone: Vec<_> = references
        .all()?
        .filter_map(Result::ok)
        .filter(|reference| {
            let name = reference.name().as_bstr().to_string();
            revision::is_branch_or_tag(&name) && !there.contains(&name)
        })
        .collect();
    gone.iter().try_for_each(gix::Reference::delete)
}

/// Builds the HTTP options with the token. It is sent with every request, and every request goes to the configured
/// host.
pub(crate) fn transport(token: Option<&Secret>) -> http::Options {
    let options = http::reqwest::Options {
        configure_client: Some(Box::new(|client| Ok(client.timeout(SILENCE_MAX)))),
        configure_request: None,
    };
    http::Options {
        extra_headers: token.map(authorization).into_iter().collect(),
        follow_redirects: http::options::FollowRedirects::None,
        backend: Some(Arc::new(Mutex::new(options))),
        ..http::Options::default()
    }
}

fn authorization(token: &Secret) -> String {
    let account = format!("x-access-token:{}", token.expose());
    format!(
        "Authorization: Basic {}",
        base64::engine::general_purpose::STANDARD.encode(account)
    )
}

fn failure(mirror: &Mirror, err: &gix::Error, stop: &AtomicBool) -> RepositoryError {
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return could_not(mirror, "it was stopped");
    }
    // Transport errors may quote requests, so their text is examined but never shown.
    let text = format!("{err:?}").to_ascii_lowercase();
    // The address must not influence the result. It may contain any of the words below: port 40401, a repository
    // `not-found`.
    let text = without_address(&text, &mirror.url.to_ascii_lowercase());
    let why = if text.contains("too large to fit in memory") {
        "it has an object that unpacks to more than 256 MiB"
    } else if [
        "401",
        "403",
        "credential",
        "unauthorized",
        "permissiondenied",
        "identity",
    ]
    .iter()
    .any(|sign| text.contains(sign))
    {
        "the remote refused the token"
    } else if text.contains("404") || text.contains("not found") {
        "there is no such repository, or the token may not see it"
    } else if text.contains("redirect") {
        "the remote has moved; configure its new url"
    } else if ["connect", "dns", "timed out", "timeout"]
        .iter()
        .any(|sign| text.contains(sign))
    {
        "the remote could not be reached"
    } else {
        "the remote did not answer as a git server"
    };
    could_not(mirror, why)
}

fn without_address(text: &str, url: &str) -> String {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let path = url.split_once(authority).map_or("", |(_, path)| path);
    let parts = [url, authority, path].into_iter().filter(|part| part.len() > 1);
    parts.fold(text.to_owned(), |text, part| text.replace(part, ""))
}
