//! Trimming of a conversation: results and attachments of older turns become placeholders, then whole turns are left out. A summary may
//! stand for them. The boundary is stored and only moves forward, so requests begin with the same bytes until the next
//! trim.

use super::{Assistant, History, Step, Turn};
use crate::base::model::{ASK_USER, OutputNumber, TurnId};
use std::sync::Arc;

/// The beginning of the text that replaces a result.
const PLACEHOLDER: &str = "[trimmed]";

/// The stored turns up to which a conversation was trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimBoundary {
    /// The newest turn whose results are placeholders.
    pub trimmed: Option<TurnId>,
    /// The newest turn that is left out.
    pub dropped: Option<TurnId>,
}

impl TrimBoundary {
    /// Returns true if the results of a turn are placeholders.
    pub fn is_trimmed(self, turn: TurnId) -> bool {
        self.trimmed >= Some(turn)
    }
}

/// The state of a conversation's context that is stored with each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextState {
    /// The turns up to which it was trimmed.
    pub boundary: TrimBoundary,
    /// Bytes of its requests in a thousand tokens, as the provider counted them; `None` before its first answer.
    pub bytes_per_1000_tokens: Option<u32>,
    /// The text that stands for the turns that are left out, if there is one.
    pub summary: Option<Arc<str>>,
}

/// The answer to the text that stands for turns that are left out.
const SUMMARY_READ: &str = "I have read it.";

impl Step {
    /// Returns the step with placeholders instead of results. Calls keep their ids, and a result that was stored keeps
    /// its reference. The answers of the person stay.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        let calls = self.assistant.calls();
        for (call, result) in calls.zip(&mut self.results) {
            if call.name == ASK_USER {
                continue;
            }
            result.content = match OutputNumber::in_shortened_result(&result.content) {
                Some((number, kept)) => format!("{PLACEHOLDER} {}", number.note(kept)),
                None => PLACEHOLDER.to_owned(),
            };
        }
        self.bytes = self.bytes.with_results(&self.results);
        self
    }
}

impl Turn {
    /// Returns the stored turn that it was read from.
    pub fn id(&self) -> Option<TurnId> {
        self.id
    }

    fn trim(&mut self) {
        self.trim_attachments();
        let steps = std::mem::take(&mut self.steps);
        self.bytes = self.user_bytes();
        for step in Arc::unwrap_or_clone(steps) {
            self.push(step.trimmed());
        }
    }
}

impl History {
    /// Creates an empty history for turns that are read from the store, with the boundary of their conversation.
    pub fn with_boundary(boundary: TrimBoundary) -> Self {
        Self {
            boundary,
            ..Self::default()
        }
    }

    /// Returns the maximum number of bytes of all turns in a request.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the turns up to which the conversation was trimmed.
    pub fn boundary(&self) -> TrimBoundary {
        self.boundary
    }

    /// Returns the number of turns at the beginning whose results are placeholders.
    pub fn trimmed_turns(&self) -> usize {
        self.trimmed
    }

    /// Records that the turns up to this one are not part of the history.
    pub fn leave_out_up_to(&mut self, turn: TurnId) {
        self.boundary.dropped = self.boundary.dropped.max(Some(turn));
    }

    /// Trims closed turns, the oldest first, until all turns have at most `bytes_max` bytes: their results become
    /// placeholders; if that is not enough, whole turns are left out.
    pub fn trim(&mut self, bytes_max: usize) {
        let closed = self.closed_turns();
        while self.bytes > bytes_max
            && self.trimmed < closed
            && let Some(turn) = self.turns.get_mut(self.trimmed)
        {
            self.bytes -= turn.bytes;
            turn.trim();
            self.bytes += turn.bytes;
            self.boundary.trimmed = self.boundary.trimmed.max(turn.id);
            self.trimmed += 1;
        }
        self.drop_oldest(self.turns_over(bytes_max));
    }

    /// Returns the number of the oldest closed turns to leave out so that all turns have at most `bytes_max` bytes.
    pub fn turns_over(&self, bytes_max: usize) -> usize {
        let (mut bytes, mut count) = (self.bytes, 0);
        for turn in self.earlier_turns() {
            if bytes <= bytes_max {
                break;
            }
            bytes -= turn.bytes;
            count += 1;
        }
        count
    }

    /// Returns the closed turns, oldest first, without the summary.
    pub fn earlier_turns(&self) -> &[Turn] {
        self.turns
            .get(self.summary_turns()..self.closed_turns())
            .unwrap_or_default()
    }

    /// Returns the text that stands for the turns that are left out.
    pub fn summary(&self) -> Option<&Arc<str>> {
        self.summary.as_ref()
    }

    /// Begins with a text that stands for the turns that are left out. Replaces such a text.
    pub fn begin_summary(&mut self, text: Arc<str>) {
        let Ok(read) = Step::new(Assistant::synthetic(SUMMARY_READ), Vec::new()) else {
            return;
        };
        let mut turn = Turn::new(None, text.to_string());
        turn.push(read);
        self.bytes += turn.bytes;
        if self.summary.replace(text).is_none() {
            self.trimmed += 1;
            self.turns.insert(0, turn);
        } else if let Some(first) = self.turns.first_mut() {
            self.bytes -= first.bytes;
            *first = turn;
        }
    }

    /// Replaces this number of the oldest closed turns, and an earlier summary, by a text that stands for them.
    pub fn summarise(&mut self, turns: usize, text: Arc<str>) {
        self.drop_oldest(turns.min(self.earlier_turns().len()));
        self.begin_summary(text);
    }

