//! The traces of runs at a terminal: `runs/<run>/<step>/` with `trace.json`, `result.txt`, `status` and the results of calls, for
//! this user only and without secrets. Old runs are removed.

use crate::base::model::StepEnd;
use crate::base::redact::Redactor;
use crate::cli::CliError;
use crate::cli::output::Output;
use crate::cli::serve::{now, random};
use crate::cli::terminal::KeptCalls;
use crate::state::recording::{Redact, StepTrace, create_trace_directory, remove_run, traced_runs};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
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
        create_trace_directory(&own).map_err(failed)?;
        Ok(Self { directory: Some(own) })
    }

    /// Returns true if traces are wanted.
    pub(super) fn are_written(&self) -> bool {
        self.directory.is_some()
    }

    /// Writes that a step runs.
    pub(super) fn begin(&self, step: &str) -> std::io::Result<()> {
        match self.step(step)? {
            Some(trace) => trace.begin(),
            None => Ok(()),
        }
    }

    /// Writes the results of the calls of a step, then its end with the object that has its details.
    pub(super) fn end(
        &self,
        step: &str,
        (end, trace): (&StepEnd, Value),
        calls: Option<&KeptCalls>,
        redact: Option<Redact>,
    ) -> std::io::Result<()> {
        let Some(files) = self.step(step)? else {
            return Ok(());
        };
        let redact = redact.unwrap_or_else(known_formats);
        // A file that cannot be written keeps no other from it: what they have is to lose the secrets that are known by now.
        let mut written = Ok(());
        for call in calls.into_iter().flat_map(KeptCalls::files) {
            written = written.and(files.call(call.number, call.stream, call.text, &redact));
        }
        written.and(files.end(end, trace, &redact))
    }

    fn step(&self, step: &str) -> std::io::Result<Option<StepTrace>> {
        let directory = self.directory.as_ref();
        directory
            .map(|directory| StepTrace::open(directory.join(step)))
            .transpose()
    }
}

/// Returns the redaction of a run without a model: known formats of secrets.
pub(super) fn known_formats() -> Redact {
    let redactor = Redactor::new([]);
    Arc::new(move |text: &str| redactor.redact(text).into_owned())
}

/// Removes runs that are too old, and the oldest ones while there are too many or they are too large.
fn remove_old(runs: &Path, at: Timestamp) -> std::io::Result<()> {
    let mut kept = traced_runs(runs, is_run)?;
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
            removed = removed.and(remove_run(&run.path));
        }
    }
    removed
}

/// Returns true for the name of a run: a time, then eight hexadecimal digits.
fn is_run(name: &str) -> bool {
    let Some((time, digits)) = name.split_once('-') else {
        return false;
    };
    let is_time = time.len() == 16 && time.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'T' | b'Z'));
    is_time && digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "tests read their own files"
    )]
    use super::{RUNS_MAX, RunTraces, is_run, new_id, remove_old};
    use crate::base::model::StepEnd;
    use crate::base::spool::Spool;
    use crate::cli::output::Output;
    use crate::cli::terminal::KeptCalls;
    use crate::engine::pipeline::{CallFile, TracedCalls};
    use crate::state::recording::CallStream;
    use jiff::Timestamp;
    use serde_json::json;
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
        let calls = KeptCalls::new(
            TracedCalls {
                steps: Vec::new(),
                files: vec![CallFile {
                    number: 1,
                    stream: CallStream::Stderr,
                    text: KEY,
                }],
                without_file: 0,
            },
            &Spool::default(),
        );
        traces.end("scan", (&end, trace), Some(&calls), None).unwrap();
        assert_eq!(std::fs::read_to_string(step.join("status")).unwrap(), "succeeded");
        for name in ["trace.json", "result.txt", "status", "calls/1.stderr"] {
            let text = std::fs::read_to_string(step.join(name)).unwrap();
            assert!(!text.contains(KEY), "{name}: {text}");
            assert_eq!(mode(&step.join(name)), 0o600, "{name}");
        }
        for directory in [&step, &step.join("calls")] {
            assert_eq!(mode(directory), 0o700, "{}", directory.display());
        }
        assert_eq!(std::fs::read_dir(&step).unwrap().count(), 4);
        let none = RunTraces::open(None, &id, &Output::plain()).unwrap();
        assert!(traces.are_written() && !none.are_written());
        none.begin("scan").unwrap();
    }

    #[test]
    fn a_file_of_a_step_that_cannot_be_written_keeps_no_other_from_it() {
        let home = tempfile::tempdir().unwrap();
        let id = new_id();
        let traces = RunTraces::open(Some(home.path()), &id, &Output::plain()).unwrap();
        let step = home.path().join("runs").join(&id).join("scan");
        std::fs::create_dir_all(step.join("calls/1.stdout")).unwrap();
        let files = [(1, "one"), (2, "two")].map(|(number, text)| CallFile {
            number,
            stream: CallStream::Stdout,
            text,
        });
        let traced = TracedCalls {
            steps: Vec::new(),
            files: files.to_vec(),
            without_file: 0,
        };
        let calls = KeptCalls::new(traced, &Spool::default());
        let end = (&StepEnd::succeeded("Done."), json!({}));
        assert!(traces.end("scan", end, Some(&calls), None).is_err());
        for (name, text) in [("calls/2.stdout", "two"), ("status", "succeeded")] {
            assert_eq!(std::fs::read_to_string(step.join(name)).unwrap(), text, "{name}");
        }
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
}
