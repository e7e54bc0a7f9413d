//! The log of the program while a test runs, at every level. A test's runtime has one thread, so the log of a thread is
//! the log of a test.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};

static STARTED: Once = Once::new();

thread_local! {
    static CAPTURED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// A capture of the log of this thread, until it is dropped.
pub(crate) struct LogCapture(());

impl LogCapture {
    pub(crate) fn capture() -> Self {
        STARTED.call_once(|| {
            let lines = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(|| LogWriter)
                .with_filter(dynamic_filter_fn(|_, _| CAPTURED.with_borrow(Option::is_some)));
            let registry = tracing_subscriber::registry().with(lines);
            tracing::subscriber::set_global_default(registry).unwrap();
        });
        CAPTURED.set(Some(Vec::new()));
        Self(())
    }

    /// Returns the log so far.
    pub(crate) fn text(&self) -> String {
        CAPTURED.with_borrow(|lines| String::from_utf8(lines.clone().unwrap_or_default()).unwrap())
    }
}

impl Drop for LogCapture {
    fn drop(&mut self) {
        CAPTURED.set(None);
    }
}

struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        CAPTURED.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
