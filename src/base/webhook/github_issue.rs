//! The issue or pull request that an event of GitHub is about: the only place in which its runs may comment.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The maximum number of characters of the name of an owner or a repository. GitHub allows 39 and 100.
const NAME_CHARS_MAX: usize = 100;
/// The places of the number in a payload. An event about a comment on a pull request has one of them.
const NUMBERS: [&str; 2] = ["/pull_request/number", "/issue/number"];

/// An issue or a pull request, which share their numbers in a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GithubIssue {
    /// The owner and the name: `acme/web`.
    pub repository: String,
    /// The number; at least 1.
    pub number: u64,
}

impl GithubIssue {
    /// Returns the issue of a verified event, if it is about one. Nothing else of the payload decides on it.
    pub fn of_event(payload: &Value) -> Option<Self> {
        let repository = payload.pointer("/repository/full_name")?.as_str()?;
        let number = NUMBERS
            .iter()
            .find_map(|place| payload.pointer(place)?.as_u64())?;
        (is_full_name(repository) && number > 0).then(|| Self {
            repository: repository.to_owned(),
            number,
        })
    }

    /// Parses `acme/web#7`.
    pub fn parse(text: &str) -> Option<Self> {
        let (repository, number) = text.split_once('#')?;
        let number = number.parse().ok().filter(|number| *number > 0)?;
        is_full_name(repository).then(|| Self {
            repository: repository.to_owned(),
            number,
        })
    }

    /// Returns the text of the comment that a verified event is about, if it is about one.
    pub fn comment_of_event(payload: &Value) -> Option<&str> {
        payload.pointer("/comment/body")?.as_str()
    }
}

impl fmt::Display for GithubIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.repository, self.number)
    }
}

/// Returns true for `owner/name` in the alphabet of GitHub. Nothing else may become a part of an address.
fn is_full_name(text: &str) -> bool {
    let fits = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= NAME_CHARS_MAX
            && name.chars().all(fits)
            && !matches!(name, "." | "..")
    };
    text.split_once('/')
        .is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

#[cfg(test)]
mod tests {
    use super::GithubIssue;
    use serde_json::json;

    #[test]
    fn the_issue_is_that_of_the_event_and_nothing_else() {
        let of = |repository: &str, rest: serde_json::Value| {
            let mut payload = rest;
            payload["repository"] = json!({ "full_name": repository });
            GithubIssue::of_event(&payload).map(|issue| issue.to_string())
        };
        let shown = Some("acme/web.app#7".to_owned());
        assert_eq!(
            of("acme/web.app", json!({ "pull_request": { "number": 7 } })),
            shown
        );
        assert_eq!(of("acme/web.app", json!({ "issue": { "number": 7 } })), shown);
        assert_eq!(of("acme/web", json!({ "number": 7 })), None);
        for number in [json!(0), json!(-7), json!("7"), json!(7.5), json!(null)] {
            assert_eq!(of("acme/web", json!({ "issue": { "number": number } })), None);
        }
        for name in [
            "",
            "web",
            "/web",
            "acme/",
            "acme/web/x",
            "acme/..",
            "../web",
            "acme/web?x",
            "acme/web#1",
            "acme/w%2fb",
            "acme/wéb",
        ] {
            assert_eq!(of(name, json!({ "issue": { "number": 7 } })), None, "{name}");
        }
    }

    #[test]
    fn an_issue_is_read_as_it_is_written() {
        let issue = GithubIssue {
            repository: "acme/web".to_owned(),
            number: 12,
        };
        assert_eq!(GithubIssue::parse(&issue.to_string()), Some(issue));
        for text in ["acme/web", "acme/web#", "acme/web#0", "web#1", "acme/web#1#2"] {
            assert_eq!(GithubIssue::parse(text), None, "{text}");
        }
    }
}
