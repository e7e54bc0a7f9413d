//! Fallback messages for undelivered operations. All texts of a message share one line. A file's content is posted as
//! text if it can be read in a chat.

use crate::base::model::{Action, Op, Reply, ReplyPart};
use crate::engine::gateway::compose::MESSAGES_MAX;
use crate::interfaces::channel::{self, MESSAGE_CHARS_MAX};
use crate::state::store::REPLACED;
use bytes::Bytes;
use std::sync::Arc;

/// A function that splits a reply into messages that fit its destination.
pub(in crate::engine::gateway) type Split = Arc<dyn Fn(&Reply) -> Vec<Reply> + Send + Sync>;

/// The name of fallback operations. A failed fallback has no fallback itself.
const MISSING: &str = "missing";

/// The certainty that the operation was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonDelivery {
    /// The operation was not delivered and never will be.
    Certain,
    /// The operation may have been delivered.
    Possible,
}

pub(super) fn fallback_ops(op: &Op, missing: NonDelivery, split: &Split) -> Vec<Op> {
    let post = op.id.strip_suffix("/fill").unwrap_or(&op.id);
    let Some((message, name)) = post.rsplit_once('/') else {
        return Vec::new();
    };
    // A line about Drydock itself is only for places where people write to it.
    if channel::is_for_comments(&op.channel) {
        return Vec::new();
    }
    // A placeholder's content is posted as a new message, which has its own fallback. A card only shows progress; the
    // result is what was lost. A replaced result keeps its buttons, which answer that it was replaced.
    if op.action.is_placeholder() || name.starts_with(MISSING) || name == "card" || name == REPLACED {
        return Vec::new();
    }
    let (of, replies) = match &op.action {
        Action::Upload {
            file_name, content, ..
        }
        | Action::ShowDiff {
            file_name, content, ..
        } => (post, file_fallback(file_name, content, missing, split)),
        Action::Post { .. }
        | Action::Notice { .. }
        | Action::AskForWords { .. }
        | Action::Edit { .. }
        | Action::Fill { .. } => (message, vec![Reply::text(answer_notice(missing))]),
        Action::Stream { .. } | Action::Progress { .. } => return Vec::new(),
        Action::React { .. }
        | Action::CloseDiff { .. }
        | Action::ShowWork { .. }
        | Action::ShowHome { .. }
        | Action::AnswerClick { .. }
        // Its address does not take the line either.
        | Action::Respond { .. }
        | Action::Draft { .. } => return Vec::new(),
    };
    let numbered = replies.into_iter().enumerate();
    numbered
        .map(|(index, reply)| Op {
            id: match index {
                0 => format!("{of}/{MISSING}"),
                _ => format!("{of}/{MISSING}-{}", index + 1),
            },
            action: with_reply(&op.action, reply),
            ..op.clone()
        })
        .collect()
}

/// Returns an action that sends a reply to the same people.
fn with_reply(action: &Action, reply: Reply) -> Action {
    match action {
        Action::Notice { to, .. } | Action::AskForWords { to, .. } => Action::Notice {
            to: to.clone(),
            reply,
        },
        _ => Action::Post {
            reply,
            reply_to: None,
            placeholder: false,
        },
    }
}

fn answer_notice(missing: NonDelivery) -> String {
    let what_happened = match missing {
        NonDelivery::Certain => "could not be delivered",
        NonDelivery::Possible => "may be missing here: it is unknown whether it was posted",
    };
    format!(
        "An answer {what_happened}. `diff` shows the prepared change and `patch` sends it; for anything else, ask again."
    )
}

/// Returns a file's content as messages, within the limit of one answer. If it needs more, the message says how to get
/// it.
fn file_fallback(file_name: &str, content: &Bytes, missing: NonDelivery, split: &Split) -> Vec<Reply> {
    let what_happened = match missing {
        NonDelivery::Certain => "could not be delivered",
        NonDelivery::Possible => "may be missing here",
    };
    let first = format!("The file `{file_name}` {what_happened}");
    if let Some(text) = shown(content) {
        let language = match file_name.ends_with(".patch") || file_name.ends_with(".diff") {
            true => "diff",
            false => "",
        };
        let whole = Reply::text(format!("{first}. Its content:")).with(ReplyPart::Code {
            language: language.to_owned(),
            text: text.to_owned(),
        });
        let messages = split(&whole);
        if messages.len() <= MESSAGES_MAX {
            return messages;
        }
    }
    let again = match file_name.starts_with("CHG-") {
        true => "`patch` sends the change again",
        false => "ask again for it",
    };
    vec![Reply::text(format!(
        "{first}, and is too long to be shown here; {again}."
    ))]
}

