//! The end of a step whose program has ended: its result without secrets and without paths of the machine.

use super::{RESULT, RESULT_BYTES_MAX, TaskError};
use crate::base::model::{StepEnd, plain_output, truncated_result};
use crate::base::redact::Redactor;
use crate::rendering::sandbox::{CommandOutput, Scratch, ScratchError};

/// The maximum number of bytes of the end of standard output that are the output of a step without a result.
const STDOUT_TAIL_BYTES: u32 = 64 << 10;
/// The maximum number of lines of standard error in the reason of a failure.
const ERROR_LINES_MAX: usize = 20;
/// The maximum number of characters of them.
const ERROR_CHARS_MAX: usize = 1_000;

/// Returns the end of the step of a program. The output of a failed one is kept as well, because later steps may need it.
pub(super) fn end(
    name: &str,
    ran: &CommandOutput,
    scratch: &Scratch,
    redactor: &Redactor,
) -> Result<StepEnd, TaskError> {
    let shown = |text: &str| {
        let text = plain_output(text);
        redactor.redact(&without_paths(&text, scratch)).into_owned()
    };
    let result = match scratch.read_home_file(RESULT, RESULT_BYTES_MAX) {
        Err(ScratchError::TooMuch) => return Err(TaskError::LargeResult),
        result => result?,
    };
    let output = match result {
        Some(bytes) => shown(&String::from_utf8(bytes).map_err(|_| TaskError::NotText)?),
        None => {
            let text = shown(&String::from_utf8_lossy(&ran.output));
            truncated_result(&text, 0, STDOUT_TAIL_BYTES).into_owned()
        }
    };
    let end = match ran.succeeded {
        true => StepEnd::succeeded(""),
        false => StepEnd::failed(failure(name, ran.code, &shown(&ran.last_errors))),
    };
    Ok(end.with_output(&output))
}

/// Replaces the paths of the directories of a program, which exist only while it runs.
fn without_paths(text: &str, scratch: &Scratch) -> String {
    let files = scratch.files().to_string_lossy().into_owned();
    let home = scratch.home().to_string_lossy().into_owned();
    let text = text.replace(&format!("{files}/"), "").replace(&files, ".");
    text.replace(&home, "$HOME")
}

/// Returns the reason of a failure: the exit code, and the last lines of the errors.
fn failure(name: &str, code: Option<i32>, errors: &str) -> String {
    let code = code.map_or_else(
        || "no exit code".to_owned(),
        |code| format!("the exit code {code}"),
    );
    let lines: Vec<&str> = errors.trim().lines().collect();
    let first = lines.len().saturating_sub(ERROR_LINES_MAX);
    let last = lines.get(first..).unwrap_or_default().join("\n");
    match last.is_empty() {
        true => format!("{name} ended with {code}"),
        false => format!("{name} ended with {code}: {}", last_chars(&last)),
    }
}

fn last_chars(text: &str) -> &str {
    let begin = text.char_indices().rev().nth(ERROR_CHARS_MAX - 1);
    begin.map_or(text, |(begin, _)| text.split_at(begin).1)
}
