//! The content of a thread, sorted: results, refusals, answers to commands, files. Each message carries an operation as
//! metadata. It identifies the message, and reveals one that was sent twice.

use crate::testbed::BOT;
use drydock::simulation::emulator::slack::{SlackMessage, SlackState};
use std::collections::BTreeSet;

/// The texts for a message that is given up or refused without a turn.
const REFUSALS: [&str; 3] = [
    "Stopped before it began.",
    "I failed with an internal error",
    "Access was revoked.",
];
/// The first words of a question that is closed.
const CLOSED_QUESTION: &str = "*I asked for your decision.*";
/// The number of characters of a message that a transcript shows.
const SHOWN_CHARS_MAX: usize = 160;
/// The words on the card of an unfinished message.
const OPEN: [&str; 3] = ["Working", "Queued (", "Waiting for your answer"];

/// The bot's messages in a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    /// The results of turns, in order.
    pub(crate) results: Vec<String>,
    /// The messages without a result, whose cards say so.
    pub(crate) refusals: Vec<String>,
    /// The answers to commands.
    pub(crate) answers: Vec<String>,
    /// The questions that wait for an answer.
    pub(crate) questions: Vec<String>,
    /// The number of questions that are closed.
    pub(crate) closed_questions: usize,
    /// The patches that were sent as files.
    pub(crate) patches: Vec<String>,
    /// The errors, which must not occur in any thread.
    pub(crate) wrong: Vec<String>,
    /// The number of cards of unfinished messages.
    pub(crate) open: usize,
}

impl Thread {
    /// Reads a thread as it is shown now.
    pub(crate) fn read(state: &SlackState, channel: &str, root: &str) -> Self {
        let mut thread = Self::default();
        let mut seen = BTreeSet::new();
        let mut cards = Vec::new();
        for message in state.replies(channel, root).filter(|message| message.user == BOT) {
            let text = shown(message);
            let operation = operation(message);
            if let Some(operation) = operation
                && !seen.insert(operation)
            {
                thread.wrong.push(format!("shown twice: {text}"));
                continue;
            }
            match operation.map(kind) {
                Some("result") => thread.results.push(text),
                Some("answer") if text.contains("so I did not accept this one") => thread.refusals.push(text),
                Some("answer" | "answer-1") => thread.answers.push(text),
                Some(part) if part.starts_with("result-") => continue_last(&mut thread.results, &text),
                Some(part) if part.starts_with("answer-") => continue_last(&mut thread.answers, &text),
                // A card that may have begun as a stream is not found again. The end of its turn is a message of its
                // own only if there is no result.
                Some("card" | "refused") => cards.push(text),
                Some(part) if part.starts_with("question-") => thread.questions.push(text),
                None if message.edits > 0 && text.starts_with(CLOSED_QUESTION) => {
                    thread.closed_questions += 1
                }
                // An edit removes the metadata. A result that was filled in later begins with the mention of its
                // person.
                None if message.edits > 0 && text.starts_with("<@") => thread.results.push(text),
                None if message.edits > 0 => cards.push(text),
                None if !message.files.is_empty() => {}
                _ => thread.wrong.push(format!("unexpected message: {text}")),
            }
        }
        for card in cards {
            thread.card(card);
        }
        let files = state.files.iter().filter(|file| file.channel == channel);
        let files =
            files.filter(|file| file.thread_ts.as_deref() == Some(root) && file.name.ends_with(".patch"));
        thread.patches = files
            .map(|file| String::from_utf8_lossy(&file.content).into_owned())
            .collect();
        thread
    }

    fn card(&mut self, text: String) {
        if OPEN.iter().any(|open| text.starts_with(open)) {
            self.open += 1;
        }
        // The card under a result may repeat the text of the result.
        let has_result = self.results.iter().any(|result| result.contains(text.as_str()));
        if !has_result && is_refusal(&text) {
            self.refusals.push(text);
        }
    }

    /// Counts the messages for a turn that have their outcome.
    pub(crate) fn finished(&self) -> usize {
        self.results.len() + self.refusals.len()
    }
}

/// Returns true for a text that replaces a result.
pub(crate) fn is_refusal(text: &str) -> bool {
    REFUSALS.iter().any(|refusal| text.contains(refusal))
}

/// Returns a thread as people see it, for a report.
pub(crate) fn transcript(state: &SlackState, channel: &str, root: &str) -> String {
    let messages = state.messages.iter().filter(|message| {
        message.channel == channel && (message.ts == root || message.thread_ts.as_deref() == Some(root))
    });
    let lines = messages.map(|message| {
        let text: String = shown(message).chars().take(SHOWN_CHARS_MAX).collect();
        format!(
            "{} {}: {}",
            message.ts,
            message.user,
            text.trim_end().replace('\n', "\n    ")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the text a person reads in a message.
pub(crate) fn shown(message: &SlackMessage) -> String {
    message.visible().join("\n")
}

/// Returns the operation that a post of the bot came from.
pub(crate) fn operation(message: &SlackMessage) -> Option<&str> {
    message.request["metadata"]["event_payload"]["op"].as_str()
}

fn kind(operation: &str) -> &str {
    operation.rsplit('/').next().unwrap_or_default()
}

fn continue_last(texts: &mut [String], text: &str) {
    if let Some(last) = texts.last_mut() {
        last.push('\n');
        last.push_str(text);
    }
}
