//! The traces of runs at a terminal: `runs/<run>/<step>/` with `trace.json`, `result.txt` and `status`, for this user only
//! and without secrets. Old runs are removed.

use crate::base::model::{StepEnd, StepStatus, truncated_result};
use crate::base::redact::Redactor;
use crate::cli::CliError;
use crate::cli::output::Output;
use crate::cli::private_file::replace;
use crate::cli::serve::{now, random};
use crate::state::recording::{Redact, redact_value};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::fs::{DirBuilder, DirEntry};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum age of a run in days.
const RUN_DAYS_MAX: i64 = 30;
/// The maximum time of a run in hours. The files of a younger one may still be written.
const RUN_HOURS_MAX: i64 = 24;
/// The maximum number of runs that are kept. Younger ones are kept in any case.
const RUNS_MAX: usize = 100;
/// The maximum number of bytes of all runs.
const RUNS_BYTES_MAX: u64 = 256 << 20;
/// The maximum number of bytes of one file of a step.
const TRACE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of bytes of a text in a trace that is too long otherwise.
const TEXT_BYTES_MAX: u32 = 128 << 10;
/// The mode of the directories.
const DIRECTORY_MODE: u32 = 0o700;
/// The form of the time at the beginning of the name of a run.
const TIME_FORM: &str = "%Y%m%dT%H%M%SZ";

/// Returns the name of a new run: the time, by which runs are sorted, and random digits.
pub(super) fn new_id() -> String {
    let [first, second, third, fourth, ..] = random();
    format!(
        "{}-{}",
        time_of(now()),
        hex::encode([first, second, third, fourth])
    )
}

fn time_of(at: Timestamp) -> String {
    at.strftime(TIME_FORM).to_string()
}

/// The traces of one run, if they are wanted.
pub(super) struct RunTraces {
    directory: Option<PathBuf>,
}

impl RunTraces {
    /// Creates the directory of a run below `directory`, and removes old runs. Without a directory nothing is written.
    pub(super) fn open(directory: Option<&Path>, run: &str, output: &Output) -> Result<Self, CliError> {
        let Some(directory) = directory else {
            return Ok(Self { directory: None });
        };
        let runs = directory.join("runs");
        let failed = |error: std::io::Error| {
            CliError::failed(format!("runs cannot be recorded in {}: {error}", runs.display()))
        };
        if let Err(error) = remove_old(&runs, now()) {
            let why = format!("Old runs in {} were not removed: {error}", runs.display());
            output.message(&why);
        }
        let own = runs.join(run);
        create(&own).map_err(failed)?;
        Ok(Self { directory: Some(own) })
    }

    /// Writes that a step runs.
    pub(super) fn begin(&self, step: &str) -> std::io::Result<()> {
        let Some(directory) = self.step(step)? else {
            return Ok(());
        };
        write(&directory, "status", StepStatus::Running.word())
    }

    /// Writes the end of a step. `trace` is the object with its details.
    pub(super) fn end(
        &self,
        step: &str,
        end: &StepEnd,
        mut trace: Value,
        redact: Option<Redact>,
    ) -> std::io::Result<()> {
        let Some(directory) = self.step(step)? else {
            return Ok(());
        };
        let redact = redact.unwrap_or_else(known_formats);
        redact_value(&mut trace, &redact);
        write(&directory, "trace.json", &bounded(trace))?;
        write(&directory, "result.txt", &redact(&end.output))?;
        write(&directory, "status", end.status.word())
    }

    fn step(&self, step: &str) -> std::io::Result<Option<PathBuf>> {
        let Some(directory) = &self.directory else {
            return Ok(None);
        };
        let directory = directory.join(step);
        create(&directory)?;
        Ok(Some(directory))
    }
}

/// Returns the redaction of a run without a model: known formats of secrets.
pub(super) fn known_formats() -> Redact {
    let redactor = Redactor::new([]);
    Arc::new(move |text: &str| redactor.redact(text).into_owned())
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

fn create(directory: &Path) -> std::io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(directory)
}

fn write(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    replace(
        &directory.join(format!("{name}.new")),
        &directory.join(name),
        text.as_bytes(),
    )
}

/// A run that is kept, with the size of its files.
struct KeptRun {
    name: String,
    bytes: u64,
}

/// Removes runs that are too old, and the oldest ones while there are too many or they are too large.
fn remove_old(runs: &Path, at: Timestamp) -> std::io::Result<()> {
    let mut kept = kept_runs(runs)?;
    kept.sort_by(|one, other| other.name.cmp(&one.name));
    let before = |hours| {
        let earlier = at.checked_sub(SignedDuration::from_hours(hours));
        time_of(earlier.unwrap_or(at))
    };
    let (oldest, ended) = (before(24 * RUN_DAYS_MAX), before(RUN_HOURS_MAX));
    let mut bytes = 0_u64;
    let mut removed = Ok(());
    for (index, run) in kept.iter().enumerate() {
        bytes = bytes.saturating_add(run.bytes);
        // The new run is one of them.
        let is_beyond = run.name < oldest || index + 1 >= RUNS_MAX || bytes > RUNS_BYTES_MAX;
        if is_beyond && run.name < ended {
            // Another run may remove the same one.
            let result = present_or(std::fs::remove_dir_all(runs.join(&run.name)), ());
            removed = removed.and(result);
        }
    }
    removed
}

/// Returns `absent` instead of the error that a file does not exist.
fn present_or<T>(result: std::io::Result<T>, absent: T) -> std::io::Result<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(absent),
        other => other,
    }
}

