//! The log of a supervised server: a file of bounded size and the one before it. A log line is one JSON object.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the file in the data directory.
pub(super) const LOG: &str = "service.log";
/// The name of the file before it.
const OLDER_LOG: &str = "service.log.1";
/// Bytes of one file. The next one begins with the line that does not fit.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Longest line in bytes. The rest is another line.
const LINE_BYTES_MAX: u64 = 128 << 10;

/// A log file to write to. Clones share it.
#[derive(Clone)]
pub(super) struct BoundedLog {
    state: Arc<Mutex<LogState>>,
}

struct LogState {
    directory: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl BoundedLog {
    /// Opens the log of a data directory, after its last line.
    pub(super) fn open(directory: &Path) -> std::io::Result<Self> {
        Self::with_bound(directory, FILE_BYTES_MAX)
    }

    fn with_bound(directory: &Path, bytes_max: u64) -> std::io::Result<Self> {
        let file = open_to_append(directory)?;
        let state = LogState {
            bytes: file.metadata()?.len(),
            directory: directory.to_owned(),
            file,
            bytes_max,
        };
        Ok(Self {
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// Writes the lines of a stream until it ends.
    pub(super) fn copy(&self, stream: impl Read) {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            }
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            self.write_line(&line);
        }
    }

    fn write_line(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop the server; the lines that do not fit are lost.
        let _lost = state.write(line);
    }
}

impl LogState {
    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        let after = self.bytes.saturating_add(line.len() as u64);
        if after > self.bytes_max && self.bytes > 0 {
            std::fs::rename(self.directory.join(LOG), self.directory.join(OLDER_LOG))?;
            self.file = open_to_append(&self.directory)?;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(line.len() as u64);
        self.file.write_all(line)
    }
}

/// Each write is one whole line.
impl Write for BoundedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.write_line(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Opens the log of a data directory to add lines.
pub(super) fn open_to_append(directory: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(directory.join(LOG))
}

/// A reader of the log, which continues in the next file when the log begins a new one.
pub(super) struct LogReader {
    path: PathBuf,
    file: BufReader<File>,
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
}

impl LogReader {
    /// Opens the log of a data directory, and returns its last lines. The error is `NotFound` if there is none.
    pub(super) fn open(directory: &Path, lines_max: usize) -> std::io::Result<(Self, Vec<String>)> {
        let path = directory.join(LOG);
        let mut last = VecDeque::new();
        let mut keep = |line: String| {
            last.push_back(line);
            if last.len() > lines_max {
                last.pop_front();
            }
        };
        match read_file(&directory.join(OLDER_LOG)) {
            Ok(file) => Self::of(file, &path).read_lines(&mut keep)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut reader = Self::of(read_file(&path)?, &path);
        reader.read_lines(&mut keep)?;
        Ok((reader, last.into()))
    }

    fn of(file: File, path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            begun: Vec::new(),
        }
    }

    /// Passes on the lines that were written since the last call.
    pub(super) fn read_new(&mut self, mut line: impl FnMut(String)) -> std::io::Result<()> {
        self.read_lines(&mut line)?;
        let next = match read_file(&self.path) {
            Ok(next) => next,
            // The next file is just being created.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if next.metadata()?.ino() != self.file.get_ref().metadata()?.ino() {
            // Lines may have been written between the last read and the change of the file.
            self.read_lines(&mut line)?;
            self.file = BufReader::new(next);
            self.read_lines(&mut line)?;
        }
        Ok(())
    }

    fn read_lines(&mut self, line: &mut impl FnMut(String)) -> std::io::Result<()> {
        loop {
            let before = self.begun.len() as u64;
            let room = LINE_BYTES_MAX.saturating_sub(before);
            let read = (&mut self.file).take(room).read_until(b'\n', &mut self.begun)?;
            let is_whole = self.begun.ends_with(b"\n");
            if !is_whole && read > 0 && (self.begun.len() as u64) < LINE_BYTES_MAX {
                continue;
            }
            if !is_whole && (self.begun.len() as u64) < LINE_BYTES_MAX {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&self.begun);
            line(text.trim_end_matches('\n').to_owned());
            self.begun.clear();
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the log of a service is read by its operator"
)]
fn read_file(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// Returns the last lines of the log of a data directory; none if it cannot be read.
pub(super) fn last_lines(directory: &Path, lines_max: usize) -> Vec<String> {
    LogReader::open(directory, lines_max).map_or_else(|_| Vec::new(), |(_, lines)| lines)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::{BoundedLog, LOG, LogReader, OLDER_LOG, last_lines};
    use std::io::ErrorKind;

    /// STK-15
    #[test]
    fn a_reader_gets_every_line_across_files_of_bounded_size() {
        let directory = tempfile::tempdir().unwrap();
        let missing = LogReader::open(directory.path(), 10).map(|_| ()).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let log = BoundedLog::with_bound(directory.path(), 64).unwrap();
        let line = |number: usize| format!("{{\"line\":\"{number:05}\"}}");
        log.copy(format!("{}\n{}\n", line(0), line(1)).as_bytes());
        let (mut reader, last) = LogReader::open(directory.path(), 1).unwrap();
        assert_eq!(last, [line(1)]);
        let mut read = Vec::new();
        for number in 2..20 {
            log.copy(format!("{}\n", line(number)).as_bytes());
            reader.read_new(|line| read.push(line)).unwrap();
        }
        assert_eq!(read, (2..20).map(line).collect::<Vec<_>>());
        for file in [LOG, OLDER_LOG] {
            let bytes = std::fs::metadata(directory.path().join(file)).unwrap().len();
            assert!(0 < bytes && bytes <= 64, "{file}: {bytes}");
        }
        // The last lines are in both files, and a log that is opened again goes on.
        let log = BoundedLog::with_bound(directory.path(), 64).unwrap();
        log.copy(format!("{}\n", line(20)).as_bytes());
        let expected: Vec<String> = (17..=20).map(line).collect();
        assert_eq!(last_lines(directory.path(), 4), expected);
    }

    #[test]
    fn half_a_line_waits_for_its_end() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(LOG), "one\ntw").unwrap();
        let (mut reader, last) = LogReader::open(directory.path(), 10).unwrap();
        assert_eq!(last, ["one"]);
        std::fs::write(directory.path().join(LOG), "one\ntwo\n").unwrap();
        let mut read = Vec::new();
        reader.read_new(|line| read.push(line)).unwrap();
        assert_eq!(read, ["two"]);
    }
}
