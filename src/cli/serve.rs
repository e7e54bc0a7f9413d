//! `drydock serve`: runs the gateway until it is stopped.

use super::service::Notifier;
use super::{CliError, Global, descriptors, ignored, sandbox_layers};
use crate::base::config::Config;
use crate::base::redact::Redactor;
use crate::base::system;
use crate::base::telemetry::{self, LogFormat};
use crate::server::app::{App, Host, ServerFailure, StartError};
use crate::state::store::OpenError;
use clap::Args;
use jiff::Timestamp;
use std::convert::Infallible;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code after a task ended that the server needs (`EX_SOFTWARE`).
const CODE_TASK: u8 = 70;
/// The exit code after the store broke (`EX_IOERR`).
const CODE_STORE: u8 = 74;
/// The longest time that a server with a broken store may take to answer open requests and stop.
const STORE_STOP_MAX: Duration = Duration::from_secs(2);
/// The longest time that the other tasks may take to end after one has ended unexpectedly.
const TASK_STOP_MAX: Duration = Duration::from_secs(15);
/// The time after which a start counts as complete. Until then freed memory is kept, because the start uses it again.
const START_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    /// Stops when the other end of the pipe at standard input is closed
    #[arg(long, hide = true)]
    stop_with_input: bool,
}

impl ServeArguments {
    /// Returns the pipe that ends with the supervisor of this server; `None` if it has none.
    fn input(&self) -> std::io::Result<Option<pipe::Receiver>> {
        if !self.stop_with_input {
            return Ok(None);
        }
        let input = std::io::stdin().as_fd().try_clone_to_owned()?;
        pipe::Receiver::from_owned_fd(input).map(Some)
    }
}

