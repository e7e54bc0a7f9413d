//! The streams of a workspace: what they show, and whether another one can begin. Nothing is stored: after a restart
//! Slack says which messages still stream.
//!
//! Slack limits the calls that begin streams and those that end them to 20 a minute each, and the end of a turn must
//! not wait for them. So a stream begins only if there will be a call for its end: those that stream and those that ended
//! within the last minute are together fewer than the limit.

use super::stream_content::StreamContent;
use crate::base::model::MessageRef;
use crate::interfaces::channel::refusal::RememberedRefusal;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum number of streams that begin, and that end, within [`MINUTE`].
const STREAMS_A_MINUTE_MAX: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);
/// The time after which a stream is ended and its message is edited from then on. Slack documents no limit; see
/// <https://github.com/slackapi/python-slack-sdk/issues/1859>: it ends streams itself after about five minutes, and shows
/// an error then.
const STREAM_TIME_MAX: Duration = Duration::from_mins(4);
/// The time for which a stream is remembered whose end was never seen.
const REMEMBERED: Duration = Duration::from_mins(30);

/// The known streams of a workspace, and its last refusal of one.
#[derive(Debug, Default)]
pub(super) struct StreamSupport {
    pub(super) refused: RememberedRefusal,
    known: Mutex<KnownStreams>,
}

#[derive(Debug, Default)]
struct KnownStreams {
    open: HashMap<MessageRef, OpenStream>,
    /// The operations whose streams begin.
    beginning: BTreeSet<String>,
    begun: VecDeque<Instant>,
    ended: VecDeque<Instant>,
    /// The time until which Slack asked to wait.
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct OpenStream {
    begun: Instant,
    content: StreamContent,
}

impl KnownStreams {
    fn has_room(&mut self) -> bool {
        let now = Instant::now();
        let is_old = |at: Instant| now.duration_since(at) >= MINUTE;
        for times in [&mut self.begun, &mut self.ended] {
            while times.front().is_some_and(|at| is_old(*at)) {
                times.pop_front();
            }
        }
        self.open
            .retain(|_, stream| now.duration_since(stream.begun) < REMEMBERED);
        let ends = self.open.len() + self.beginning.len() + self.ended.len();
        self.paused_until.is_none_or(|until| until <= now)
            && self.begun.len() < STREAMS_A_MINUTE_MAX
            && ends < STREAMS_A_MINUTE_MAX
    }
}

impl StreamSupport {
    fn known(&self) -> MutexGuard<'_, KnownStreams> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the workspace has not refused streams within the last day, and another one can begin now.
    pub(super) fn has_room(&self) -> bool {
        !self.refused.is_recent() && self.known().has_room()
    }

    /// Counts the beginning of a stream for an operation. Returns false if it must not begin.
    pub(super) fn begin(&self, op: &str) -> bool {
        if self.refused.is_recent() {
            return false;
        }
        let mut known = self.known();
        known.beginning.remove(op);
        let has_room = known.has_room();
        if has_room {
            known.begun.push_back(Instant::now());
            known.beginning.insert(op.to_owned());
        }
        has_room
    }

    /// Records the stream of an operation; without a message, it did not begin as far as is known.
    pub(super) fn has_begun(&self, op: &str, begun: Option<(MessageRef, StreamContent)>) {
        let mut known = self.known();
        known.beginning.remove(op);
        if let Some((message, content)) = begun {
            let begun = Instant::now();
            known.open.insert(message, OpenStream { begun, content });
        }
    }

    /// Begins no stream for this time.
    pub(super) fn pause(&self, time: Duration) {
        self.known().paused_until = Some(Instant::now() + time);
    }

    /// True if a message streams, as far as is known.
    pub(super) fn is_open(&self, message: &MessageRef) -> bool {
        self.known().open.contains_key(message)
    }

    /// Returns what a stream shows; `None` if nothing may be appended to the message.
    pub(super) fn content(&self, message: &MessageRef) -> Option<StreamContent> {
        let known = self.known();
        let stream = known.open.get(message)?;
        (stream.begun.elapsed() < STREAM_TIME_MAX).then(|| stream.content.clone())
    }

    pub(super) fn set_content(&self, message: &MessageRef, content: StreamContent) {
        if let Some(stream) = self.known().open.get_mut(message) {
            stream.content = content;
        }
    }

    /// Records that a message streams no more. Streams of before the start count as well.
    pub(super) fn has_ended(&self, message: &MessageRef) {
        let mut known = self.known();
        known.open.remove(message);
        known.ended.push_back(Instant::now());
    }

    /// Records that Slack or a person ended a stream, which took no call.
    pub(super) fn was_ended(&self, message: &MessageRef) {
        self.known().open.remove(message);
    }
}

#[cfg(test)]
mod tests {
    use super::{MINUTE, STREAM_TIME_MAX, STREAMS_A_MINUTE_MAX, StreamSupport};
    use crate::base::model::MessageRef;
    use crate::interfaces::channel::slack::stream_content::StreamContent;
    use std::time::Duration;

    fn message(number: usize) -> MessageRef {
        MessageRef {
            chat: "C1".to_owned(),
            id: number.to_string(),
        }
    }

    fn begin(streams: &StreamSupport, number: usize) -> bool {
        let op = number.to_string();
        let has_begun = streams.begin(&op);
        if has_begun {
            streams.has_begun(&op, Some((message(number), StreamContent::default())));
        }
        has_begun
    }

    /// R17
    #[tokio::test(start_paused = true)]
    async fn no_more_streams_begin_or_end_in_a_minute_than_slack_allows() {
        let streams = StreamSupport::default();
        let begun = (0..30).filter(|number| begin(&streams, *number)).count();
        assert_eq!(begun, STREAMS_A_MINUTE_MAX);
        // A minute later the first ones still stream, and all of them may end at once.
        tokio::time::advance(MINUTE).await;
        assert!(!begin(&streams, 30));
        (0..15).for_each(|number| streams.has_ended(&message(number)));
        assert!(!begin(&streams, 31));
        tokio::time::advance(MINUTE).await;
        let begun = (40..70).filter(|number| begin(&streams, *number)).count();
        assert_eq!(begun, 15);
        // Those that Slack ended need no call.
        (40..50).for_each(|number| streams.was_ended(&message(number)));
        let begun = (70..100).filter(|number| begin(&streams, *number)).count();
        assert_eq!(begun, STREAMS_A_MINUTE_MAX - 15);
    }

    /// R17
    #[tokio::test(start_paused = true)]
    async fn streams_that_begin_at_the_same_time_count_and_a_wait_is_obeyed() {
        let streams = StreamSupport::default();
        let begun = (0..30).filter(|op| streams.begin(&op.to_string())).count();
        assert_eq!(begun, STREAMS_A_MINUTE_MAX);
        (0..20).for_each(|op: usize| streams.has_begun(&op.to_string(), None));
        tokio::time::advance(MINUTE).await;
        streams.pause(Duration::from_secs(7));
        assert!(!streams.has_room() && !streams.begin("a"));
        tokio::time::advance(Duration::from_secs(7)).await;
        assert!(streams.begin("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_appended_to_an_old_stream_which_still_has_to_end() {
        let streams = StreamSupport::default();
        assert!(begin(&streams, 1));
        tokio::time::advance(STREAM_TIME_MAX).await;
        assert_eq!(streams.content(&message(1)), None);
        assert!(streams.is_open(&message(1)));
    }
}
