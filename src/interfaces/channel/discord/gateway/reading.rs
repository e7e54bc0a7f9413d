//! The messages of the history that were read so far, and the choice of those that may be requests.

use super::missed::id_of;
use crate::base::model::Installation;
use crate::interfaces::channel::discord::decode::person_message;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};

/// The maximum number of messages that are passed on.
const MESSAGES_MAX: usize = 2_000;

/// The messages that may be missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissedRange {
    /// The id of the last message before them.
    pub(super) since: u64,
    /// The id up to which an earlier pass has decided on them; at least `since`.
    pub(super) decided: u64,
}

/// The messages that were read.
pub(super) struct MissedMessages {
    /// The messages that may be requests, as events with their ids, oldest first.
    pub(super) events: VecDeque<(u64, Value)>,
    /// The highest id of all messages that were read.
    pub(super) newest: u64,
    /// True if some were left out.
    pub(super) is_cut: bool,
}

/// The messages that were read so far.
pub(super) struct HistoryReading<'a> {
    installation: &'a Installation,
    decided: u64,
    /// The first ids of the conversations of people, by thread and account.
    beginnings: HashMap<u64, HashMap<String, u64>>,
    messages: Vec<(u64, Value)>,
    newest: u64,
    pub(super) is_cut: bool,
}

impl<'a> HistoryReading<'a> {
    pub(super) fn new(installation: &'a Installation, range: MissedRange) -> Self {
        Self {
            installation,
            decided: range.decided,
            beginnings: HashMap::new(),
            messages: Vec::new(),
            newest: range.since,
            is_cut: false,
        }
    }

    /// Records that a person has a conversation in a thread since an id. The first one counts.
    pub(super) fn begin(&mut self, thread: u64, person: &str, id: u64) {
        let people = self.beginnings.entry(thread).or_default();
        let began = people.entry(person.to_owned()).or_insert(id);
        *began = id.min(*began);
    }

    /// Returns true if a conversation in a thread is known.
    pub(super) fn has_conversation(&self, thread: u64) -> bool {
        self.beginnings.contains_key(&thread)
    }

    /// Returns true if no more messages are passed on.
    pub(super) fn is_full(&self) -> bool {
        self.messages.len() >= MESSAGES_MAX
    }

    /// Keeps a message of a server, or of a private chat, that may be a request. In a thread, that can also be one
    /// which nobody addressed to the bot, if it follows the beginning of a conversation and was not decided on.
    pub(super) fn take(&mut self, mut message: Value, guild: Option<&str>, thread: Option<u64>) {
        let Some(id) = id_of(&message) else {
            return;
        };
        self.newest = self.newest.max(id);
        // Only events say which server they are from.
        if let Some(guild) = guild {
            message["guild_id"] = json!(guild);
        }
        let is_edited = !message["edited_timestamp"].take().is_null();
        let is_addressed = match person_message(&message, self.installation) {
            Ok(written) => written.is_addressed,
            Err(_) => return,
        };
        let person = message["author"]["id"].as_str().unwrap_or_default();
        if is_addressed {
            // A thread that begins from a message has its id.
            self.begin(thread.unwrap_or(id), person, id);
        }
        let is_new = id > self.decided;
        let may_be_request = match (is_addressed, thread) {
            // The words of a new message were edited before Drydock has seen them, so these are those of the request.
            (true, _) => is_new || !is_edited,
            (false, Some(thread)) => is_new && self.has_begun(thread, person, id),
            (false, None) => false,
        };
        if may_be_request {
            self.messages.push((id, message));
        }
    }

    /// Returns true if a message follows the beginning of its person's conversation in a thread; without one, that of
    /// any conversation there.
    fn has_begun(&self, thread: u64, person: &str, id: u64) -> bool {
        let Some(people) = self.beginnings.get(&thread) else {
            return false;
        };
        let began = people.get(person).or_else(|| people.values().min());
        began.is_some_and(|began| *began <= id)
    }

