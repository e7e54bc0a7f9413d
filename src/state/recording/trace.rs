//! The trace of a step of a run: a directory with `trace.json`, `result.txt` and `status`, and with the results of its calls, for
//! this user only and without secrets. Traces are made from other data, for people. Therefore they are not synced to disk.

use super::{Redact, redact_value};
use crate::base::model::{RunId, StepEnd, StepStatus, truncated_result};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The maximum number of bytes of one file of a step.
const TRACE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of bytes of a text in a trace that is too long otherwise. JSON writes some characters as six bytes.
const TEXT_BYTES_MAX: u32 = 48 << 10;
/// The bytes that are kept of the result of a call that is too long. The rest is for the line about the missing ones.
const CALL_HEAD_BYTES: u32 = 512 << 10;
const CALL_TAIL_BYTES: u32 = 511 << 10;
/// The mode of the directories.
const DIRECTORY_MODE: u32 = 0o700;
/// The mode of the files.
const FILE_MODE: u32 = 0o600;
/// The directory of all runs.
pub(super) const RUNS: &str = "runs";
/// The file that is written when all steps of a run are. No step has a name with a dot.
const RUN_FILE: &str = "run.json";
/// The file that is written last for a step.
const STATUS_FILE: &str = "status";

/// Returns the directory with the traces of a run of a server.
pub fn run_directory(data: &Path, run: RunId) -> PathBuf {
    data.join(RUNS).join(run.to_string())
}

/// Returns true if a directory has the traces of all steps of a run that has ended.
pub fn is_run_traced(directory: &Path) -> bool {
    directory.join(RUN_FILE).is_file()
}

/// Writes the facts about a run whose steps are all traced.
pub fn end_run(directory: &Path, mut facts: Value, redact: &Redact) -> std::io::Result<()> {
    create_trace_directory(directory)?;
    redact_value(&mut facts, redact);
    write(directory, RUN_FILE, &format!("{facts:#}\n"))
}

/// Sets the time by which the age of a run is known.
#[allow(clippy::disallowed_methods, reason = "traces are files of this module")]
pub fn set_run_time(directory: &Path, at: Timestamp) -> std::io::Result<()> {
    File::open(directory)?.set_modified(SystemTime::from(at))
}

/// The stream of a call, by which its file is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStream {
    /// The result of a call that worked.
    Stdout,
    /// The reason why a call failed.
    Stderr,
}

impl CallStream {
    /// Returns the word at the end of the name of its file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The trace of one step.
pub struct StepTrace {
    directory: PathBuf,
}

impl StepTrace {
    /// Opens the trace in a directory, which is created if it is missing.
    pub fn open(directory: PathBuf) -> std::io::Result<Self> {
        create_trace_directory(&directory)?;
        Ok(Self { directory })
    }

    /// Returns true if a directory has the trace of a step, up to its status.
    pub fn is_written(directory: &Path) -> bool {
        directory.join(STATUS_FILE).is_file()
    }

    /// Writes that the step runs.
    pub fn begin(&self) -> std::io::Result<()> {
        write(&self.directory, STATUS_FILE, StepStatus::Running.word())
    }

    /// Writes the result of a call, such as `calls/3.stdout`. One that is too long loses its middle.
    pub fn call(
        &self,
        number: usize,
        stream: CallStream,
        text: &str,
        redact: &Redact,
    ) -> std::io::Result<()> {
        let calls = self.directory.join("calls");
        create_trace_directory(&calls)?;
        let text = redact(text);
        let text = match text.len() > TRACE_BYTES_MAX {
            true => truncated_result(&text, CALL_HEAD_BYTES, CALL_TAIL_BYTES),
            false => text.as_str().into(),
        };
        write(&calls, &format!("{number}.{}", stream.word()), &text)
    }

    /// Writes the end of the step. `trace` is the object with its details. The status is written last.
    pub fn end(&self, end: &StepEnd, mut trace: Value, redact: &Redact) -> std::io::Result<()> {
        redact_value(&mut trace, redact);
        write(&self.directory, "trace.json", &bounded(trace))?;
        write(&self.directory, "result.txt", &redact(&end.output))?;
        write(&self.directory, STATUS_FILE, end.status.word())
    }
}

/// Returns the text of a trace. One that is too long loses the middle of its texts, then the calls of the model.
fn bounded(mut trace: Value) -> String {
    let text = format!("{trace:#}\n");
    if text.len() <= TRACE_BYTES_MAX {
        return text;
    }
    for field in ["prompt", "text", "why"] {
        let shortened = trace[field]
            .as_str()
            .map(|text| truncated_result(text, TEXT_BYTES_MAX / 16, TEXT_BYTES_MAX / 16 * 15).into_owned());
        if let Some(shortened) = shortened {
            trace[field] = shortened.into();
        }
    }
    let text = format!("{trace:#}\n");
    if text.len() <= TRACE_BYTES_MAX {
        return text;
    }
    let calls = trace["steps"].as_array().map_or(0, Vec::len);
    trace["steps"] = json!([]);
    trace["left_out"] = json!(format!(
        "{calls} calls of the model, because the trace was too long"
    ));
    format!("{trace:#}\n")
}

/// Creates a directory, with those above it.
pub fn create_trace_directory(directory: &Path) -> std::io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(directory)
}

