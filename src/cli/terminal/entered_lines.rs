//! Lines that a person enters while a turn runs. A message is for the running turn, which takes it at its next step. A
//! command, and a request with `queue:`, wait for the end of the turn. So does a message that the turn did not take.

use super::typed_line::{TypedLine, available_bytes};
use crate::base::model::{ContextState, InboxId};
use crate::base::redact::Redactor;
use crate::engine::agent::{
    CallLosses, CallPermission, CallSize, Journal, PaidAnswer, SteeringMessage, StepRecord, TakeResult,
};
use crate::engine::command;
use async_trait::async_trait;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of messages that one step takes.
const MESSAGES_AT_ONCE_MAX: usize = 8;

/// The bounds of what a person enters, and the meaning of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRules {
    /// The maximum number of characters of a line.
    pub(super) chars_max: usize,
    /// The maximum number of lines that wait.
    pub(super) lines_max: usize,
    /// Returns true for a command, which no turn reads.
    pub(super) is_command: fn(&str) -> bool,
}

/// The use of a line that was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineUse {
    /// The running turn takes it at its next step.
    Message(String),
    /// It waits for the end of the turn.
    Later(String),
    /// A request was announced and not written.
    NoRequest,
    /// Too many lines wait. The line is still being typed.
    TooMany(usize),
    /// The line has more than so many characters. It is still being typed.
    TooLong(usize),
}

#[derive(Debug)]
struct WaitingLine {
    number: InboxId,
    text: String,
    is_message: bool,
}

#[derive(Debug, Default)]
struct EnteredState {
    lines: VecDeque<WaitingLine>,
    typed: TypedLine,
    last: i64,
}

/// The lines that wait, and the one that is being typed.
#[derive(Debug)]
pub(super) struct EnteredLines {
    rules: EntryRules,
    // The lock is held only to read or change the lines.
    state: Mutex<EnteredState>,
}

impl EnteredLines {
    pub(super) fn new(rules: EntryRules) -> Self {
        Self {
            rules,
            state: Mutex::default(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, EnteredState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what was typed since the last time. Returns the use of each line that was entered; `None` if nothing was
    /// typed.
    pub(super) fn read(&self) -> Option<Vec<LineUse>> {
        let bytes = available_bytes();
        (!bytes.is_empty()).then(|| self.add(&bytes))
    }

    fn add(&self, bytes: &[u8]) -> Vec<LineUse> {
        let mut state = self.locked();
        // A line with one character more is refused when it is entered.
        let entered = state.typed.add(bytes, self.rules.chars_max.saturating_add(1));
        let (mut uses, mut refused) = (Vec::new(), Vec::new());
        for line in entered.iter().filter(|line| !line.trim().is_empty()) {
            let line_use = match line.chars().count() > self.rules.chars_max {
                true => LineUse::TooLong(self.rules.chars_max),
                false => self.enter(&mut state, line.trim()),
            };
            if matches!(line_use, LineUse::TooMany(_) | LineUse::TooLong(_)) {
                refused.push(line.as_str());
            }
            uses.push(line_use);
        }
        if !refused.is_empty() {
            let typed = state.typed.text().to_owned();
            refused.extend(Some(typed.as_str()).filter(|typed| !typed.is_empty()));
            state.typed.set(refused.join(" "));
        }
        uses
    }

    fn enter(&self, state: &mut EnteredState, line: &str) -> LineUse {
        let queued = command::queued(line);
        if queued == Some("") {
            return LineUse::NoRequest;
        }
        if state.lines.len() >= self.rules.lines_max {
            return LineUse::TooMany(self.rules.lines_max);
        }
        let is_message = queued.is_none() && !(self.rules.is_command)(line);
        state.last += 1;
        let waiting = WaitingLine {
            number: InboxId(state.last),
            text: line.to_owned(),
            is_message,
        };
        state.lines.push_back(waiting);
        match is_message {
            true => LineUse::Message(line.to_owned()),
            false => LineUse::Later(queued.unwrap_or(line).to_owned()),
        }
    }

    /// Returns the end of the line that is being typed, for so many columns; `None` if nothing is typed.
    pub(super) fn typed(&self, columns_max: usize) -> Option<String> {
        let state = self.locked();
        (!state.typed.text().is_empty()).then(|| state.typed.end(columns_max).to_owned())
    }

    /// Returns the messages for the running turn without their secrets, oldest first.
    fn messages(&self, redactor: &Redactor) -> Vec<SteeringMessage> {
        let state = self.locked();
        let messages = state.lines.iter().filter(|line| line.is_message);
        let messages = messages.take(MESSAGES_AT_ONCE_MAX).map(|line| SteeringMessage {
            inbox: line.number,
            text: redactor.redact(&line.text).into_owned(),
        });
        messages.collect()
    }

    fn remove(&self, taken: &[SteeringMessage]) {
        let is_taken = |line: &WaitingLine| taken.iter().any(|message| message.inbox == line.number);
        self.locked().lines.retain(|line| !is_taken(line));
    }

    /// Removes and returns the oldest line, after the end of a turn.
    pub(super) fn take_next(&self) -> Option<String> {
        Some(self.locked().lines.pop_front()?.text)
    }

    /// Removes and returns all lines together with the one that is being typed, for the prompt.
    pub(super) fn take_all(&self) -> String {
        let mut state = self.locked();
        let mut texts: Vec<String> = state.lines.drain(..).map(|line| line.text).collect();
        texts.push(std::mem::take(&mut state.typed).text().to_owned());
        texts.retain(|text| !text.is_empty());
        texts.join("\n")
    }
}

/// A journal of a turn that takes what a person enters meanwhile.
pub(super) struct SteeredJournal<'a, J> {
    pub(super) journal: J,
    /// The lines of the person, if there are any.
    pub(super) entered: Option<&'a EnteredLines>,
    pub(super) redactor: &'a Redactor,
}

#[async_trait]
impl<J: Journal> Journal for SteeredJournal<'_, J> {
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission> {
        self.journal.reserve_call(call).await
    }

    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        self.journal.call_failed(losses).await
    }

