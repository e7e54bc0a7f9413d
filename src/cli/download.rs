//! Work that may download much: the terminal is told how far it is, and Ctrl-C ends it.

use super::Failure;
use super::output::{Output, Style};
use crate::download::Watch;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Does the work where it may block. Ctrl-C stops its downloads; whatever it does after them is up to it.
pub(super) async fn until_interrupted(
    output: Output,
    work: impl FnOnce(&Watch) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let tell = move |words: String| output.aside(Style::Dim, &words);
    let watch = Watch::in_words(tell, &CancellationToken::new());
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
