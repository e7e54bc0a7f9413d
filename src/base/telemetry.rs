//! Logs on standard error, as JSON for machines or text for people. Every line is redacted before it is written. The
//! output of commands for the person at the terminal also goes there, through `cli::output`.

use crate::base::redact::Redactor;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

/// Longest line in bytes. Longer lines are cut after redaction.
const LINE_BYTES_MAX: usize = 65_536;
const FILTER_DEFAULT: &str = "info";
/// Maximum number of the newest warnings and errors that are kept for an operator.
const PROBLEMS_MAX: usize = 20;
/// Longest kept line of them in bytes.
const PROBLEM_BYTES_MAX: usize = 4_096;

/// The newest warnings and errors of this process, redacted, oldest first.
static PROBLEMS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line, for machines.
    Json,
    /// Text for people at a terminal.
    Pretty,
}

/// An error of the log setup.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The operator's filter is not valid.
    #[error(
        "the log filter is wrong: {0}; write a level such as `debug`, or `drydock::server::http=debug,info`"
    )]
    Filter(String),
    /// Logging is already set up in this process.
    #[error("logging was set up twice")]
    AlreadyInitialized,
}

/// Starts logging for the whole process. `open` returns the output for each line, which is standard error. `filter` is
/// the value of `DRYDOCK_LOG`; the default is `info`.
pub fn init<W, O>(
    format: LogFormat,
    filter: Option<&str>,
    redactor: Arc<Redactor>,
    open: W,
) -> Result<(), TelemetryError>
where
    W: Fn() -> O + Send + Sync + 'static,
    O: Write + 'static,
{
    let subscriber = subscriber(format, filter, redactor, open)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::AlreadyInitialized)
}

/// Returns the newest log lines of this process that are warnings or errors, oldest first.
pub fn recent_problems() -> Vec<String> {
    let problems = PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner);
    problems.iter().cloned().collect()
}

fn remember_problem(line: &str) {
    let end = line.floor_char_boundary(PROBLEM_BYTES_MAX);
    let mut problems = PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner);
    if problems.len() >= PROBLEMS_MAX {
        problems.pop_front();
    }
    problems.push_back(line.get(..end).unwrap_or_default().to_owned());
}

/// Refuses a filter that [`init`] would refuse.
pub fn check_filter(filter: Option<&str>) -> Result<(), TelemetryError> {
    parsed_filter(filter).map(drop)
}

/// Logs every panic from now on. This replaces the default text on standard error, which is not redacted.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let said = panic.payload_as_str().unwrap_or("a value that is not text");
        tracing::error!(place, "a part of this process panicked: {said}");
    }));
}

