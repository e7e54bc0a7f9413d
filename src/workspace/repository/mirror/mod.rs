//! Our own bare copy of a remote repository. It is made by us, configured by us, and only ever
//! fetched into; the token goes to the configured host and nowhere else.

mod meter;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests build their own files and ask the real git"
)]
mod tests;

use super::{Repository, RepositoryError};
use crate::model::Secret;
use base64::Engine as _;
use gix::protocol::transport::client::blocking_io::http;
use gix::remote::Direction;
pub(crate) use meter::Meter;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Silence of the remote after which a fetch is given up.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Branches and tags one fetch takes.
const REFERENCES_MAX: usize = 100_000;

/// How far a fetch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchProgress {
    /// What is being counted: `read pack`, `create index file`.
    pub what: String,
    /// Objects or bytes that are done.
    pub done: usize,
    /// How many there are in all, when that is known.
    pub of: Option<usize>,
    /// Whether bytes are counted rather than objects.
    pub bytes: bool,
}

/// Told about a fetch from any thread, often: it must return at once.
pub type OnFetch = Arc<dyn Fn(FetchProgress) + Send + Sync>;

/// A remote repository and where our copy of it lies.
#[derive(Clone)]
pub struct Mirror {
    /// The configured name, which grants are checked against.
    pub name: String,
    /// `https://host/path`, without user or password. Plain http only to this machine.
    pub url: String,
    /// What the remote asks for; sent as the password of a basic authorization.
    pub token: Option<Secret>,
    /// The branch that is followed.
    pub branch: String,
    /// The bare copy, made by the first fetch.
    pub directory: PathBuf,
    /// Where packed bases are kept.
    pub bases: PathBuf,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror")
            .field("name", &self.name)
            .field("url", &self.url)
            .field("branch", &self.branch)
            .finish_non_exhaustive()
    }
}

impl Repository {
    /// Opens our copy of a remote; without one it makes it by a first fetch. Blocks: call it on a
    /// blocking thread, and set `stop` to end it early.
    pub fn mirror(
        mirror: Mirror,
        progress: &OnFetch,
        stop: &AtomicBool,
    ) -> Result<Arc<Self>, RepositoryError> {
        check_url(&mirror.url)?;
        if !mirror.directory.exists() {
            create(&mirror, progress, stop)?;
        }
        let (name, directory) = (mirror.name.clone(), mirror.directory.clone());
        let (branch, bases) = (mirror.branch.clone(), mirror.bases.clone());
        Ok(Arc::new(Self::open(
            &name,
            &directory,
            Some(&branch),
            &bases,
            Some(mirror),
            super::vet::Trust::Nobody,
        )?))
    }

    /// Fetches what is new, and forgets branches and tags that are gone. A repository on this machine
    /// is always as it is, and nothing is done. Blocks, like [`Repository::mirror`].
    pub fn refresh(&self, progress: &OnFetch, stop: &AtomicBool) -> Result<(), RepositoryError> {
        let Some(mirror) = &self.mirror else {
            return Ok(());
        };
        fetch(&self.objects.to_thread_local(), mirror, progress, stop)
    }
}

/// Refuses what would carry a secret in the open or lead somewhere else than to a web server.
fn check_url(text: &str) -> Result<gix::Url, RepositoryError> {
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

/// The first fetch, into a directory beside the final one, so that there is a whole copy or none.
fn create(mirror: &Mirror, progress: &OnFetch, stop: &AtomicBool) -> Result<(), RepositoryError> {
    let disk = |err: std::io::Error| RepositoryError::Unreadable(format!("no room for the copy: {err}"));
    let unfinished = beside(&mirror.directory);
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished).map_err(disk)?;
    }
    if let Some(parent) = unfinished.parent() {
        std::fs::create_dir_all(parent).map_err(disk)?;
    }
    let repository: gix::Repository = gix::ThreadSafeRepository::init_opts(
        &unfinished,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        gix::open::Options::isolated(),
    )
    .map_err(|err| RepositoryError::Unreadable(err.to_string()))?
    .into();
    let done = fetch(&repository, mirror, progress, stop)
        .and_then(|()| std::fs::rename(&unfinished, &mirror.directory).map_err(disk));
    if done.is_err() {
        // What is left over is removed by the next try as well.
        let _ = std::fs::remove_dir_all(&unfinished);
    }
    done
}

fn beside(directory: &Path) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    directory.with_file_name(name)
}

fn fetch(
    repository: &gix::Repository,
    mirror: &Mirror,
    progress: &OnFetch,
    stop: &AtomicBool,
) -> Result<(), RepositoryError> {
    let url = check_url(&mirror.url)?;
    // The client would panic without one. The shell installs it at start.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(RepositoryError::Fetch("no TLS provider is installed".to_owned()));
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
    // Nobody is asked for a token, least of all a helper program.
    connection.set_credentials(|_| Ok(None));
    let outcome = connection
        .prepare_fetch(
            Meter::new(progress.clone()),
            gix::remote::ref_map::Options::default(),
        )
        .map_err(failed)?
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
    forget_others(repository, &there).map_err(failed)
}

/// Removes branches and tags that the remote no longer has. A remote without any is more likely
/// broken than emptied, and then nothing is forgotten.
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
            super::revision::is_branch_or_tag(&name) && !there.contains(&name)
        })
        .collect();
    gone.iter().try_for_each(gix::Reference::delete)
}

/// The token goes with every request, and every request goes to the configured host.
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
    let name = &mirror.name;
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return RepositoryError::Fetch(format!("fetching `{name}` was stopped"));
    }
    // Errors of the transport may quote requests, so their text is looked at and never shown.
    let text = format!("{err:?}").to_ascii_lowercase();
    let why = if [
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
    RepositoryError::Fetch(format!("`{name}` could not be fetched: {why}"))
}
