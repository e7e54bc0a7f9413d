//! A watch over the files of a directory, with their timestamps, because macOS does not report who opens a file.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The files of a directory, each with the times of its last use, change and change of state.
type Times = BTreeMap<PathBuf, [(i64, i64); 3]>;

/// A watch over the files of a directory.
pub(crate) struct FileWatch {
    directory: PathBuf,
    seen: Mutex<Times>,
}

impl FileWatch {
    pub(crate) fn of(directory: &Path) -> Self {
        let directory = directory.to_owned();
        let seen = Mutex::new(unused(&directory));
        Self { directory, seen }
    }

    /// Returns the files that were read, created, changed or deleted.
    pub(crate) fn since_the_last_look(&self) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap();
        let now = times(&self.directory);
        let all = seen.keys().chain(now.keys());
        let mut touched: Vec<String> = all
            .filter(|file| seen.get(*file) != now.get(*file))
            .map(|file| file.display().to_string())
            .collect();
        touched.sort();
        touched.dedup();
        *seen = unused(&self.directory);
        touched
    }
}

/// Sets the last access of each file to a time far in the past. The system updates it only if it is older than the last
/// change.
fn unused(directory: &Path) -> Times {
    for file in times(directory).keys() {
        let long_ago = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let kept = std::fs::metadata(file).unwrap();
        let changed = Timespec {
            tv_sec: kept.mtime(),
            tv_nsec: kept.mtime_nsec(),
        };
        let times = Timestamps {
            last_access: long_ago,
            last_modification: changed,
        };
        utimensat(CWD, file, &times, AtFlags::empty()).unwrap();
    }
    times(directory)
}

fn times(directory: &Path) -> Times {
    let entries = std::fs::read_dir(directory).unwrap();
    let files = entries.map(|entry| {
        let file = entry.unwrap().path();
        let about = std::fs::symlink_metadata(&file).unwrap();
        let times = [
            (about.atime(), about.atime_nsec()),
            (about.mtime(), about.mtime_nsec()),
            (about.ctime(), about.ctime_nsec()),
        ];
        (file, times)
    });
    files.collect()
}
