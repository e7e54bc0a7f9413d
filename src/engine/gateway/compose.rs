//! The wording of replies. Facts come from the journal and the patch, never from model text. The model's own words are
//! in parts of their own.

use crate::base::config::Config;
use crate::base::model::{
    Account, Action, Change, ChatPlace, DiffTab, Inbound, InboxId, MessageRef, Op, Reply, ReplyPart,
    ResponseUrl, Sender, Usage, WorkStatus, group_thousands, pluralize, totals,
};
use crate::base::redact::{self, Redactor};
use crate::interfaces::channel;
use crate::state::store::{self, Conversation, StoreError};
use bytes::Bytes;
use std::borrow::Cow;
use std::time::Duration;

/// The line under every change. It is always true.
pub(super) const NOT_APPLIED: &str = "Nothing was applied, committed or pushed.";
/// Maximum number of times that the replies of one write are composed.
pub(super) const COMPOSITIONS_MAX: usize = 16;
/// Maximum number of messages in one answer. Longer answers become a file, so later messages do not wait for them.
pub(super) const MESSAGES_MAX: usize = 5;
/// Largest file that is sent, in bytes. Larger files are unreadable in a chat, and platforms refuse them.
pub(super) const FILE_BYTES_MAX: usize = 8 << 20;
/// The name of the file with the full text of a long reply.
pub(super) const FULL_REPLY_FILE: &str = "answer.txt";

/// The destination of an answer and the prefix of its operation ids.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// The configured channel name.
    pub(super) channel: String,
    /// The chat and thread of the conversation.
    pub(super) place: ChatPlace,
    /// The message being answered.
    pub(super) reply_to: Option<MessageRef>,
    /// The person to mention. Hooks have none.
    pub(super) mention: Option<Sender>,
    /// The only person who sees the answers. Set for commands typed where others can read.
    pub(super) ephemeral_to: Option<Sender>,
    /// Prefix of the operation ids, unique per message: `inbox-7`. After a crash, a message that is claimed again finds
    /// the operations it sent before.
    pub(super) prefix: String,
    /// A further address for answers to the person.
    pub(super) response_url: Option<ResponseUrl>,
}

impl Address {
    pub(super) fn for_inbound(inbound: &Inbound, prefix: String) -> Self {
        Self {
            channel: inbound.channel.clone(),
            place: inbound.place.clone(),
            reply_to: inbound.message.clone(),
            mention: Some(inbound.sender.clone()),
            ephemeral_to: None,
            prefix,
            response_url: inbound.response_url.clone(),
        }
    }

    /// Returns the address for the answer to an accepted message.
    pub(super) fn for_message(inbound: &Inbound, inbox: InboxId) -> Self {
        Self::for_inbound(inbound, inbox.op_id_prefix())
    }

    /// Returns the address for the answer to an unreadable message: the place of its conversation. The thread of an event is
    /// only its name.
    pub(super) fn for_conversation(conversation: &Conversation, inbox: InboxId) -> Self {
        let mut place = conversation.key.place.clone();
        let is_chat = place.account.platform.chat().is_some();
        place.thread = place.thread.filter(|_| is_chat);
        Self {
            channel: conversation.channel.clone(),
            place,
            reply_to: None,
            mention: is_chat.then(|| conversation.key.user.clone()),
            ephemeral_to: None,
            prefix: inbox.op_id_prefix(),
            response_url: None,
        }
    }

    /// True if people can read here. Nothing is posted at the places of agent steps: their results are those of their runs.
    pub(super) fn is_shown(&self) -> bool {
        self.place.account != Account::of_pipelines()
    }

    /// Splits a reply into messages that fit this place.
    pub(super) fn split(&self, config: &Config, reply: &Reply) -> Vec<Reply> {
        assert_may_render();
        match config.channels.get(&self.channel) {
            Some(settings) => channel::split(settings, &config.server, reply),
            // A channel that is no longer configured has no delivery.
            None => vec![reply.clone()],
        }
    }

    /// True if a reply needs at most this number of messages in this place.
    pub(super) fn fits(&self, config: &Config, reply: &Reply, messages_max: usize) -> bool {
        assert_may_render();
        match config.channels.get(&self.channel) {
            Some(settings) => channel::fits(settings, &config.server, reply, messages_max),
            None => true,
        }
    }

