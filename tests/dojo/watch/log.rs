//! The log of the gateways of this process, at every level, line by line after redaction. Operators may enable any
//! level, and log collectors read it.

use super::LeakWatch;
use drydock::base::config::Config;
use drydock::base::redact::Redactor;
use drydock::base::telemetry::{self, LogFormat};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};

/// The text that identifies the log lines of the positive control.
pub(crate) const CONTROL_TEXT: &str = "a line of the control";
/// The value of `DRYDOCK_LOG` that logs everything.
const FILTER: &str = "trace";
/// The most lines with a leak that are kept.
const LEAKS_MAX: usize = 1_000;

static STARTED: Once = Once::new();
static FINDINGS: Mutex<LogFindings> = Mutex::new(LogFindings {
    lines: 0,
    leaks: Vec::new(),
    controls: BTreeSet::new(),
});
static WATCH: LazyLock<LeakWatch> = LazyLock::new(LeakWatch::new);

/// The findings in the lines so far.
struct LogFindings {
    lines: usize,
    /// The number of the line, and its problem.
    leaks: Vec<(usize, String)>,
    controls: BTreeSet<String>,
}

/// The log from a moment on.
#[derive(Debug)]
pub(crate) struct LogWatch {
    begin: usize,
}

impl LogWatch {
    /// Begins to scan the log of a gateway with this configuration. All fixtures of a process share one log.
    pub(crate) fn start(config: &Config) -> Self {
        STARTED.call_once(|| {
            let redactor = Arc::new(Redactor::new(config.secrets()));
            telemetry::init(LogFormat::Json, Some(FILTER), redactor, || LogScanner).unwrap();
        });
        Self {
            begin: lock_findings().lines,
        }
    }

    /// Returns the problems of the lines since then.
    pub(crate) fn violations(&self) -> Vec<String> {
        let read = lock_findings();
        if read.lines == self.begin {
            return vec!["nothing was logged, so nothing was read".to_owned()];
        }
        let since = read.leaks.iter().filter(|(line, _)| *line >= self.begin);
        since.map(|(_, leak)| leak.clone()).collect()
    }

    /// Returns the findings in lines of the control.
    pub(crate) fn control_findings() -> BTreeSet<String> {
        lock_findings().controls.clone()
    }
}

fn lock_findings() -> MutexGuard<'static, LogFindings> {
    FINDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Scans log lines.
struct LogScanner;

impl Write for LogScanner {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A person's words must not be in the log, not even for that person.
        let found = WATCH.secrets_and_canaries(line, usize::MAX);
        let text = String::from_utf8_lossy(line);
        let mut read = lock_findings();
        let number = read.lines;
        read.lines += 1;
        if text.contains(CONTROL_TEXT) {
            read.controls.extend(found);
        } else if read.leaks.len() < LEAKS_MAX {
            let reported = found
                .into_iter()
                .map(|leak| (number, format!("a log line holds {leak}: {}", text.trim_end())));
            read.leaks.extend(reported);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