fn subscriber<W, O>(
    format: LogFormat,
    filter: Option<&str>,
    redactor: Arc<Redactor>,
    open: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, TelemetryError>
where
    W: Fn() -> O + Send + Sync + 'static,
    O: Write + 'static,
{
    let filter = parsed_filter(filter)?;
    let layer = tracing_subscriber::fmt::layer().with_writer(RedactedWriters { open, redactor });
    let registry = tracing_subscriber::registry().with(filter);
    Ok(match format {
        LogFormat::Json => Box::new(registry.with(layer.json().flatten_event(true))),
        LogFormat::Pretty => Box::new(registry.with(layer.with_ansi(false))),
    })
}

fn parsed_filter(filter: Option<&str>) -> Result<EnvFilter, TelemetryError> {
    let filter = filter
        .map(str::trim)
        .filter(|filter| !filter.is_empty())
        .unwrap_or(FILTER_DEFAULT);
    EnvFilter::try_new(filter).map_err(|err| TelemetryError::Filter(err.to_string()))
}

/// A factory that gives each event its own writer.
struct RedactedWriters<W> {
    open: W,
    redactor: Arc<Redactor>,
}

impl<'a, W, O> MakeWriter<'a> for RedactedWriters<W>
where
    W: Fn() -> O + 'static,
    O: Write + 'a,
{
    type Writer = RedactedLine<O>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactedLine {
            line: Vec::new(),
            output: (self.open)(),
            redactor: Arc::clone(&self.redactor),
            level: Level::INFO,
        }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Self::Writer {
        let mut line = self.make_writer();
        line.level = *about.level();
        line
    }
}

/// A log line. It is collected completely and written on drop, because a secret may be split across two writes.
struct RedactedLine<O: Write> {
    line: Vec<u8>,
    output: O,
    redactor: Arc<Redactor>,
    level: Level,
}

impl<O: Write> Write for RedactedLine<O> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<O: Write> Drop for RedactedLine<O> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        let redacted = self.redactor.redact(text.trim_end_matches('\n'));
        let mut line = redacted.into_owned();
        if line.len() > LINE_BYTES_MAX {
            line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
        }
        // A level is greater if it has more details.
        if self.level <= Level::WARN {
            remember_problem(&line);
        }
        line.push('\n');
        // If standard error is closed, there is no other place to report it.
        let _ = self.output.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::base::model::Secret;
    use std::sync::Mutex;
    use tracing::{debug, info, info_span};

    const CANARY: &str = "xoxb-canary-0123456789";

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: Option<&str>, write: impl FnOnce()) -> String {
        let page = Page::default();
        let opened = page.clone();
        let redactor = Arc::new(Redactor::new([Secret::new(CANARY.to_owned())]));
        let subscriber = subscriber(format, filter, redactor, move || opened.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, write);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// T89, I7: in messages, fields, spans and error texts.
    #[test]
    fn no_secret_reaches_a_log_line() {
        for format in [LogFormat::Json, LogFormat::Pretty] {
            let text = logged(format, None, || {
                let span = info_span!("request", header = CANARY);
                let _entered = span.enter();
                info!(url = format!("https://api.telegram.org/bot{CANARY}/x"), error = ?Some(CANARY), "got {CANARY}");
            });
            assert!(!text.contains("canary"), "{text}");
            assert_eq!(
                text.matches("⟦secret:1⟧").count(),
                4 + text.matches("spans").count(),
                "{text}"
            );
        }
    }

    /// SDK-1
    #[test]
    fn machines_get_one_object_for_each_event() {
        let text = logged(LogFormat::Json, None, || {
            info!(steps = 3, "turn {} answered\nforged", 7)
        });
        assert_eq!(text.lines().count(), 1);
        let event: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event["message"], "turn 7 answered\nforged");
        assert_eq!(event["steps"], 3);
        assert_eq!(event["level"], "INFO");
    }

    /// STK-14
    #[test]
    fn the_newest_warnings_are_kept_without_their_secrets() {
        logged(LogFormat::Json, None, || {
            info!("no problem of this test");
            for number in 0..2 * PROBLEMS_MAX {
                tracing::warn!("problem {number} of {CANARY}{}", "é".repeat(PROBLEM_BYTES_MAX));
            }
        });
        let problems = recent_problems();
        // Other tests log warnings as well.
        let ours = problems.iter().filter(|line| line.contains("⟦secret:1⟧"));
        assert!(ours.count() > PROBLEMS_MAX / 2, "{problems:?}");
        assert!(problems.len() <= PROBLEMS_MAX, "{problems:?}");
        for line in &problems {
            assert!(
                line.len() <= PROBLEM_BYTES_MAX && !line.contains("canary"),
                "{line}"
            );
            assert!(!line.contains("no problem of this test"), "{line}");
        }
    }

    #[test]
    fn the_operator_chooses_what_is_logged() {
        let write = || {
            debug!("details");
            info!("news");
        };
        assert_eq!(logged(LogFormat::Pretty, None, write).lines().count(), 1);
        assert_eq!(logged(LogFormat::Pretty, Some(" "), write).lines().count(), 1);
        assert_eq!(logged(LogFormat::Pretty, Some("debug"), write).lines().count(), 2);
        assert_eq!(logged(LogFormat::Pretty, Some("off"), write), "");
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_refused() {
        let redactor = Arc::new(Redactor::new([]));
        let error = subscriber(LogFormat::Json, Some("drydock=loudly"), redactor, Page::default)
            .err()
            .unwrap();
        assert!(
            error.to_string().starts_with("the log filter is wrong: "),
            "{error}"
        );
    }

    #[test]
    fn a_line_is_cut_only_after_redaction() {
        let text = logged(LogFormat::Pretty, None, || {
            info!("{}{CANARY}", "x".repeat(LINE_BYTES_MAX - 100))
        });
        assert!(!text.contains("canary") && text.len() <= LINE_BYTES_MAX + 1);
    }
}