    /// Returns the id of an operation.
    pub(super) fn id(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    pub(super) fn op(&self, name: &str, action: Action) -> Op {
        Op {
            id: self.id(name),
            channel: self.channel.clone(),
            place: self.place.clone(),
            action,
            response_url: self.response_url.clone(),
        }
    }

    /// Returns one message with the complete reply, for answers to commands.
    pub(super) fn post(&self, name: &str, reply: Reply) -> Op {
        match &self.ephemeral_to {
            Some(to) => self.op(
                name,
                Action::Notice {
                    to: to.clone(),
                    reply,
                },
            ),
            None => self.op(
                name,
                Action::Post {
                    reply,
                    reply_to: self.reply_to.clone(),
                    placeholder: false,
                },
            ),
        }
    }

    /// Returns the operation that shows the state of work in the thread; `None` if the platform does not show it.
    pub(super) fn work(&self, name: &str, status: WorkStatus, title: Option<String>) -> Option<Op> {
        let chat = self.place.account.platform.chat();
        let is_shown = self.place.thread.is_some() && chat.is_some_and(|chat| chat.shows_work);
        is_shown.then(|| self.op(name, Action::ShowWork { status, title }))
    }

    /// Returns the operation that shows that the work on the message has ended.
    pub(super) fn work_ended(&self) -> Option<Op> {
        self.work("work/ended", WorkStatus::Ended, None)
    }

    /// Returns a placeholder line that is filled later.
    pub(super) fn placeholder(&self, name: &str, line: Reply) -> Op {
        let action = Action::Post {
            reply: line,
            reply_to: self.reply_to.clone(),
            placeholder: true,
        };
        self.op(name, action)
    }

    /// Returns a result with complete parts, for a platform that can look up a sent post.
    pub(super) fn whole_result(&self, parts: Vec<Reply>) -> Vec<Op> {
        let mut ops = Vec::with_capacity(parts.len());
        for (index, reply) in parts.into_iter().enumerate() {
            ops.push(self.post(&result_name(index), reply));
        }
        ops
    }

    /// Returns a result for a platform that cannot look up a sent post. Each part is posted as a short line; its
    /// message id is stored; then an edit, which can be repeated, fills it. So the result shows only once, even if the
    /// connection fails.
    pub(super) fn filled_result(&self, headline: &str, parts: Vec<Reply>) -> Vec<Op> {
        let mut ops = Vec::with_capacity(parts.len() * 2);
        for (index, reply) in parts.into_iter().enumerate() {
            let name = result_name(index);
            let line = if index == 0 {
                headline.to_owned()
            } else {
                "…".to_owned()
            };
            let born = match (&self.mention, index) {
                (Some(to), 0) => Reply {
                    parts: vec![
                        ReplyPart::Mention { to: to.clone() },
                        ReplyPart::Text { text: line },
                    ],
                },
                _ => Reply::text(line),
            };
            ops.push(self.placeholder(&name, born));
            let fill = Action::Fill {
                post: self.id(&name),
                reply,
            };
            ops.push(self.op(&format!("{name}/fill"), fill));
        }
        ops
    }

    /// Returns the full text of a long reply as a file.
    pub(super) fn full_reply_file(&self, reply: &Reply) -> Op {
        let mut text = reply.plain();
        let end = text.floor_char_boundary(FILE_BYTES_MAX);
        if end < text.len() {
            text.truncate(end);
            text.push_str("\n[… the rest is too large for a file in a chat]\n");
        }
        let action = Action::Upload {
            file_name: FULL_REPLY_FILE.to_owned(),
            content: Bytes::from(text),
            caption: String::new(),
        };
        self.op(FULL_REPLY_FILE, action)
    }

    pub(super) fn upload(&self, change: &Change, extension: &str) -> Op {
        let file_name = format!("CHG-{}.{extension}", change.number);
        let action = Action::Upload {
            file_name: file_name.clone(),
            content: change.patch.clone(),
            caption: caption(change),
        };
        self.op(&file_name, action)
    }

    /// Returns the source diff of a change in a tab.
    pub(super) fn show_diff(&self, change: &Change, tab: DiffTab) -> Op {
        let file_name = format!("{}.diff", tab.change);
        let action = Action::ShowDiff {
            tab,
            file_name: file_name.clone(),
            content: change.patch.clone(),
            caption: caption(change),
        };
        self.op(&file_name, action)
    }
}

/// Returns the line beside the diff of a change.
fn caption(change: &Change) -> String {
    let mut caption = format!(
        "{change}: {}, base {}",
        totals(&change.stats),
        short(&change.base)
    );
    if is_masked(change) {
        caption.push_str(". A secret in it is masked, so it does not apply");
    }
    caption
}

/// Returns the error of a write whose replies were composed [`COMPOSITIONS_MAX`] times, and each time from facts that
/// had changed by then.
pub(super) fn outdated_too_often() -> StoreError {
    StoreError::Unavailable("the grants or the change differed each time the answer was composed".to_owned())
}

/// Panics in tests if a reply is rendered on the thread that writes to the store. All other writes would wait.
fn assert_may_render() {
    debug_assert!(!store::is_writing_thread(), "a reply is rendered within a write");
}

/// Returns the operation name of each message of a result.
pub(super) fn result_name(index: usize) -> String {
    match index {
        0 => "result".to_owned(),
        _ => format!("result-{}", index + 1),
    }
}

/// The counted facts about a turn.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) steps: u32,
    pub(super) usage: Usage,
    pub(super) elapsed: Duration,
    /// The model that answered, if it is not the default one.
    pub(super) model: Option<String>,
}

