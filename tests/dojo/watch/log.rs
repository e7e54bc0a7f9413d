//! The log of the gateways of this process, at every level there is, line by line as it leaves the redactor: what
//! their operator may have set, and whoever collects logs reads.

use super::Watch;
use drydock::config::Config;
use drydock::redact::Redactor;
use drydock::telemetry::{self, Format};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};

/// The text of the lines of the positive control, which are told apart.
pub(crate) const CONTROL: &str = "a line of the control";
/// The value of `DRYDOCK_LOG` that logs everything.
const FILTER: &str = "trace";
/// Lines with a leak that are kept.
const KEPT_MAX: usize = 1_000;

static STARTED: Once = Once::new();
static READ: Mutex<Read> = Mutex::new(Read {
    lines: 0,
    leaks: Vec::new(),
    controls: BTreeSet::new(),
});
static WATCH: LazyLock<Watch> = LazyLock::new(Watch::new);

/// The lines that were read so far.
struct Read {
    lines: usize,
    /// The number of the line, and what is wrong with it.
    leaks: Vec<(usize, String)>,
    controls: BTreeSet<String>,
}

/// The log from a moment on.
#[derive(Debug)]
pub(crate) struct Log {
    begin: usize,
}

impl Log {
    /// Begins to read what a gateway with this configuration logs. All arenas of a process share one log.
    pub(crate) fn of(config: &Config) -> Self {
        STARTED.call_once(|| {
            let redactor = Arc::new(Redactor::new(config.secrets()));
            telemetry::init(Format::Json, Some(FILTER), redactor, || Lines).unwrap();
        });
        Self { begin: read().lines }
    }

    /// The problems of the lines since then.
    pub(crate) fn violations(&self) -> Vec<String> {
        let read = read();
        if read.lines == self.begin {
            return vec!["nothing was logged, so nothing was read".to_owned()];
        }
        let since = read.leaks.iter().filter(|(line, _)| *line >= self.begin);
        since.map(|(_, leak)| leak.clone()).collect()
    }

    /// The findings in lines of the control.
    pub(crate) fn controls() -> BTreeSet<String> {
        read().controls.clone()
    }
}

fn read() -> MutexGuard<'static, Read> {
    READ.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes one line, and looks through it.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Nobody's words belong into a log, not even for the one who wrote them.
        let found = WATCH.secrets_and_canaries(line, usize::MAX);
        let text = String::from_utf8_lossy(line);
        let mut read = read();
        let number = read.lines;
        read.lines += 1;
        if text.contains(CONTROL) {
            read.controls.extend(found);
        } else if read.leaks.len() < KEPT_MAX {
            let told = found
                .into_iter()
                .map(|leak| (number, format!("a log line holds {leak}: {}", text.trim_end())));
            read.leaks.extend(told);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
