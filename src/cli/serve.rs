//! `drydock serve`: the gateway until it is told to stop.

use super::{Failure, Global};
use crate::app::{App, StartError, World};
use crate::config::Config;
use crate::redact::Redactor;
use crate::store::OpenError;
use crate::telemetry::{self, Format};
use jiff::Timestamp;
use std::io::IsTerminal;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

pub(super) async fn run(global: &Global) -> Result<(), Failure> {
    // The allocator asks for large pages, and a gateway that mostly waits would hold them whole. A kernel
    // that has none refuses, and that is as good.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let config = Config::load(global.sources()?).map_err(Failure::config)?;
    let format = if std::io::stderr().is_terminal() {
        Format::Pretty
    } else {
        Format::Json
    };
    let redactor = Arc::new(Redactor::new(config.secrets()));
    telemetry::init(format, global.log.as_deref(), redactor).map_err(Failure::config)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    let app = App::start(config, world()).await.map_err(failure)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping; a second signal ends at once");
    tokio::select! {
        () = app.shutdown() => Ok(()),
        _ = terminate.recv() => Err(Failure::failed("stopped at once")),
        _ = interrupt.recv() => Err(Failure::failed("stopped at once")),
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
    matches!(error, OpenError::ReadOnly(_) | OpenError::Directory { .. })
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
    Timestamp::now()
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
