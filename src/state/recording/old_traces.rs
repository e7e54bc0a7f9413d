//! Removal of old traces of runs. The age of a run of a server is the time of its directory, which is that of its last step.

use super::trace::{RUNS, create_trace_directory, write};
use crate::state::store::Prune;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::fs::{DirEntry, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The maximum number of runs of a server whose traces are kept.
const RUNS_MAX: usize = 10_000;
/// The maximum number of bytes of the traces of a server.
const RUNS_BYTES_MAX: u64 = 1 << 30;
/// The file with the time of the newest run whose traces were removed. No run has this name.
const REMOVED_FILE: &str = "removed";

/// A run whose traces are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRun {
    /// The name of its directory.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// The bytes of its files.
    pub bytes: u64,
    /// The time of the directory.
    pub at: Timestamp,
}

/// The bounds of the traces of a server.
#[derive(Clone, Copy, Debug)]
struct TraceBounds {
    /// Older runs are removed; `None` if their age does not matter.
    before: Option<Timestamp>,
    runs_max: usize,
    bytes_max: u64,
}

/// Removes the traces of runs from before `before`, and the oldest ones while there are too many or they are too large. Returns
/// the number of runs.
pub fn prune_traces(data: &Path, before: Option<Timestamp>, prune: Prune) -> std::io::Result<u64> {
    let runs = data.join(RUNS);
    let bounds = TraceBounds {
        before,
        runs_max: RUNS_MAX,
        bytes_max: RUNS_BYTES_MAX,
    };
    let old = beyond(traced_runs(&runs, is_server_run)?, bounds);
    if let (Some(newest), Prune::Remove) = (old.iter().map(|run| run.at).max(), prune) {
        // Stored before the removal, so that a run that is not there any more is never traced again.
        let newest = removed_until(data).map_or(newest, |removed| removed.max(newest));
        create_trace_directory(&runs)?;
        write(&runs, REMOVED_FILE, &format!("{newest}\n"))?;
        old.iter().try_for_each(|run| remove_run(&run.path))?;
    }
    Ok(u64::try_from(old.len()).unwrap_or(u64::MAX))
}

/// Returns the time up to which traces were removed. Runs that ended until then are not traced again.
#[allow(clippy::disallowed_methods, reason = "traces are files of this module")]
pub fn removed_until(data: &Path) -> Option<Timestamp> {
    let text = std::fs::read_to_string(data.join(RUNS).join(REMOVED_FILE)).ok()?;
    text.trim().parse().ok()
}

/// Returns the runs that are beyond the bounds, the newest first.
fn beyond(mut runs: Vec<TracedRun>, bounds: TraceBounds) -> Vec<TracedRun> {
    runs.sort_by_key(|run| Reverse(run.at));
    let mut bytes = 0_u64;
    let mut old = Vec::new();
    for (index, run) in runs.into_iter().enumerate() {
        bytes = bytes.saturating_add(run.bytes);
        let is_too_old = bounds.before.is_some_and(|before| run.at < before);
        if is_too_old || index >= bounds.runs_max || bytes > bounds.bytes_max {
            old.push(run);
        }
    }
    old
}

/// Returns true for the name of a run of a server: its number.
fn is_server_run(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the runs in a directory whose names fit. Other files, and links, are left alone. Another process may write or remove
/// them meanwhile.
pub fn traced_runs(runs: &Path, is_run: impl Fn(&str) -> bool) -> std::io::Result<Vec<TracedRun>> {
    let mut found = Vec::new();
    for entry in entries(runs)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_run(&name) || !is_directory(&entry)? {
            continue;
        }
        let path = entry.path();
        let Some(facts) = present_or(entry.metadata().map(Some), None)? else {
            continue;
        };
        found.push(TracedRun {
            name,
            bytes: bytes_below(&path)?,
            at: modified(&facts)?,
            path,
        });
    }
    Ok(found)
}

/// Removes the traces of a run. Another process may remove the same one.
pub fn remove_run(directory: &Path) -> std::io::Result<()> {
    present_or(std::fs::remove_dir_all(directory), ())
}

