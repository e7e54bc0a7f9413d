//! The issues and comments, and the rules for them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of characters of a comment.
const BODY_CHARS_MAX: usize = 65_536;
/// The number of comments that may be created in a minute.
const CREATED_PER_MINUTE_MAX: usize = 80;
/// The time that a client waits after more of them.
const WAIT_SECONDS: u64 = 60;
/// The number of comments of a page, if the client names none, and the most of them.
const PAGE: (usize, usize) = (30, 100);

/// The state of an issue or a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssueState {
    /// Comments are welcome.
    Open,
    /// Nobody may comment, because the conversation is locked.
    Locked,
    /// It was deleted.
    Deleted,
}

/// A fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GithubFault {
    /// The connection ends before anything happens.
    Reset,
    /// The comment is made, and the connection ends before the answer.
    ResetAfterEffect,
    /// The answer has this status.
    Status(u16),
    /// The secondary rate limit is exceeded, with this number of seconds to wait.
    Limited(u64),
    /// The primary rate limit is used up for this number of seconds.
    UsedUp(u64),
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubComment {
    /// The id.
    pub id: u64,
    /// The owner and the name of the repository.
    pub repository: String,
    /// The number of the issue.
    pub number: u64,
    /// The login of its author.
    pub author: String,
    /// The text.
    pub body: String,
    /// The time at which it was made.
    pub created_at: Timestamp,
}

/// The state of the emulator.
#[derive(Debug, Default)]
pub struct GithubState {
    /// The comments, oldest first.
    pub comments: Vec<GithubComment>,
    /// The method and the path of each call, oldest first.
    pub calls: Vec<String>,
    /// The mistakes of clients.
    pub problems: Vec<String>,
    pub(super) issues: BTreeMap<(String, u64), IssueState>,
    pub(super) faults: BTreeMap<String, VecDeque<GithubFault>>,
}

/// A refusal: the status, the reason, and the seconds to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GithubRefusal {
    pub(super) status: u16,
    pub(super) message: String,
    pub(super) retry_after: Option<u64>,
}

impl GithubRefusal {
    pub(super) fn new(status: u16, message: &str) -> Self {
        Self {
            status,
            message: message.to_owned(),
            retry_after: None,
        }
    }

    /// Returns the refusal of a client that is too fast.
    pub(super) fn limited(seconds: u64) -> Self {
        let message =
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
        Self {
            retry_after: Some(seconds),
            ..Self::new(403, message)
        }
    }
}

impl GithubState {
    pub(super) fn take_fault(&mut self, method: &str) -> Option<GithubFault> {
        self.faults.get_mut(method)?.pop_front()
    }

    /// Adds a comment, and returns it as the API shows it.
    pub(super) fn add(
        &mut self,
        (repository, number): (&str, u64),
        author: &str,
        body: &str,
        at: Timestamp,
    ) -> Value {
        let comment = GithubComment {
            id: 1_000 + self.comments.len() as u64,
            repository: repository.to_owned(),
            number,
            author: author.to_owned(),
            body: body.to_owned(),
            created_at: at,
        };
        let value = shown(&comment);
        self.comments.push(comment);
        value
    }

    /// Creates a comment of a client.
    pub(super) fn create(
        &mut self,
        issue: (&str, u64),
        (author, body): (&str, &Value),
        at: Timestamp,
    ) -> Result<Value, GithubRefusal> {
        self.require(issue)?;
        let invalid = |message: &str| GithubRefusal::new(422, &format!("Validation Failed: {message}"));
        let Some(body) = body.as_str().filter(|body| !body.trim().is_empty()) else {
            self.problems.push("a comment without a body".to_owned());
            return Err(invalid("Body can't be blank"));
        };
        if body.chars().count() > BODY_CHARS_MAX {
            self.problems.push("a comment that is too long".to_owned());
            return Err(invalid("Body is too long (maximum is 65536 characters)"));
        }
        let minute = SignedDuration::from_secs(60);
        let is_recent = |comment: &&GithubComment| {
            comment.author == author && at.duration_since(comment.created_at) < minute
        };
        if self.comments.iter().filter(is_recent).count() >= CREATED_PER_MINUTE_MAX {
            self.problems.push("comments were made too fast".to_owned());
            return Err(GithubRefusal::limited(WAIT_SECONDS));
        }
        Ok(self.add(issue, author, body, at))
    }

    /// Lists comments, and returns also the number of the next page, if there is one.
    pub(super) fn list(
        &self,
        issue: (&str, u64),
        query: &BTreeMap<String, String>,
    ) -> Result<(Value, Option<usize>), GithubRefusal> {
        self.visible(issue)?;
        let since = query.get("since").map(|since| since.parse::<Timestamp>());
        let since = match since {
            Some(Err(_)) => return Err(GithubRefusal::new(422, "Validation Failed: since is no time")),
            Some(Ok(since)) => since,
            None => Timestamp::UNIX_EPOCH,
        };
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
        let size = number("per_page").unwrap_or(PAGE.0).clamp(1, PAGE.1);
        let page = number("page").unwrap_or(1).max(1);
        let comments = self.comments.iter();
        let fits = |comment: &&GithubComment| {
            (comment.repository.as_str(), comment.number) == issue && comment.created_at >= since
        };
        let all: Vec<Value> = comments.filter(fits).map(shown).collect();
        let shown: Vec<Value> = all.iter().skip((page - 1) * size).take(size).cloned().collect();
        let next = (all.len() > page * size).then_some(page + 1);
        Ok((Value::Array(shown), next))
    }

    /// Fails unless an issue can be read.
    fn visible(&self, (repository, number): (&str, u64)) -> Result<IssueState, GithubRefusal> {
        match self.issues.get(&(repository.to_owned(), number)) {
            None => Err(GithubRefusal::new(404, "Not Found")),
            Some(IssueState::Deleted) => Err(GithubRefusal::new(410, "This issue was deleted")),
            Some(issue) => Ok(*issue),
        }
    }

    /// Fails unless an issue takes comments.
    fn require(&self, issue: (&str, u64)) -> Result<(), GithubRefusal> {
        match self.visible(issue)? {
            IssueState::Locked => Err(GithubRefusal::new(
                403,
                "Unable to create comment because issue is locked.",
            )),
            IssueState::Open | IssueState::Deleted => Ok(()),
        }
    }
}

fn shown(comment: &GithubComment) -> Value {
    json!({
        "id": comment.id,
        "user": {"login": comment.author},
        "body": comment.body,
        "created_at": format!("{:.0}", comment.created_at),
        "updated_at": format!("{:.0}", comment.created_at),
    })
}
