//! `drydock serve`: the gateway until it is told to stop.

use super::{Failure, Global, descriptors, ignored, layers};
use crate::app::{App, Ended, StartError, World};
use crate::config::Config;
use crate::redact::Redactor;
use crate::store::OpenError;
use crate::system;
use crate::telemetry::{self, Format};
use jiff::Timestamp;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code when something ended that the server cannot do without (`EX_SOFTWARE`).
const CODE_TASK: u8 = 70;
/// Exit code when nothing can be stored any more (`EX_IOERR`).
const CODE_STORE: u8 = 74;
/// Longest time a server whose store is broken takes to tell those who ask: there is nothing else left to do.
const FAREWELL_MAX: Duration = Duration::from_secs(2);
/// Longest time the other tasks take to end where one has ended before its time.
const TASKS_LEFT_MAX: Duration = Duration::from_secs(15);

pub(super) async fn run(global: &Global) -> Result<(), Failure> {
    system::without_large_pages();
    let limit = descriptors::raise();
    let mut config = Config::load(global.sources()?).map_err(Failure::config)?;
    let format = if std::io::stderr().is_terminal() {
        Format::Pretty
    } else {
        Format::Json
    };
    let redactor = Arc::new(Redactor::new(config.secrets()));
    telemetry::init(format, global.log.as_deref(), redactor, std::io::stderr).map_err(Failure::config)?;
    telemetry::log_panics();
    ignored().iter().for_each(|line| tracing::warn!("{line}"));
    if let Some(told) = layers::told(&layers::required(&config.sandbox.layers_missing)?) {
        tracing::warn!("{told}");
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    bound_connections(&mut config, limit);
    let mut app = App::start(config, world()).await.map_err(failure)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        ended = app.ended() => {
            tokio::select! {
                () = farewell(app, &ended) => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return Err(collapsed(&ended));
        }
    }
    tracing::info!("stopping; a second signal ends at once");
    tokio::select! {
        () = app.shutdown() => Ok(()),
        _ = terminate.recv() => Err(Failure::failed("stopped at once")),
        _ = interrupt.recv() => Err(Failure::failed("stopped at once")),
    }
}

/// No more connections than there are descriptors for, beside everything else.
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

/// Stops what is left of a server that does not work any more. What does not end in time ends with the process.
async fn farewell(app: App, ended: &Ended) {
    let time_max = match ended {
        Ended::Store(_) => FAREWELL_MAX,
        Ended::Task { .. } => TASKS_LEFT_MAX,
    };
    let _late = tokio::time::timeout(time_max, app.shutdown()).await;
}

fn collapsed(ended: &Ended) -> Failure {
    let code = match ended {
        Ended::Store(_) => CODE_STORE,
        Ended::Task { .. } => CODE_TASK,
    };
    Failure {
        code,
        message: ended.to_string(),
    }
}

/// A data directory that cannot be used stays so until somebody changes the configuration or the
/// machine; a port or a lock that is taken may be free at the next attempt.
fn failure(error: StartError) -> Failure {
    match &error {
        StartError::Database(unusable) if is_unusable(unusable) => Failure::config(error),
        StartError::Database(_)
        | StartError::Listen { .. }
        | StartError::Setup(_)
        | StartError::Access(_) => Failure::failed(error),
    }
}

/// A data directory nobody can work in.
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

/// The real clock and the system's randomness.
pub(super) fn world() -> World {
    World {
        now,
        random,
        program: crate::sandbox::Program::this,
        stand_ins: &[],
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
    use super::collapsed;
    use crate::app::Ended;

    #[test]
    fn what_ended_a_server_is_told_by_its_exit_code() {
        let task = Ended::Task {
            task: "delivering".to_owned(),
            how: "panicked",
        };
        for (ended, code) in [(Ended::Store("no sync".to_owned()), 74), (task, 70)] {
            let failure = collapsed(&ended);
            assert_eq!((failure.code, failure.message), (code, ended.to_string()));
        }
    }
}
