//! The wait for a server that `drydock up` has started.

use super::log_file::last_lines;
use super::logs::with_last_lines;
use super::state_file::SupervisorState;
use super::{is_supervised, running_server};
use crate::cli::CliError;
use crate::cli::output::Output;
use crate::engine::admin::ServerStatus;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// The longest wait for a server that runs to become ready.
pub(super) const READY_WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest wait without a word about its reason.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(30);
/// Lines of the log that explain a failure.
const FAILURE_LINES_MAX: usize = 10;

/// Waits until the server is ready, up to a bound, and returns its state. If its first start fails, the supervisor is
/// stopped, and the log says why.
pub(super) async fn wait_until_ready(
    data: &Path,
    mut supervisor: Option<&mut Child>,
    output: &Output,
) -> Result<ServerStatus, CliError> {
    let began = Instant::now();
    let mut named: Vec<String> = Vec::new();
    loop {
        if let Some(supervisor) = &mut supervisor {
            check_supervisor(data, supervisor).await?;
        }
        // A server that is just starting may end a connection without an answer.
        let status = running_server(data).await.unwrap_or(None);
        let is_late = began.elapsed() > READY_WAIT_MAX;
        if let Some(status) = &status
            && began.elapsed() > QUIET_WAIT_MAX
            && status.waiting_for != named
        {
            named.clone_from(&status.waiting_for);
            if !named.is_empty() {
                output.message(&format!("Drydock runs, and waits: {}", named.join("; ")));
            }
        }
        match status {
            Some(status) if status.waiting_for.is_empty() || is_late => return Ok(status),
            None if is_late => {
                let why = format!("the server does not answer after {} s", READY_WAIT_MAX.as_secs());
                return Err(failure(data, 1, &why));
            }
            Some(_) | None => tokio::time::sleep(CHECK_INTERVAL).await,
        }
    }
}

/// Returns an error if the first start of the server failed.
async fn check_supervisor(data: &Path, supervisor: &mut Child) -> Result<(), CliError> {
    let ended = supervisor.try_wait().map_err(CliError::failed)?;
    let is_held = is_supervised(data)?;
    // The supervisor of another `drydock up` at the same time has the lock. Its server is the one to wait for.
    if ended.is_some() && is_held {
        return Ok(());
    }
    let state = SupervisorState::load(data).filter(|state| state.process == supervisor.id());
    let last_end = state.and_then(|state| state.last_end);
    if ended.is_none() && last_end.is_none() {
        return Ok(());
    }
    if ended.is_none() {
        super::down::stop_supervisor(data).await?;
        supervisor.wait().map_err(CliError::failed)?;
    }
    let code = last_end.and_then(|end| end.code);
    let code = code.or_else(|| ended.and_then(|status| status.code()));
    let why = match last_end {
        Some(end) => format!("the server did not start ({end}), and nothing runs now"),
        None => "the supervisor of the server did not start, and nothing runs now".to_owned(),
    };
    let code = code
        .and_then(|code| u8::try_from(code).ok())
        .filter(|code| *code != 0);
    Err(failure(data, code.unwrap_or(1), &why))
}

/// Returns the error of a failed start, with the last lines of the log file.
fn failure(data: &Path, code: u8, why: &str) -> CliError {
    CliError {
        code,
        message: with_last_lines(why, &last_lines(data, FAILURE_LINES_MAX)),
    }
}
