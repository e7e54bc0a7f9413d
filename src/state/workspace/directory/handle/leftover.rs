//! Temporary files of runs that were killed while they wrote.

use super::{DiskEntry, Handle, disk_entry};
use crate::state::workspace::spelling::join;
use jiff::{SignedDuration, Timestamp};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

const BEGINNING: &str = ".drydock-";
const END: &str = ".tmp";
/// The time after which nobody writes a temporary file any more. The number of its process is not enough, because it may
/// be that of another machine or container.
const WRITTEN_TIME_MAX: SignedDuration = SignedDuration::from_mins(10);

/// Returns the name of a temporary file of this process.
pub(super) fn temporary_name(number: u64) -> String {
    format!("{BEGINNING}{}-{number}{END}", std::process::id())
}

impl Handle {
    /// Removes the temporary files in a directory whose processes have ended and that were not changed for a while, except
    /// the paths that `is_kept` names. What cannot be removed stays, because it is harmless.
    pub(in crate::state::workspace::directory) fn remove_leftovers(
        &self,
        directory: &str,
        is_kept: impl Fn(&str) -> bool,
        now: Timestamp,
    ) {
        let written_before = now.as_second().saturating_sub(WRITTEN_TIME_MAX.as_secs());
        for name in self.list(directory).unwrap_or_default() {
            let path = join(directory, &name);
            let is_old_file = || {
                self.stat(&path).is_ok_and(|stat| {
                    matches!(disk_entry(&stat), DiskEntry::File { .. }) && stat.st_mtime < written_before
                })
            };
            if is_leftover(&name) && !is_kept(&path) && is_old_file() {
                let _ = self.delete(&path);
            }
        }
    }
}

/// True for the name of a temporary file of a process that has ended. This process writes none at the same time.
fn is_leftover(name: &str) -> bool {
    let numbers = name
        .strip_prefix(BEGINNING)
        .and_then(|rest| rest.strip_suffix(END));
    let Some((process, number)) = numbers.and_then(|numbers| numbers.split_once('-')) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(process) || !is_number(number) {
        return false;
    }
    let process = process.parse().ok().and_then(Pid::from_raw);
    process.is_some_and(|process| process == getpid() || test_kill_process(process) == Err(Errno::SRCH))
}