    /// Returns the messages, in their order and within the bound.
    pub(super) fn finish(self) -> MissedMessages {
        let mut messages = self.messages;
        messages.sort_by_key(|(id, _)| *id);
        let is_cut = self.is_cut || messages.len() > MESSAGES_MAX;
        messages.truncate(MESSAGES_MAX);
        MissedMessages {
            events: messages.into(),
            newest: self.newest,
            is_cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HistoryReading, MESSAGES_MAX, MissedRange};
    use crate::base::model::{Account, Installation, Platform};
    use serde_json::{Value, json};

    const THREAD: u64 = 50;

    fn installation() -> Installation {
        Installation {
            account: Account {
                platform: Platform::Discord,
                id: "1001".to_owned(),
            },
            bot_id: "1002".to_owned(),
            bot_name: "drydock".to_owned(),
        }
    }

    fn message(id: u64, person: &str, words: &str) -> Value {
        json!({"id": id.to_string(), "channel_id": "50", "author": {"id": person}, "type": 0, "content": words,
            "edited_timestamp": null})
    }

    fn edited(id: u64, words: &str) -> Value {
        let mut message = message(id, "1", words);
        message["edited_timestamp"] = json!("2026-11-21T12:00:01.000000+00:00");
        message
    }

    fn ids(reading: HistoryReading<'_>) -> Vec<u64> {
        reading.finish().events.iter().map(|(id, _)| *id).collect()
    }

    fn range(since: u64, decided: u64) -> MissedRange {
        MissedRange { since, decided }
    }

    #[test]
    fn more_messages_than_are_passed_on_count_as_cut_and_the_oldest_stay() {
        let installation = installation();
        for (more, is_cut) in [(0, false), (1, true)] {
            let mut reading = HistoryReading::new(&installation, range(1, 1));
            let last = MESSAGES_MAX as u64 + more;
            for id in (1..=last).rev() {
                reading.take(message(100 + id, "1", "<@1002> hello"), Some("900"), None);
            }
            assert!(reading.is_full());
            let missed = reading.finish();
            assert_eq!((missed.events.len(), missed.is_cut), (MESSAGES_MAX, is_cut));
            assert_eq!(missed.events.front().map(|(id, _)| *id), Some(101));
            assert_eq!(missed.newest, 100 + last);
        }
    }

    #[test]
    fn words_to_nobody_count_only_after_the_beginning_of_a_conversation() {
        let installation = installation();
        let mut reading = HistoryReading::new(&installation, range(10, 10));
        let mut take =
            |id, person, words| reading.take(message(id, person, words), Some("900"), Some(THREAD));
        take(60, "1", "lunch?");
        take(61, "1", "<@1002> hello");
        take(62, "1", "and now?");
        // Another person, in a thread with a conversation.
        take(63, "2", "me too");
        assert_eq!(ids(reading), [61, 62, 63]);
        // A second pass, with the conversation that the first one has begun, and after one that is older.
        for (began, expected) in [(900, vec![61_u64]), (5, vec![60, 61])] {
            let mut reading = HistoryReading::new(&installation, range(10, 10));
            reading.begin(THREAD, "1", began);
            reading.take(message(60, "1", "lunch?"), Some("900"), Some(THREAD));
            reading.take(message(61, "1", "<@1002> hello"), Some("900"), Some(THREAD));
            assert!(reading.has_conversation(THREAD));
            assert_eq!(ids(reading), expected);
        }
        // An earlier pass has decided on the first.
        let mut reading = HistoryReading::new(&installation, range(10, 60));
        reading.begin(THREAD, "1", 5);
        reading.take(message(60, "1", "lunch?"), Some("900"), Some(THREAD));
        reading.take(message(61, "1", "dinner?"), Some("900"), Some(THREAD));
        assert_eq!(ids(reading), [61]);
    }

    #[test]
    fn an_edited_message_counts_only_if_it_was_not_decided_on() {
        let installation = installation();
        let mut reading = HistoryReading::new(&installation, range(10, 20));
        for id in [9, 20, 21] {
            reading.take(edited(id, "<@1002> hello"), Some("900"), None);
        }
        reading.take(message(8, "1", "<@1002> hello"), Some("900"), None);
        assert_eq!(ids(reading), [8, 21]);
    }
}
