//! The position of a channel among the events of Discord: the session with the last accepted event, and the id from which
//! messages may be missed. It is stored, so it outlives connections and the process.

use super::progress::EventProgress;
use super::reading::MissedRange;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A session of the gateway, which can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GatewaySession {
    /// The id that Discord gave it.
    pub(super) id: String,
    /// The address at which it is resumed.
    pub(super) url: String,
}

impl GatewaySession {
    /// Reads the session of a `READY` event.
    pub(super) fn of_ready(data: &Value) -> Option<Self> {
        Some(Self {
            id: data["session_id"].as_str()?.to_owned(),
            url: data["resume_gateway_url"].as_str()?.to_owned(),
        })
    }
}

/// The position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GatewayPosition {
    session: Option<GatewaySession>,
    progress: EventProgress,
    missed_since: Option<u64>,
    missed_decided: Option<u64>,
}

/// The position as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredPosition {
    /// The account of the bot. A position of another bot is of no use.
    bot: String,
    session: Option<GatewaySession>,
    sequence: Option<u64>,
    seen: Option<u64>,
    missed_since: Option<u64>,
    missed_decided: Option<u64>,
}

impl GatewayPosition {
    /// Reads a stored position; `None` if it is that of another bot, or is not readable.
    pub(super) fn read(text: &str, bot: &str) -> Option<Self> {
        let stored: StoredPosition = serde_json::from_str(text).ok()?;
        (stored.bot == bot).then_some(Self {
            session: stored.session,
            progress: EventProgress::after(stored.sequence, stored.seen),
            missed_since: stored.missed_since,
            missed_decided: stored.missed_decided,
        })
    }

    /// Returns the position to store.
    pub(super) fn stored(&self, bot: &str) -> StoredPosition {
        StoredPosition {
            bot: bot.to_owned(),
            session: self.session.clone(),
            sequence: self.progress.position(),
            seen: self.progress.seen(),
            missed_since: self.missed_since,
            missed_decided: self.missed_decided,
        }
    }

    /// Returns the session to resume.
    pub(super) fn session(&self) -> Option<&GatewaySession> {
        self.session.as_ref()
    }

    /// Returns the sequence number from which the session is resumed.
    pub(super) fn sequence(&self) -> Option<u64> {
        self.session.as_ref().and_then(|_| self.progress.position())
    }

    /// Begins with a new session. All messages since the last accepted one may be missed; without any, nothing before
    /// `now`, an id, is.
    pub(super) fn begin(&mut self, session: Option<GatewaySession>, now: u64) {
        let seen = self.progress.seen();
        self.missed_since = self.missed_since.or(seen);
        self.session = session;
        self.progress = EventProgress::after(None, Some(seen.unwrap_or(now)));
    }

    /// Gives the session up. The next one is new.
    pub(super) fn end_session(&mut self) {
        self.session = None;
        self.progress = EventProgress::after(None, self.progress.seen());
    }

    /// Returns the messages that may be missed; `None` if none is.
    pub(super) fn missed(&self) -> Option<MissedRange> {
        let since = self.missed_since?;
        let decided = self.missed_decided.unwrap_or(since).max(since);
        Some(MissedRange { since, decided })
    }

    /// Records that the missed messages up to an id are accepted, while later ones are not. They are read again with
    /// those, because they may begin the conversations of later ones.
    pub(super) fn decide_missed(&mut self, up_to: u64) {
        self.missed_decided = self.missed_decided.max(Some(up_to));
    }

    /// Records that the missed messages up to an id are accepted.
    pub(super) fn end_missed(&mut self, newest: u64) {
        self.missed_since = None;
        self.missed_decided = None;
        self.progress.see(newest);
    }

    /// Adds a received event of the session, with the id of its message.
    pub(super) fn receive(&mut self, sequence: u64, message: Option<u64>) {
        if self.session.is_some() {
            self.progress.receive(sequence, message);
        }
    }

    /// Marks an event as accepted, or as nothing to accept.
    pub(super) fn accept(&mut self, sequence: u64) {
        self.progress.accept(sequence);
    }

    /// Returns the number of received events from the first that is not accepted.
    pub(super) fn open(&self) -> usize {
        self.progress.open()
    }

    /// Forgets the events that are not accepted: Discord sends them again.
    pub(super) fn rewind(&mut self) {
        self.progress.rewind();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{GatewayPosition, GatewaySession};
    use serde_json::json;

    fn session(id: &str) -> Option<GatewaySession> {
        GatewaySession::of_ready(&json!({"session_id": id, "resume_gateway_url": "wss://a.discord.gg"}))
    }

    fn stored(position: &GatewayPosition) -> String {
        serde_json::to_string(&position.stored("1002")).unwrap()
    }

    fn missed_since(position: &GatewayPosition) -> Option<u64> {
        position.missed().map(|missed| missed.since)
    }

    #[test]
    fn a_position_is_read_again_as_it_was_stored() {
        let mut position = GatewayPosition::default();
        assert_eq!((position.sequence(), missed_since(&position)), (None, None));
        position.begin(session("one"), 100);
        // Nothing is missed before the first session.
        assert_eq!(missed_since(&position), None);
        for (sequence, message) in [(1, None), (2, Some(120)), (3, Some(130))] {
            position.receive(sequence, message);
        }
        position.accept(1);
        position.accept(2);
        let mut read = GatewayPosition::read(&stored(&position), "1002").unwrap();
        position.rewind();
        assert_eq!(read, position);
        assert_eq!(read.sequence(), Some(2));
        // The session is refused: messages after 120 may be missed, until they are accepted.
        read.end_session();
        assert_eq!((read.session(), read.sequence()), (None, None));
        read.begin(session("two"), 500);
        assert_eq!(missed_since(&read), Some(120));
        read.receive(1, Some(510));
        read.accept(1);
        let mut again = GatewayPosition::read(&stored(&read), "1002").unwrap();
        again.end_session();
        again.begin(session("three"), 600);
        assert_eq!(missed_since(&again), Some(120));
        let decided = |position: &GatewayPosition| position.missed().map(|missed| missed.decided);
        assert_eq!(decided(&again), Some(120));
        again.decide_missed(300);
        let mut again = GatewayPosition::read(&stored(&again), "1002").unwrap();
        assert_eq!((missed_since(&again), decided(&again)), (Some(120), Some(300)));
        again.end_missed(590);
        assert_eq!(again.missed(), None);
        again.end_session();
        again.begin(session("four"), 700);
        assert_eq!(missed_since(&again), Some(590));
    }

    #[test]
    fn a_position_of_another_bot_or_version_is_not_used() {
        let mut position = GatewayPosition::default();
        position.begin(session("one"), 100);
        let text = stored(&position);
        assert_eq!(GatewayPosition::read(&text, "1003"), None);
        assert_eq!(GatewayPosition::read("", "1002"), None);
        assert_eq!(
            GatewayPosition::read("{\"bot\": \"1002\", \"seen\": -1}", "1002"),
            None
        );
    }
}
