//! The limits of one turn. Each of them is a key in the configuration file.

use super::AgentBounds;
use std::time::Duration;

/// The limits of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of model calls in one turn.
    pub steps_max: u32,
    /// The duration of one turn.
    pub turn_time_max: Duration,
    /// The number of tokens of one turn, input and output of all its calls; 0 means no limit.
    pub turn_tokens_max: u64,
    /// The number of tokens of one answer of the model.
    pub answer_tokens_max: u32,
    /// The number of tool calls in one answer; further calls are refused.
    pub calls_per_step_max: usize,
    /// The number of minutes that a question to the person waits for its answer.
    pub question_minutes_max: u32,
    /// The number of bytes of the arguments of one call.
    pub call_arguments_bytes_max: usize,
    /// The number of bytes of one tool result for the model; a longer result loses its middle, with a note.
    pub tool_output_bytes_max: usize,
    /// The number of identical calls, with the same arguments, before the turn is stopped.
    pub identical_calls_max: u32,
    /// The number of malformed calls in a row before the turn is stopped.
    pub malformed_calls_max: u32,
    /// The number of times that an answer is sent back to the model because checks of its edits fail.
    pub repairs_max: u32,
    /// The number of files that the changes of a conversation may write or delete.
    pub files_changed_max: usize,
    /// The number of lines that the changes of a conversation may add and remove, in all files.
    pub lines_changed_max: u64,
    /// The number of environments whose own files one change may modify; 0 means no limit.
    pub environments_changed_max: usize,
    /// The number of whole turns of history for the model.
    pub history_turns_max: usize,
    /// The number of bytes of one model request, with instructions and tools, whatever its tokens.
    pub history_bytes_max: usize,
    /// The way in which a conversation is shortened when it has used four fifths of its room.
    pub context_strategy: ContextStrategyName,
}

impl Limits {
    /// Returns these limits for an agent step of a pipeline: its steps and its time are those of the step, and its tokens
    /// are bounded by both.
    #[must_use]
    pub fn of_step(&self, bounds: &AgentBounds) -> Self {
        let tokens = [self.turn_tokens_max, bounds.max_tokens];
        Self {
            steps_max: bounds.max_steps,
            turn_time_max: bounds.timeout,
            turn_tokens_max: tokens.into_iter().filter(|tokens| *tokens > 0).min().unwrap_or(0),
            ..self.clone()
        }
    }
}

/// The name of a way to shorten a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextStrategyName {
    /// Results of older turns become placeholders, then whole turns are left out.
    #[default]
    Trim,
    /// The model summarises the oldest turns.
    Compact,
    /// The notes of the model stand for the oldest turns.
    Notes,
}

impl ContextStrategyName {
    /// The names.
    pub const ALL: [Self; 3] = [Self::Trim, Self::Compact, Self::Notes];
    /// The words of the names, as in the configuration.
    pub const WORDS: &'static [&'static str] = &["trim", "compact", "notes"];

    /// Returns the word of the name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Trim => "trim",
            Self::Compact => "compact",
            Self::Notes => "notes",
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_max: 20,
            turn_time_max: Duration::from_secs(600),
            turn_tokens_max: 0,
            answer_tokens_max: 8_192,
            calls_per_step_max: 16,
            question_minutes_max: 60,
            call_arguments_bytes_max: 65_536,
            tool_output_bytes_max: 65_536,
            identical_calls_max: 3,
            malformed_calls_max: 3,
            repairs_max: 3,
            files_changed_max: 50,
            lines_changed_max: 5_000,
            environments_changed_max: 0,
            history_turns_max: 1_000,
            history_bytes_max: 400_000,
            context_strategy: ContextStrategyName::Trim,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;
    use crate::base::model::AgentBounds;
    use std::time::Duration;

    /// CI-8
    #[test]
    fn the_defaults_are_twenty_steps_any_tokens_and_ten_minutes() {
        let Limits {
            steps_max,
            turn_tokens_max,
            turn_time_max,
            tool_output_bytes_max,
            ..
        } = Limits::default();
        assert_eq!((steps_max, turn_tokens_max), (20, 0));
        assert_eq!(turn_time_max, Duration::from_secs(600));
        // 4,096 bytes of the head of a result and 61,440 of its tail.
        assert_eq!(tool_output_bytes_max, 4_096 + 61_440);
    }
    #[test]
    fn a_step_has_its_own_steps_and_time_and_the_smaller_bound_of_tokens() {
        let limits = |own: u64, of_step: u64| {
            let bounds = AgentBounds {
                model: "anthropic/demo".to_owned(),
                base_url: None,
                max_steps: 40,
                max_tokens: of_step,
                max_cents: 0,
                timeout: Duration::from_secs(1_800),
                truncate_head: 4_096,
                truncate_tail: 61_440,
                tools: ["file_read".to_owned()].into(),
                may_edit: false,
                environments: None,
            };
            let limits = Limits {
                turn_tokens_max: own,
                ..Limits::default()
            };
            limits.of_step(&bounds)
        };
        for (own, of_step, tokens) in [(0, 0, 0), (0, 9, 9), (8, 0, 8), (8, 9, 8), (9, 8, 8)] {
            let expected = Limits {
                steps_max: 40,
                turn_time_max: Duration::from_secs(1_800),
                turn_tokens_max: tokens,
                ..Limits::default()
            };
            assert_eq!(limits(own, of_step), expected);
        }
    }
}