/// Returns the text of a file if it may fit into the messages of one answer. A text that is surely too long is not
/// split.
fn shown(content: &Bytes) -> Option<&str> {
    const CHARS_MAX: usize = MESSAGES_MAX * MESSAGE_CHARS_MAX;
    let text = std::str::from_utf8(content).ok()?;
    let is_short = text.len() <= CHARS_MAX || text.chars().nth(CHARS_MAX).is_none();
    is_short.then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{NonDelivery, Split, fallback_ops};
    use crate::base::model::{Account, Action, ChatPlace, Op, Platform, Reply, ReplyPart};
    use crate::engine::gateway::compose::MESSAGES_MAX;
    use crate::interfaces::channel::MESSAGE_CHARS_MAX;
    use bytes::Bytes;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn file(id: &str, content: &[u8]) -> Op {
        Op {
            id: id.to_owned(),
            channel: "slack".to_owned(),
            place: ChatPlace {
                account: Account {
                    platform: Platform::Slack,
                    id: "T1".to_owned(),
                },
                chat: "C1".to_owned(),
                thread: None,
            },
            action: Action::Upload {
                file_name: "CHG-1.patch".to_owned(),
                content: Bytes::copy_from_slice(content),
                caption: String::new(),
            },
            response_url: None,
        }
    }

    /// Returns a splitter with one message per ten bytes of code.
    fn tens() -> Split {
        Arc::new(|reply: &Reply| {
            let code = reply.parts.iter().find_map(|part| match part {
                ReplyPart::Code { text, .. } => Some(text.len()),
                _ => None,
            });
            vec![reply.clone(); code.unwrap_or(0).div_ceil(10)]
        })
    }

    fn fallback(content: &[u8], missing: NonDelivery) -> (Vec<String>, String) {
        let ops = fallback_ops(&file("inbox-1/CHG-1.patch", content), missing, &tens());
        let ids = ops.iter().map(|op| op.id.clone()).collect();
        (ids, format!("{:?}", ops[0].action))
    }

    /// P2
    #[test]
    fn an_undelivered_file_is_posted_as_text_if_it_is_readable() {
        let (ids, first) = fallback(b"+replicas: 4\n", NonDelivery::Certain);
        assert_eq!(
            ids,
            ["inbox-1/CHG-1.patch/missing", "inbox-1/CHG-1.patch/missing-2"]
        );
        assert!(first.contains("could not be delivered. Its content:"), "{first}");
        assert!(first.contains("+replicas: 4"), "{first}");
        let (ids, first) = fallback(b"+one\n", NonDelivery::Possible);
        assert_eq!(
            (ids.len(), first.contains("may be missing here. Its content")),
            (1, true)
        );
        for unreadable in [b"\xff\xfe".to_vec(), vec![b'x'; 51]] {
            let (ids, first) = fallback(&unreadable, NonDelivery::Certain);
            assert_eq!(ids, ["inbox-1/CHG-1.patch/missing"]);
            assert!(first.contains("`patch` sends the change again"), "{first}");
        }
    }

    #[test]
    fn a_file_too_long_for_any_chat_is_rejected_without_splitting_it() {
        let length = MESSAGES_MAX * MESSAGE_CHARS_MAX;
        for (text, is_split) in [("ä".repeat(length), true), ("ä".repeat(length + 1), false)] {
            let was_split = Arc::new(AtomicBool::new(false));
            let splitting = Arc::clone(&was_split);
            let split: Split = Arc::new(move |reply: &Reply| {
                splitting.store(true, Ordering::Relaxed);
                vec![reply.clone(); MESSAGES_MAX + 1]
            });
            let ops = fallback_ops(&file("inbox-1/a", text.as_bytes()), NonDelivery::Certain, &split);
            assert_eq!((ops.len(), was_split.load(Ordering::Relaxed)), (1, is_split));
            assert!(format!("{:?}", ops[0].action).contains("is too long to be shown here"));
        }
    }

    #[test]
    fn a_replacement_message_gets_no_replacement_of_its_own() {
        for id in ["inbox-1/a/missing", "inbox-1/a/missing-2", "nameless"] {
            assert_eq!(fallback_ops(&file(id, b"x"), NonDelivery::Certain, &tens()), []);
        }
    }
}
