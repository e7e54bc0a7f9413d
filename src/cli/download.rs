//! Work that may download much: the terminal is told how far it is, and Ctrl-C ends it.

use super::Failure;
use super::output::{Output, Style};
use crate::download::Watch;
use crate::workspace::FetchProgress;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Bytes between two lines about a download.
const BYTES_PER_LINE: usize = 8 << 20;

/// Does the work where it may block. Ctrl-C stops its downloads; whatever it does after them is up to it.
pub(super) async fn until_interrupted(
    output: Output,
    work: impl FnOnce(&Watch) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let watch = watch(output);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    let stop = watch.clone();
    let stopper = tokio::spawn(async move {
        if interrupts.recv().await.is_some() {
            stop.stop();
        }
    });
    let done = tokio::task::spawn_blocking(move || work(&watch)).await;
    stopper.abort();
    done.map_err(Failure::failed)?
}

/// Tells how far a long download is.
fn watch(output: Output) -> Watch {
    let told = AtomicUsize::new(0);
    let progress = move |step: FetchProgress| {
        let lines = step.done / BYTES_PER_LINE;
        if step.bytes && told.swap(lines, Ordering::Relaxed) < lines {
            let of = step
                .of
                .map_or_else(String::new, |of| format!(" of {} MiB", of >> 20));
            output.aside(Style::Dim, &format!("{}: {} MiB{of}", step.what, step.done >> 20));
        }
    };
    Watch::new(Arc::new(progress), &CancellationToken::new())
}