/// Returns the entries of a directory; none if it does not exist.
fn entries(directory: &Path) -> std::io::Result<Vec<DirEntry>> {
    let entries = present_or(std::fs::read_dir(directory).map(Some), None)?;
    entries.into_iter().flatten().collect()
}

/// Returns true for a directory that exists.
fn is_directory(entry: &DirEntry) -> std::io::Result<bool> {
    present_or(entry.file_type().map(|kind| kind.is_dir()), false)
}

/// Returns the runs in a directory. Other files, and links, are left alone.
fn kept_runs(runs: &Path) -> std::io::Result<Vec<KeptRun>> {
    let mut kept = Vec::new();
    for entry in entries(runs)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_run(&name) && is_directory(&entry)? {
            let bytes = bytes_below(&entry.path())?;
            kept.push(KeptRun { name, bytes });
        }
    }
    Ok(kept)
}

/// Returns true for the name of a run: a time, then eight hexadecimal digits.
fn is_run(name: &str) -> bool {
    let Some((time, digits)) = name.split_once('-') else {
        return false;
    };
    let is_time = time.len() == 16 && time.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'T' | b'Z'));
    is_time && digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the bytes of the files of the steps of a run. Another run may write or remove them meanwhile.
fn bytes_below(run: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for step in entries(run)? {
        if !is_directory(&step)? {
            continue;
        }
        for file in entries(&step.path())? {
            bytes += present_or(file.metadata().map(|facts| facts.len()), 0)?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "tests read their own files"
    )]
    use super::{
        RUNS_MAX, RunTraces, TRACE_BYTES_MAX, bounded, bytes_below, is_run, kept_runs, new_id, present_or,
        remove_old,
    };
    use crate::base::model::StepEnd;
    use crate::cli::output::Output;
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const KEY: &str = "sk-ant-api03-q7Rk2ZpX9vTn4WbY6mLc8dHf3gJs5aQe";

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    /// CI-22
    #[test]
    fn the_files_of_a_step_are_private_and_without_secrets() {
        let home = tempfile::tempdir().unwrap();
        let id = new_id();
        assert!(is_run(&id), "{id}");
        let traces = RunTraces::open(Some(home.path()), &id, &Output::plain()).unwrap();
        traces.begin("scan").unwrap();
        let step = home.path().join("runs").join(&id).join("scan");
        assert_eq!(std::fs::read_to_string(step.join("status")).unwrap(), "running");
        let end = StepEnd::succeeded(&format!("The key is {KEY}."));
        let trace = json!({ "text": end.output, "steps": [{ "text": KEY }] });
        traces.end("scan", &end, trace, None).unwrap();
        assert_eq!(std::fs::read_to_string(step.join("status")).unwrap(), "succeeded");
        for name in ["trace.json", "result.txt", "status"] {
            let text = std::fs::read_to_string(step.join(name)).unwrap();
            assert!(!text.contains(KEY), "{name}: {text}");
            assert_eq!(mode(&step.join(name)), 0o600, "{name}");
        }
        assert_eq!(mode(&step), 0o700);
        assert_eq!(std::fs::read_dir(&step).unwrap().count(), 3);
        let none = RunTraces::open(None, &id, &Output::plain()).unwrap();
        none.begin("scan").unwrap();
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
        assert_eq!(
            trace["left_out"],
            "1 calls of the model, because the trace was too long"
        );
    }

    #[test]
    fn old_runs_and_those_beyond_the_number_are_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let runs = home.path();
        let at: Timestamp = "2026-03-31T12:00:00Z".parse().unwrap();
        let put = |name: &str| {
            std::fs::create_dir_all(runs.join(name).join("scan")).unwrap();
            std::fs::write(runs.join(name).join("scan/status"), "succeeded").unwrap();
        };
        put("20260301T115959Z-00000000");
        put("20260301T120001Z-00000001");
        put("notes");
        remove_old(runs, at).unwrap();
        assert!(!runs.join("20260301T115959Z-00000000").exists());
        assert!(runs.join("20260301T120001Z-00000001").exists() && runs.join("notes").exists());
        for number in 0..RUNS_MAX {
            put(&format!("20260330T110000Z-{number:08}"));
        }
        remove_old(runs, at).unwrap();
        // One place is for the run that begins.
        assert_eq!(std::fs::read_dir(runs).unwrap().count(), RUNS_MAX);
        assert!(!runs.join("20260301T120001Z-00000001").exists());
        assert!(!runs.join("20260330T110000Z-00000000").exists());
        // Runs of the last day may still write.
        for number in 0..RUNS_MAX {
            put(&format!("20260331T110000Z-{number:08}"));
        }
        remove_old(runs, at).unwrap();
        assert_eq!(std::fs::read_dir(runs).unwrap().count(), RUNS_MAX + 1);
        assert!(runs.join("20260331T110000Z-00000000").exists());
    }

    #[test]
    fn what_another_run_removes_meanwhile_is_no_error() {
        let home = tempfile::tempdir().unwrap();
        let absent = home.path().join("20260331T110000Z-00000000");
        assert_eq!(bytes_below(&absent).unwrap(), 0);
        assert!(kept_runs(&absent).unwrap().is_empty());
        assert!(present_or(std::fs::remove_dir_all(&absent), ()).is_ok());
        std::fs::write(&absent, "a file").unwrap();
        assert!(bytes_below(&absent).is_err());
    }
}
