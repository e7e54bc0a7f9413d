//! GitHub on loopback: the calls of its REST API for comments on issues and pull requests, with its documented rules. See
//! <https://docs.github.com/en/rest/issues/comments> and
//! <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>.

mod server;
mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use state::{GithubComment, GithubFault, GithubState, IssueState};

use crate::simulation::emulator::watched_state::WatchedState;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The options of the emulator.
#[derive(Clone, Debug)]
pub struct GithubOptions {
    /// The only token that the API accepts.
    pub token: String,
    /// The account of the token, as the author of its comments.
    pub login: String,
    /// The clock.
    pub at: fn() -> Timestamp,
}

/// A running GitHub. Stops when dropped.
pub struct GithubEmulator {
    shared: Arc<SharedGithub>,
    server: JoinHandle<()>,
}

struct SharedGithub {
    options: GithubOptions,
    address: String,
    state: WatchedState<GithubState>,
    stopped: CancellationToken,
}

impl SharedGithub {
    /// Changes the state and notifies the waiting tasks.
    fn change<T>(&self, change: impl FnOnce(&mut GithubState) -> T) -> T {
        self.state.change(change)
    }
}

impl GithubEmulator {
    /// Starts on a free loopback port.
    pub async fn start(options: GithubOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let shared = Arc::new(SharedGithub {
            options,
            address: listener.local_addr()?.to_string(),
            state: WatchedState::default(),
            stopped: CancellationToken::new(),
        });
        let server = tokio::spawn(server::accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, server })
    }

    /// Returns the value for `github_url`.
    pub fn api_base_url(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    /// Adds an issue or a pull request, such as `acme/web` and 7, or changes its state.
    pub fn set_issue(&self, repository: &str, number: u64, issue: IssueState) {
        let key = (repository.to_owned(), number);
        self.shared.change(|state| state.issues.insert(key, issue));
    }

    /// Adds a comment of somebody else.
    pub fn add_comment(&self, repository: &str, number: u64, author: &str, body: &str) {
        let at = (self.shared.options.at)();
        let issue = (repository, number);
        self.shared.change(|state| state.add(issue, author, body, at));
    }

    /// Makes the next `count` calls of a method fail, such as `POST`.
    pub fn fail_next(&self, method: &str, count: usize, fault: GithubFault) {
        self.shared.change(|state| {
            let faults = state.faults.entry(method.to_owned()).or_default();
            faults.extend(std::iter::repeat_n(fault, count));
        });
    }

    /// Reads the state.
    pub fn with_state<T>(&self, read: impl FnOnce(&GithubState) -> T) -> T {
        self.shared.state.read(read)
    }

    /// Returns the bodies of the comments of an issue, oldest first.
    pub fn comments(&self, repository: &str, number: u64) -> Vec<String> {
        self.with_state(|state| {
            let comments = state.comments.iter();
            let of_issue =
                comments.filter(|comment| comment.repository == repository && comment.number == number);
            of_issue.map(|comment| comment.body.clone()).collect()
        })
    }

    /// Returns the mistakes that a correct client does not make.
    pub fn problems(&self) -> Vec<String> {
        self.with_state(|state| state.problems.clone())
    }

    /// Waits until the state shows something; `None` if it does not in time.
    pub async fn wait_until<T>(
        &self,
        bound: Duration,
        look: impl Fn(&GithubState) -> Option<T>,
    ) -> Option<T> {
        self.shared.state.wait_until(bound, look).await
    }
}

impl Drop for GithubEmulator {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
        self.server.abort();
    }
}