    async fn answer_received(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
    ) -> anyhow::Result<()> {
        self.journal.answer_received(answer, losses).await
    }

    async fn answer_discarded(&mut self, answer: PaidAnswer<'_>) -> anyhow::Result<()> {
        self.journal.answer_discarded(answer).await
    }

    async fn record_summary(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
        context: &ContextState,
    ) -> anyhow::Result<()> {
        self.journal.record_summary(answer, losses, context).await
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        self.journal.record_step(record).await
    }

    async fn waiting_messages(&mut self) -> anyhow::Result<Vec<SteeringMessage>> {
        Ok(self
            .entered
            .map_or_else(Vec::new, |entered| entered.messages(self.redactor)))
    }

    async fn record_step_taking(
        &mut self,
        record: StepRecord<'_>,
        messages: &[SteeringMessage],
    ) -> anyhow::Result<TakeResult> {
        // The step has the messages, so its record is theirs as well.
        self.journal.record_step(record).await?;
        if let Some(entered) = self.entered {
            entered.remove(messages);
        }
        Ok(TakeResult::Taken)
    }
}

#[cfg(test)]
mod tests {
    use super::{EnteredLines, EntryRules, LineUse};
    use crate::base::redact::Redactor;

    fn entered() -> EnteredLines {
        EnteredLines::new(EntryRules {
            chars_max: 100,
            lines_max: 3,
            is_command: |line| line.starts_with('/'),
        })
    }

    #[test]
    fn messages_are_for_the_running_turn_and_the_rest_waits_in_order() {
        let entered = entered();
        let uses = entered.add(b"say why\r\rqueue:\rQueue: then b\r/diff\rtoo much\r");
        let expected = [
            LineUse::Message("say why".to_owned()),
            LineUse::NoRequest,
            LineUse::Later("then b".to_owned()),
            LineUse::Later("/diff".to_owned()),
            LineUse::TooMany(3),
        ];
        assert_eq!(uses, expected);
        assert_eq!(entered.typed(4).as_deref(), Some("much"));
        let messages = entered.messages(&Redactor::new([]));
        let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts, ["say why"]);
        entered.remove(&messages);
        assert_eq!(entered.messages(&Redactor::new([])), []);
        assert_eq!(entered.take_next().as_deref(), Some("Queue: then b"));
        assert_eq!(entered.take_all(), "/diff\ntoo much");
        assert_eq!((entered.take_next(), entered.typed(9)), (None, None));
    }

    #[test]
    fn lines_that_do_not_fit_stay_typed_in_their_order() {
        let entered = entered();
        let uses = entered.add(b"one\rtwo\rthree\rfour\rfive\rsi");
        assert_eq!(&uses[3..], [LineUse::TooMany(3), LineUse::TooMany(3)]);
        assert_eq!(entered.take_all(), "one\ntwo\nthree\nfour five si");
        let long = "a".repeat(120);
        let uses = entered.add(format!("{long}\rb").as_bytes());
        assert_eq!(uses, [LineUse::TooLong(100)]);
        assert_eq!(entered.take_all(), format!("{} b", "a".repeat(101)));
        // What is behind a space at the bound is not lost without a word.
        let uses = entered.add(format!("{} b\r", "a".repeat(100)).as_bytes());
        assert_eq!(uses, [LineUse::TooLong(100)]);
    }

    #[test]
    fn a_message_has_no_secret() {
        let entered = entered();
        let secret = ["ghp_", "0123456789abcdefghijklmnopqrstuvwxyz"].concat();
        entered.add(format!("use {secret}\r").as_bytes());
        let messages = entered.messages(&Redactor::new([]));
        assert!(!messages[0].text.contains(&secret), "{messages:?}");
    }
}
