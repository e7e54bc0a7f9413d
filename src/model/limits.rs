//! The bounds of one turn. Every one of them is a key in the configuration file.

use std::time::Duration;

/// The bounds of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model calls in one turn.
    pub steps_max: u32,
    /// Wall clock of one turn.
    pub turn_time_max: Duration,
    /// Tokens of one turn, input and output of all its calls; 0 means no bound.
    pub turn_tokens_max: u64,
    /// Tokens one answer of the model may have.
    pub answer_tokens_max: u32,
    /// Tool calls in one answer; the rest are refused as results.
    pub calls_per_step_max: usize,
    /// Bytes of the arguments of one call.
    pub call_arguments_bytes_max: usize,
    /// Bytes of one tool result that reach the model; the middle is cut and says so.
    pub tool_output_bytes_max: usize,
    /// Times the same call with the same arguments may repeat before the turn is stopped.
    pub identical_calls_max: u32,
    /// Malformed calls in a row before the turn is stopped.
    pub malformed_calls_max: u32,
    /// Times an answer is sent back to the model because our checks of its edits fail.
    pub repairs_max: u32,
    /// Files one turn may write or delete.
    pub files_changed_max: usize,
    /// Environments whose own files one change may touch; 0 means no bound.
    pub environments_changed_max: usize,
    /// Whole turns of history the model sees.
    pub history_turns_max: usize,
    /// Bytes of one model request, with instructions and tools: older turns are left out first, then results of earlier
    /// steps are shortened.
    pub history_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_max: 20,
            turn_time_max: Duration::from_secs(600),
            turn_tokens_max: 0,
            answer_tokens_max: 8_192,
            calls_per_step_max: 16,
            call_arguments_bytes_max: 65_536,
            tool_output_bytes_max: 65_536,
            identical_calls_max: 3,
            malformed_calls_max: 3,
            repairs_max: 2,
            files_changed_max: 50,
            environments_changed_max: 0,
            history_turns_max: 40,
            history_bytes_max: 400_000,
        }
    }
}
