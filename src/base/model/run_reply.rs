//! The replies of runs: the names of their messages, and those that were not delivered.

use super::{RunId, step_of_operation};
use serde::{Deserialize, Serialize};

/// The beginning of the names of the operations that send a reply.
const REPLY: &str = "reply-";

/// The messages of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyMessages {
    /// Their number; `None` if a version that did not count them has sent them.
    #[serde(default)]
    pub count: Option<usize>,
    /// Those that were given up, in their order.
    #[serde(default)]
    pub undelivered: Vec<UndeliveredMessage>,
}

/// A message of a reply that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndeliveredMessage {
    /// Its number, from 1.
    pub number: usize,
    /// The outcome with its reason, such as `not delivered: github answered 404`.
    pub outcome: String,
}

impl ReplyMessages {
    /// Creates a reply of so many messages, all of which may still be delivered.
    pub fn of(count: usize) -> Self {
        Self {
            count: Some(count),
            undelivered: Vec::new(),
        }
    }

    /// Notes the outcome of a message that was given up; `None` for one that was delivered or may still be.
    pub fn note(&mut self, number: usize, outcome: Option<String>) {
        self.undelivered.retain(|message| message.number != number);
        let noted = outcome.map(|outcome| UndeliveredMessage { number, outcome });
        self.undelivered.extend(noted);
        self.undelivered.sort_by_key(|message| message.number);
    }

    /// Returns the outcome of the first message that was given up, with its number unless it is the only one; `None` if
    /// there is none.
    pub fn why(&self) -> Option<String> {
        let UndeliveredMessage { number, outcome } = self.undelivered.first()?;
        Some(match self.count {
            Some(1) => outcome.clone(),
            Some(count) => format!("message {number} of {count} {outcome}"),
            None => format!("message {number} {outcome}"),
        })
    }
}

/// Returns the name of the operation that sends a message of a reply, by its place among them.
pub fn reply_name(index: usize) -> String {
    format!("{REPLY}{}", index + 1)
}

/// Returns the run and the step whose reply an operation sends, and the number of its message from 1; `None` for another
/// operation.
pub fn reply_of_operation(id: &str) -> Option<(RunId, usize, usize)> {
    let (run, step, name) = step_of_operation(id)?;
    let number = name.strip_prefix(REPLY)?.parse().ok()?;
    Some((run, step, number))
}

#[cfg(test)]
mod tests {
    use super::{ReplyMessages, reply_name, reply_of_operation};
    use crate::base::model::RunId;

    #[test]
    fn the_message_of_a_reply_is_read_from_the_name_of_its_operation() {
        for index in [0, 1, 11] {
            let id = format!("run-12-3/{}", reply_name(index));
            assert_eq!(reply_of_operation(&id), Some((RunId(12), 3, index + 1)));
        }
        for other in [
            "run-12-3/missing",
            "run-12-3/reply-",
            "run-12-3/reply-1/missing",
            "run-12/reply-1",
        ] {
            assert_eq!(reply_of_operation(other), None, "{other}");
        }
    }

    #[test]
    fn a_reply_shows_its_first_message_that_was_given_up() {
        let lost = || Some("not delivered: refused".to_owned());
        let mut reply = ReplyMessages::of(12);
        assert_eq!(reply.why(), None);
        for (number, outcome, why) in [
            (10, lost(), Some("message 10 of 12 not delivered: refused")),
            (2, lost(), Some("message 2 of 12 not delivered: refused")),
            (
                2,
                Some("given up: late".to_owned()),
                Some("message 2 of 12 given up: late"),
            ),
            (3, None, Some("message 2 of 12 given up: late")),
            (2, None, Some("message 10 of 12 not delivered: refused")),
            (10, None, None),
        ] {
            reply.note(number, outcome);
            assert_eq!(reply.why().as_deref(), why, "{number}");
        }
        for (count, why) in [
            (Some(1), "not delivered: refused"),
            (None, "message 1 not delivered: refused"),
        ] {
            let mut reply = ReplyMessages {
                count,
                ..ReplyMessages::default()
            };
            reply.note(1, lost());
            assert_eq!(reply.why().as_deref(), Some(why));
        }
    }
}