fn modified(facts: &Metadata) -> std::io::Result<Timestamp> {
    Timestamp::try_from(facts.modified()?).map_err(std::io::Error::other)
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

/// Returns the bytes of the files of a run.
fn bytes_below(run: &Path) -> std::io::Result<u64> {
    let mut waiting = vec![run.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = waiting.pop() {
        for entry in entries(&directory)? {
            match is_directory(&entry)? {
                true => waiting.push(entry.path()),
                false => bytes += present_or(entry.metadata().map(|facts| facts.len()), 0)?,
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests read their own files"
)]
mod tests {
    use super::{
        TraceBounds, TracedRun, beyond, bytes_below, present_or, prune_traces, removed_until, traced_runs,
    };
    use crate::state::recording::{create_trace_directory, set_run_time};
    use crate::state::store::Prune;
    use jiff::Timestamp;
    use std::path::Path;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 3_600 * hour).unwrap()
    }

    fn put(data: &Path, name: &str, hour: i64) {
        let run = data.join("runs").join(name);
        create_trace_directory(&run.join("scan/calls")).unwrap();
        std::fs::write(run.join("scan/status"), "succeeded").unwrap();
        std::fs::write(run.join("scan/calls/1.stdout"), "x").unwrap();
        set_run_time(&run, at(hour)).unwrap();
    }

    /// CI-22
    #[test]
    fn old_traces_of_a_server_are_removed_for_ever_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path();
        assert_eq!(prune_traces(data, Some(at(0)), Prune::Remove).unwrap(), 0);
        assert_eq!(removed_until(data), None);
        for (name, hour) in [("7", 0), ("8", 2), ("9", 3), ("20260301T115959Z-00000000", 0)] {
            put(data, name, hour);
        }
        assert_eq!(prune_traces(data, Some(at(3)), Prune::DryRun).unwrap(), 2);
        assert!(data.join("runs/7").exists() && removed_until(data).is_none());
        assert_eq!(prune_traces(data, Some(at(3)), Prune::Remove).unwrap(), 2);
        let left = |name: &str| data.join("runs").join(name).exists();
        assert!(!left("7") && !left("8") && left("9") && left("20260301T115959Z-00000000"));
        assert_eq!(removed_until(data), Some(at(2)));
        // Without an age only the size counts, and the time never goes back.
        assert_eq!(prune_traces(data, None, Prune::Remove).unwrap(), 0);
        put(data, "3", 1);
        assert_eq!(prune_traces(data, Some(at(3)), Prune::Remove).unwrap(), 1);
        assert_eq!(removed_until(data), Some(at(2)));
    }

    /// CI-22
    #[test]
    fn the_oldest_traces_go_while_there_are_too_many_or_they_are_too_large() {
        let run = |name: &str, hour, bytes| TracedRun {
            name: name.to_owned(),
            path: name.into(),
            bytes,
            at: at(hour),
        };
        let runs = vec![run("1", 1, 10), run("2", 2, 10), run("3", 3, 10)];
        let names = |runs_max, bytes_max| {
            let bounds = TraceBounds {
                before: None,
                runs_max,
                bytes_max,
            };
            let old = beyond(runs.clone(), bounds).into_iter();
            old.map(|run| run.name).collect::<Vec<_>>()
        };
        assert_eq!(names(3, 30), Vec::<String>::new());
        assert_eq!(names(2, 30), ["1"]);
        assert_eq!(names(3, 29), ["1"]);
        assert_eq!(names(3, 10), ["2", "1"]);
        assert_eq!(names(0, 30), ["3", "2", "1"]);
    }

    #[test]
    fn what_another_run_removes_meanwhile_is_no_error() {
        let home = tempfile::tempdir().unwrap();
        let absent = home.path().join("20260331T110000Z-00000000");
        assert_eq!(bytes_below(&absent).unwrap(), 0);
        assert!(traced_runs(&absent, |_| true).unwrap().is_empty());
        assert!(present_or(std::fs::remove_dir_all(&absent), ()).is_ok());
        std::fs::write(&absent, "a file").unwrap();
        assert!(bytes_below(&absent).is_err());
    }
}