impl Facts {
    pub(super) fn line(&self) -> String {
        let steps = pluralize(self.steps as usize, "step", "steps");
        let model = self.model.as_ref();
        let model = model.map_or_else(String::new, |model| format!(" · {model}"));
        format!(
            "{steps} · {} tokens · {}{model}",
            group_thousands(self.usage.total()),
            seconds(self.elapsed)
        )
    }
}

/// Returns the text about a change that the person may not see.
pub(super) fn withheld(why: &str) -> String {
    format!(
        "Withheld, and not prepared: {why}. The edits stay in the workspace; `undo` removes the newest of them, \
         `discard` all. With the grant, the next answer prepares them."
    )
}

/// True if the shown patch of a change contains a masked secret.
pub(super) fn is_masked(change: &Change) -> bool {
    redact::contains_placeholder(&String::from_utf8_lossy(&change.patch))
}

/// Returns a patch with masked secrets. A patch without secrets stays the same, byte for byte. A masked patch does not
/// apply, which is right for a leaked secret.
pub(super) fn masked(patch: &Bytes, redactor: &Redactor) -> Bytes {
    let text = String::from_utf8_lossy(patch);
    match redactor.redact(&text) {
        Cow::Borrowed(_) => patch.clone(),
        Cow::Owned(masked) => masked.into(),
    }
}

/// Returns the first seven digits of a commit.
pub(super) fn short(commit: &str) -> String {
    format!("`{}`", commit.chars().take(7).collect::<String>())
}

/// Formats a duration: `0.4 s`, `41 s`.
pub(super) fn seconds(elapsed: Duration) -> String {
    if elapsed < Duration::from_secs(10) {
        return format!("{:.1} s", elapsed.as_secs_f64());
    }
    format!("{} s", elapsed.as_secs())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::seconds;
    use crate::base::model::Reply;
    use crate::engine::gateway::fixture::{address, config};
    use crate::state::store::Store;
    use std::sync::Arc;
    use std::time::Duration;

    #[cfg_attr(
        not(debug_assertions),
        ignore = "the rendering checks this in debug builds only"
    )]
    #[tokio::test]
    async fn a_reply_cannot_be_rendered_within_a_write() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let (config, address) = (Arc::new(config()), address());
        let split = move || address.split(&config, &Reply::text("Done.")).len();
        let in_write = split.clone();
        assert!(store.write(move |_| Ok(in_write())).await.is_err());
        assert_eq!(store.read(move |_| Ok(split())).await, Ok(1));
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(seconds(Duration::from_millis(430)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(41)), "41 s");
    }
}