pub(super) async fn run(arguments: ServeArguments, global: &Global) -> Result<(), CliError> {
    system::without_large_pages();
    let limit = descriptors::raise();
    // The layers are tried while the configuration is read.
    let layers = tokio::task::spawn_blocking(sandbox_layers::find_layers);
    let mut config = Config::load(global.sources()?).map_err(CliError::config)?;
    let format = if std::io::stderr().is_terminal() {
        LogFormat::Pretty
    } else {
        LogFormat::Json
    };
    let redactor = Arc::new(Redactor::new(config.secrets()));
    telemetry::init(format, global.log.as_deref(), redactor, std::io::stderr).map_err(CliError::config)?;
    telemetry::log_panics();
    ignored().iter().for_each(|line| tracing::warn!("{line}"));
    let layers = layers.await.map_err(CliError::failed)?;
    let status = sandbox_layers::check_layers(layers, &config.sandbox.layers_missing)?;
    if let Some(note) = sandbox_layers::absent_layers_note(&status) {
        tracing::warn!("{note}");
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    let mut input = arguments.input().map_err(CliError::failed)?;
    bound_connections(&mut config, limit);
    let mut app = App::start(config, host()).await.map_err(start_error)?;
    let notifier = Notifier::from_environment();
    let announcing = notifier
        .clone()
        .map(|notifier| tokio::spawn(notifier.announce(app.address, Arc::clone(&app.admin))));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        never = release_memory_later() => match never {},
        () = wait_for_end(input.as_mut()) => tracing::warn!("the supervisor of this server has ended"),
        ended = app.wait_for_failure() => {
            tokio::select! {
                () = stop_failed_server(app, &ended) => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return Err(server_error(&ended));
        }
    }
    if let Some(announcing) = announcing {
        announcing.abort();
    }
    if let Some(notifier) = notifier {
        notifier.announce_stop();
    }
    tracing::info!("stopping; a second signal ends at once");
    tokio::select! {
        () = app.shutdown() => Ok(()),
        _ = terminate.recv() => Err(CliError::failed("stopped at once")),
        _ = interrupt.recv() => Err(CliError::failed("stopped at once")),
    }
}

/// Makes the allocator return freed memory to the system once the start is complete, from the thread of the start.
async fn release_memory_later() -> Infallible {
    tokio::time::sleep(START_MAX).await;
    system::release_freed_memory();
    std::future::pending().await
}

/// Waits until the other end of a pipe is closed; forever if there is none.
async fn wait_for_end(input: Option<&mut pipe::Receiver>) {
    let Some(input) = input else {
        return std::future::pending().await;
    };
    let mut ignored = [0; 64];
    while matches!(input.read(&mut ignored).await, Ok(1..)) {}
}

/// Limits the connections to the number of free file descriptors.
fn bound_connections(config: &mut Config, limit: Option<u64>) {
    let wanted = config.server.connections_max;
    let connections = descriptors::connections(limit, wanted);
    if connections < wanted {
        tracing::warn!(
            limit,
            "{connections} connections at once, not {wanted}: this process may open no more files; raise its limit \
             (`ulimit -n`, `LimitNOFILE`), or lower `server.connections_max`"
        );
        config.server.connections_max = connections;
    }
}

/// Stops the remaining parts of a failed server. A part that does not end in time ends with the process.
async fn stop_failed_server(app: App, ended: &ServerFailure) {
    let time_max = match ended {
        ServerFailure::Store(_) => STORE_STOP_MAX,
        ServerFailure::Task { .. } => TASK_STOP_MAX,
    };
    let _late = tokio::time::timeout(time_max, app.shutdown()).await;
}

fn server_error(ended: &ServerFailure) -> CliError {
    let code = match ended {
        ServerFailure::Store(_) => CODE_STORE,
        ServerFailure::Task { .. } => CODE_TASK,
    };
    CliError {
        code,
        message: ended.to_string(),
    }
}

/// Returns the error of a failed start. An unusable data directory needs a change of the configuration or the
/// machine, so it is a configuration error; an occupied port or lock may be free at the next attempt.
fn start_error(error: StartError) -> CliError {
    match &error {
        StartError::Database(unusable) if is_unusable(unusable) => CliError::config(error),
        StartError::Room(_) => CliError::config(error),
        StartError::Database(_)
        | StartError::Listen { .. }
        | StartError::Setup(_)
        | StartError::Access(_) => CliError::failed(error),
    }
}

/// Returns true if the error means that the data directory cannot be used.
pub(super) fn is_unusable(error: &OpenError) -> bool {
    match error {
        OpenError::ReadOnly(_)
        | OpenError::Directory { .. }
        | OpenError::Exposed { .. }
        | OpenError::Missing(_)
        | OpenError::Damaged { .. }
        | OpenError::Torn { .. }
        | OpenError::Older { .. }
        | OpenError::Pepper(_)
        | OpenError::Newer { .. }
        | OpenError::Migration(_) => true,
        OpenError::Busy { .. } | OpenError::Resources(_) => false,
    }
}

/// Returns the real clock and the system's randomness.
pub(super) fn host() -> Host {
    Host {
        now,
        random,
        program: crate::rendering::sandbox::ProgramPath::current,
        host_overrides: &[],
    }
}

#[allow(clippy::disallowed_methods, reason = "the shell is where the clock is read")]
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    #[cfg(feature = "crash-points")]
    let now = now.saturating_add(crate::crash_point::offset()).unwrap_or(now);
    now
}

#[allow(
    clippy::expect_used,
    reason = "a system without randomness cannot make a token, and must not try"
)]
pub(super) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system gives randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use super::server_error;
    use crate::server::app::ServerFailure;

    #[test]
    fn the_exit_code_says_why_a_server_ended() {
        let task = ServerFailure::Task {
            task: "delivering".to_owned(),
            how: "panicked",
        };
        for (ended, code) in [(ServerFailure::Store("no sync".to_owned()), 74), (task, 70)] {
            let failure = server_error(&ended);
            assert_eq!((failure.code, failure.message), (code, ended.to_string()));
        }
    }
}
