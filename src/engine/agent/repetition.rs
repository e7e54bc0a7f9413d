//! Detects a model in a loop: the same call with the same result again and again, or one malformed call after the
//! other.

use super::calls::{CallOutcome, CallResult};
use crate::base::model::ToolCall;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A counter of repetitions within one turn.
#[derive(Debug)]
pub(super) struct Repetition {
    identical_max: u32,
    malformed_max: u32,
    seen: HashMap<u64, u32>,
    malformed: u32,
}

impl Repetition {
    pub(super) fn new(identical_max: u32, malformed_max: u32) -> Self {
        Self {
            identical_max,
            malformed_max,
            seen: HashMap::new(),
            malformed: 0,
        }
    }

    /// Counts the calls of one step. Returns the reason if the turn must stop. A successful write resets the count,
    /// because the same question may now have another answer.
    pub(super) fn observe(&mut self, calls: &[ToolCall], done: &[CallResult]) -> Option<String> {
        for (call, done) in calls.iter().zip(done) {
            match done.outcome {
                CallOutcome::Wrote => self.seen.clear(),
                CallOutcome::Malformed => self.malformed += 1,
                CallOutcome::Read | CallOutcome::Notified | CallOutcome::Failed | CallOutcome::Refused => {}
            }
            if done.outcome != CallOutcome::Malformed {
                self.malformed = 0;
            }
            if self.malformed >= self.malformed_max {
                return Some(format!(
                    "I stopped: the model made {} malformed tool calls in a row.",
                    self.malformed
                ));
            }
            let count = self.seen.entry(fingerprint(call, done)).or_default();
            *count += 1;
            if *count >= self.identical_max {
                return Some(format!(
                    "I stopped: the model repeated the same `{}` call {count} times.",
                    call.name
                ));
            }
        }
        None
    }
}

fn fingerprint(call: &ToolCall, done: &CallResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&call.name, &call.arguments, &done.result.content).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{CallOutcome, CallResult, Repetition};
    use crate::base::model::{ToolCall, ToolResult};

    fn call(arguments: &str, outcome: CallOutcome) -> ([ToolCall; 1], [CallResult; 1]) {
        let call = ToolCall {
            id: "c".into(),
            name: "file_read".into(),
            arguments: arguments.into(),
        };
        let result = ToolResult {
            call: "c".into(),
            content: "same".into(),
            is_error: false,
        };
        (
            [call],
            [CallResult {
                result,
                outcome,
                write_failure: None,
            }],
        )
    }

    fn observe(repetition: &mut Repetition, arguments: &str, outcome: CallOutcome) -> Option<String> {
        let (calls, done) = call(arguments, outcome);
        repetition.observe(&calls, &done)
    }

    /// T67
    #[test]
    fn the_third_identical_call_stops_the_turn() {
        let mut repetition = Repetition::new(3, 3);
        assert_eq!(observe(&mut repetition, "{}", CallOutcome::Read), None);
        assert_eq!(
            observe(&mut repetition, "{\"offset\":1}", CallOutcome::Read),
            None
        );
        assert_eq!(observe(&mut repetition, "{}", CallOutcome::Read), None);
        let why = observe(&mut repetition, "{}", CallOutcome::Read);
        assert_eq!(
            why.as_deref(),
            Some("I stopped: the model repeated the same `file_read` call 3 times.")
        );
    }

    #[test]
    fn a_write_in_between_starts_the_count_anew() {
        let mut repetition = Repetition::new(3, 3);
        for _ in 0..10 {
            assert_eq!(observe(&mut repetition, "{}", CallOutcome::Read), None);
            assert_eq!(observe(&mut repetition, "w", CallOutcome::Wrote), None);
        }
    }

    /// T59
    #[test]
    fn malformed_calls_in_a_row_stop_the_turn() {
        let mut repetition = Repetition::new(9, 3);
        assert_eq!(observe(&mut repetition, "a", CallOutcome::Malformed), None);
        assert_eq!(observe(&mut repetition, "b", CallOutcome::Malformed), None);
        assert_eq!(observe(&mut repetition, "c", CallOutcome::Read), None);
        assert_eq!(observe(&mut repetition, "d", CallOutcome::Malformed), None);
        assert_eq!(observe(&mut repetition, "e", CallOutcome::Malformed), None);
        assert!(observe(&mut repetition, "f", CallOutcome::Malformed).is_some());
    }
}
