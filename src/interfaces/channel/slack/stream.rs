//! The calls of a stream, which shows the work of a turn while it runs. A stream has no button, so it is begun only
//! where Slack shows a session of the agent with its Stop button. Without streams the same content is a message that is
//! edited. See <https://docs.slack.dev/reference/methods/chat.startStream>.

use super::agent_session;
use super::connector::RepeatEffect;
use super::stream_content::StreamContent;
use super::{SlackChannel, message_of};
use crate::base::model::{ChatPlace, MessageRef, Op, Reply, ReplyPart, Sender};
use crate::interfaces::channel::SendError;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const APPEND: &str = "chat.appendStream";
const START: &str = "chat.startStream";
const STOP: &str = "chat.stopStream";
/// The error with which `chat.update` refuses a message that streams.
pub(super) const STREAMS: &str = "streaming_state_conflict";
/// The error for a message that does not stream any more.
const HAS_ENDED: &str = "message_not_in_streaming_state";
/// The wait after a limit without a time.
const RETRY_AFTER: Duration = Duration::from_secs(60);

impl SlackChannel {
    /// True if a stream can begin in a place: work is shown in its thread, and nothing speaks against another stream.
    pub(super) fn can_stream(&self, place: &ChatPlace) -> bool {
        self.client.sessions.shows(place) && self.client.streams.has_room()
    }

    /// Begins a stream. Returns `None` if there is none, so that a message is posted instead.
    ///
    /// If the process ends, or the answer is lost, after Slack began the stream, nobody knows its id: streams have no
    /// metadata before their end. The operation is then given up for the result that follows, and Slack ends the
    /// stream.
    pub(super) async fn start_stream(
        &self,
        op: &Op,
        reply: &Reply,
        to: &Sender,
    ) -> Result<Option<MessageRef>, SendError> {
        let streams = &self.client.streams;
        if !self.client.sessions.shows(&op.place) || !streams.begin(&op.id) {
            return Ok(None);
        }
        let (content, chunks) = StreamContent::default().next(&first_work(reply));
        let body = json!({
            "channel": op.place.chat,
            "thread_ts": op.place.thread,
            "recipient_user_id": to.id,
            "recipient_team_id": to.account,
            "task_display_mode": "plan",
            "chunks": chunks,
        });
        let started = self.client.call(START, &body, RepeatEffect::Once).await;
        let message = started
            .as_ref()
            .ok()
            .and_then(|answer| message_of(answer, &op.place.chat));
        streams.has_begun(&op.id, message.clone().map(|message| (message, content)));
        match started {
            Ok(_) if message.is_none() => Err(SendError::Ambiguous(
                "slack named no message for a stream".to_owned(),
            )),
            Ok(_) => Ok(message),
            Err(SendError::Refused(code)) => {
                if agent_session::REFUSALS.contains(&code.as_str()) {
                    streams.refused.remember();
                }
                tracing::info!(code, "slack began no stream; the work is shown in a message");
                Ok(None)
            }
            Err(SendError::Limited { retry_after, .. }) => {
                streams.pause(retry_after.unwrap_or(RETRY_AFTER));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends to a stream what it does not show yet. Returns false if nothing may be appended to the message. That is so
    /// as well if its thread shows no work any more, because another person's turn there has ended: then the message
    /// needs a button.
    pub(super) async fn append(
        &self,
        place: &ChatPlace,
        message: &MessageRef,
        whole: &Reply,
    ) -> Result<bool, SendError> {
        let streams = &self.client.streams;
        let content = streams.content(message);
        let Some(content) = content.filter(|_| self.client.sessions.shows(place)) else {
            return Ok(false);
        };
        let (next, chunks) = content.next(whole);
        if chunks.is_empty() {
            streams.set_content(message, next);
            return Ok(true);
        }
        let body = json!({"channel": message.chat, "ts": message.id, "chunks": chunks});
        match self.client.call(APPEND, &body, RepeatEffect::Once).await {
            Ok(_) => {
                streams.set_content(message, next);
                Ok(true)
            }
            Err(SendError::Ambiguous(why)) => {
                streams.set_content(message, content.with_words_of(next));
                Err(SendError::Ambiguous(why))
            }
            // A person or Slack has ended the stream, or it takes no such content. The next progress is an edit, which
            // ends the stream if it goes on.
            Err(SendError::Refused(code)) => {
                streams.was_ended(message);
                let why = format!("nothing can be appended to the stream: {code}");
                Err(SendError::NotSent {
                    why,
                    retry_after: None,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Ends the stream of a message. Its thread keeps showing what it shows; Slack would end that as well. If the process
    /// ends between this call and the edit that follows, the operation is repeated: the message is then no stream, and
    /// shows the last state of the work until the edit.
    pub(super) async fn stop_stream(&self, place: &ChatPlace, message: &MessageRef) -> Result<(), SendError> {
        let body = json!({
            "channel": message.chat,
            "ts": message.id,
            "session_status": agent_session::name(self.client.sessions.status(place)),
        });
        let stopped: Result<Value, SendError> = self.client.call(STOP, &body, RepeatEffect::Repeatable).await;
        match stopped {
            Ok(_) => self.client.streams.has_ended(message),
            // The edit that follows shows whether the message still streams.
            Err(SendError::Refused(code)) => {
                if code != HAS_ENDED {
                    tracing::warn!(code, "slack did not end a stream");
                }
                self.client.streams.was_ended(message);
            }
            // The limit is not that of edits, which other messages need.
            Err(SendError::Limited { why, retry_after }) => {
                return Err(SendError::NotSent { why, retry_after });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns the first content of a stream. Words without their beginning wait for the whole.
fn first_work(reply: &Reply) -> Reply {
    let is_whole = |part: &&ReplyPart| match part {
        ReplyPart::Markdown { text } => !text.starts_with('…'),
        _ => true,
    };
    Reply {
        parts: reply.parts.iter().filter(is_whole).cloned().collect(),
    }
}