    /// Returns the number of turns at the beginning that hold a summary.
    pub(super) fn summary_turns(&self) -> usize {
        usize::from(self.summary.is_some())
    }

    /// Leaves out the oldest closed turns until there are at most `turns_max` turns.
    pub fn keep_newest(&mut self, turns_max: usize) {
        let more = self.turns.len().saturating_sub(turns_max);
        self.drop_oldest(more.min(self.earlier_turns().len()));
    }

    fn closed_turns(&self) -> usize {
        match self.turns.last() {
            Some(turn) if !turn.is_closed() => self.turns.len() - 1,
            Some(_) | None => self.turns.len(),
        }
    }

    fn drop_oldest(&mut self, count: usize) {
        let first = self.summary_turns();
        for turn in self.turns.drain(first..first + count) {
            self.bytes -= turn.bytes;
            self.boundary.dropped = self.boundary.dropped.max(turn.id);
        }
        self.trimmed = self.trimmed.saturating_sub(count).max(first);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ContextState, TrimBoundary};
    use crate::base::model::{
        Assistant, ContentBlock, History, Step, StopReason, ToolCall, ToolResult, Turn, TurnId, Usage,
    };

    fn reads(id: &str, content: &str) -> Step {
        let call = ToolCall {
            id: id.to_owned(),
            name: "file_read".to_owned(),
            arguments: "{}".into(),
        };
        let assistant = Assistant {
            blocks: vec![ContentBlock::Call(call)],
            raw: None,
            stop: StopReason::ToolUse,
            usage: Usage::default(),
        };
        let result = ToolResult {
            call: id.to_owned(),
            content: content.to_owned(),
            is_error: true,
        };
        Step::new(assistant, vec![result]).unwrap()
    }

    fn history(boundary: TrimBoundary, turns: std::ops::RangeInclusive<i64>) -> History {
        let mut history = History::with_boundary(boundary);
        for turn in turns {
            history
                .begin_stored(TurnId(turn), format!("turn {turn}"))
                .unwrap();
            let step = reads(&turn.to_string(), &"x".repeat(1_000));
            let step = match boundary.is_trimmed(TurnId(turn)) {
                true => step.trimmed(),
                false => step,
            };
            history.push(step).unwrap();
            history.close("done");
        }
        history
    }

    fn contents(history: &History) -> Vec<(&str, &str, bool)> {
        let steps = history.turns().iter().flat_map(Turn::steps);
        let results = steps.flat_map(Step::results);
        results
            .map(|result| {
                (
                    result.call.as_str(),
                    result.content.get(..9).unwrap(),
                    result.is_error,
                )
            })
            .collect()
    }

    fn counted(history: &History) -> usize {
        history.turns().iter().map(Turn::bytes).sum()
    }

    /// SDK-16, STK-54, STK-52
    #[test]
    fn results_become_placeholders_first_and_then_whole_turns_are_left_out() {
        let mut history = history(TrimBoundary::default(), 1..=4);
        history.begin("now").unwrap();
        let all = history.bytes();
        assert_eq!(all, counted(&history));
        history.trim(all);
        assert_eq!(history.boundary(), TrimBoundary::default());
        history.trim(all - 1_500);
        assert_eq!(
            contents(&history),
            [
                ("1", "[trimmed]", true),
                ("2", "[trimmed]", true),
                ("3", "xxxxxxxxx", true),
                ("4", "xxxxxxxxx", true)
            ]
        );
        let boundary = TrimBoundary {
            trimmed: Some(TurnId(2)),
            dropped: None,
        };
        assert_eq!((history.boundary(), history.trimmed_turns()), (boundary, 2));
        assert_eq!(history.bytes(), counted(&history));
        history.trim(1_400);
        let users: Vec<&str> = history.turns().iter().map(Turn::user).collect();
        assert_eq!(users, ["turn 4", "now"]);
        let boundary = TrimBoundary {
            trimmed: Some(TurnId(4)),
            dropped: Some(TurnId(3)),
        };
        assert_eq!((history.boundary(), history.trimmed_turns()), (boundary, 1));
        assert!(history.bytes() <= 1_400 && history.bytes() == counted(&history));
        // The open turn stays, whatever the bound.
        history.trim(0);
        assert_eq!((history.turns().len(), history.turns()[0].user()), (1, "now"));
    }

    /// STK-56
    #[test]
    fn turns_that_are_read_again_are_trimmed_as_they_were() {
        let mut first = history(TrimBoundary::default(), 1..=6);
        first.trim(first.bytes() - 3_500);
        let again = history(first.boundary(), 1..=6);
        assert_eq!(contents(&again), contents(&first));
        assert_eq!(
            (again.bytes(), again.trimmed_turns()),
            (first.bytes(), first.trimmed_turns())
        );
        let mut first = again;
        first.keep_newest(3);
        assert_eq!(first.boundary().dropped, Some(TurnId(3)));
        assert_eq!(first.bytes(), counted(&first));
        first.leave_out_up_to(TurnId(1));
        assert_eq!(first.boundary().dropped, Some(TurnId(3)));
        assert_eq!(ContextState::default().bytes_per_1000_tokens, None);
    }

    #[test]
    fn the_placeholder_of_a_stored_result_keeps_its_reference() {
        let line = "head\n[...truncated 9 bytes...] (`read_output` with ref=out-7 reads all of it)\ntail";
        let step = reads("1", line).trimmed();
        let content = step.results().first().map(|result| result.content.as_str());
        assert_eq!(
            content,
            Some("[trimmed] (`read_output` with ref=out-7 reads all of it)")
        );
        // Trimming it again changes nothing.
        assert_eq!(step.clone().trimmed().results(), step.results());
    }
}
