//! The signals that end a session. On a terminal the program ends by itself after them, so that it can restore the
//! settings of the terminal first.

use crate::cli::CliError;
use crate::cli::output::Output;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that is cancelled by these signals. On a pipe they end the program at once, as usual.
pub(in crate::cli) fn watch(output: &Output) -> Result<CancellationToken, CliError> {
    let ended = CancellationToken::new();
    if output.is_interactive() {
        let mut terminations = signal(SignalKind::terminate()).map_err(CliError::failed)?;
        let mut hangups = signal(SignalKind::hangup()).map_err(CliError::failed)?;
        let watched = ended.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminations.recv() => {}
                _ = hangups.recv() => {}
            }
            watched.cancel();
        });
    }
    Ok(ended)
}
