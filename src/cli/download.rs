//! Runs work that may download large files: the terminal shows its progress, and Ctrl-C stops it.

use super::CliError;
use super::output::{Output, OutputStyle};
use crate::state::download::DownloadObserver;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Runs the work on a thread that may block. Ctrl-C stops its downloads; the work itself decides what to do after
/// that.
pub(super) async fn until_interrupted(
    output: Output,
    work: impl FnOnce(&DownloadObserver) -> Result<(), CliError> + Send + 'static,
) -> Result<(), CliError> {
    let tell = move |words: String| output.styled_message(OutputStyle::Dim, &words);
    let watch = DownloadObserver::with_messages(tell, &CancellationToken::new());
    let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    let stop = watch.clone();
    let stopper = tokio::spawn(async move {
        if interrupts.recv().await.is_some() {
            stop.stop();
        }
    });
    let done = tokio::task::spawn_blocking(move || work(&watch)).await;
    stopper.abort();
    done.map_err(CliError::failed)?
}