/// Replaces a file at once by one that only this user can read.
pub(super) fn write(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let temporary = directory.join(format!("{name}.new"));
    match std::fs::remove_file(&temporary) {
        // A process that was killed may have left it.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&temporary)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(temporary, directory.join(name))
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests read their own files"
)]
mod tests {
    use super::{CallStream, StepTrace, TRACE_BYTES_MAX, bounded, end_run, is_run_traced};
    use crate::base::model::StepEnd;
    use crate::base::redact::Redactor;
    use crate::state::recording::Redact;
    use serde_json::{Value, json};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;

    const KEY: &str = "sk-ant-api03-q7Rk2ZpX9vTn4WbY6mLc8dHf3gJs5aQe";

    fn redact() -> Redact {
        let redactor = Redactor::new([]);
        Arc::new(move |text: &str| redactor.redact(text).into_owned())
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    /// CI-22, T87
    #[test]
    fn the_files_of_a_step_of_a_server_are_private_bounded_and_without_secrets() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("runs/7");
        let step = run.join("scan");
        assert!(!StepTrace::is_written(&step) && !is_run_traced(&run));
        let trace = StepTrace::open(step.clone()).unwrap();
        // A process that was killed has left a part of a file.
        std::fs::write(step.join("status.new"), "succ").unwrap();
        let long = format!("{KEY}\n{}", "x\n".repeat(TRACE_BYTES_MAX));
        trace.call(1, CallStream::Stdout, &long, &redact()).unwrap();
        trace
            .call(2, CallStream::Stderr, &format!("no {KEY}"), &redact())
            .unwrap();
        assert!(!StepTrace::is_written(&step));
        let end = StepEnd::succeeded(&format!("The key is {KEY}."));
        trace
            .end(&end, json!({ "text": end.output, "steps": [] }), &redact())
            .unwrap();
        end_run(&run, json!({ "why": KEY }), &redact()).unwrap();
        assert!(StepTrace::is_written(&step) && is_run_traced(&run));
        for name in [
            "scan/trace.json",
            "scan/result.txt",
            "scan/status",
            "scan/calls/1.stdout",
            "scan/calls/2.stderr",
            "run.json",
        ] {
            let text = std::fs::read_to_string(run.join(name)).unwrap();
            assert!(!text.contains(KEY), "{name}");
            assert!(text.len() <= TRACE_BYTES_MAX, "{name}: {}", text.len());
            assert_eq!(mode(&run.join(name)), 0o600, "{name}");
        }
        let shortened = std::fs::read_to_string(step.join("calls/1.stdout")).unwrap();
        assert!(shortened.contains("[...truncated "));
        for directory in [run.parent().unwrap(), &run, &step, &step.join("calls")] {
            assert_eq!(mode(directory), 0o700, "{}", directory.display());
        }
        assert_eq!(std::fs::read_dir(&step).unwrap().count(), 4);
    }

    #[test]
    fn a_trace_that_is_too_long_loses_the_middle_of_its_texts_and_then_the_calls() {
        let long = "x".repeat(2 * TRACE_BYTES_MAX);
        let text = bounded(json!({ "prompt": long, "text": "Done.", "steps": [{ "text": "one" }] }));
        assert!(text.len() < TRACE_BYTES_MAX, "{}", text.len());
        let trace: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&trace["text"], &trace["steps"][0]["text"]),
            (&json!("Done."), &json!("one"))
        );
        let text = bounded(json!({ "text": "Done.", "steps": [{ "text": long }] }));
        let trace: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(trace["steps"], json!([]));
        // Characters that JSON writes as six bytes are counted too.
        let control = "\u{1}".repeat(TRACE_BYTES_MAX);
        let text = bounded(json!({ "prompt": control, "text": control, "why": control, "steps": [] }));
        assert!(text.len() <= TRACE_BYTES_MAX, "{}", text.len());
        assert_eq!(
            trace["left_out"],
            "1 calls of the model, because the trace was too long"
        );
    }
}
