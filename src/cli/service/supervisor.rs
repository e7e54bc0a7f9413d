//! The supervisor of a server where no service manager runs it: it starts the server, writes its log, and starts it again
//! after a failure, with growing pauses. The server stops when its supervisor ends, however that happens.

use super::ServerArguments;
use super::log_file::BoundedLog;
use super::processes::start_server;
use super::state_file::{SupervisorLock, SupervisorState};
use crate::base::config::Config;
use crate::base::redact::Redactor;
use crate::base::telemetry::{self, LogFormat};
use crate::cli::output::Output;
use crate::cli::{CliError, Global};
use crate::state::store::{self, GroupAccess};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

/// The pause before the first new start; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// After this time of running, the next failure counts as the first again.
const STABLE_TIME: Duration = Duration::from_secs(60);
/// The longest time that a server may take to stop; its own bound is shorter.
const STOP_TIME_MAX: Duration = Duration::from_secs(20);

/// The end of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerEnd {
    /// The exit code; `None` if a signal ended the process.
    pub(super) code: Option<i32>,
    /// The signal that ended the process.
    pub(super) signal: Option<i32>,
}

impl ServerEnd {
    fn of(status: ExitStatus) -> Self {
        Self {
            code: status.code(),
            signal: status.signal(),
        }
    }

    fn is_worth_a_start(self) -> bool {
        self.code.is_none_or(is_worth_a_start)
    }
}

impl std::fmt::Display for ServerEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("no exit code"),
        }
    }
}

/// Returns true if another start after an exit code can succeed: not after a stop, a wrong command line or a wrong
/// configuration.
fn is_worth_a_start(code: i32) -> bool {
    !matches!(code, 0 | 2 | 78)
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SuperviseArguments {
    /// launchd started this process, and starts it again unless it ends with 0
    #[arg(long)]
    launchd: bool,
}

/// Runs the supervisor until it is stopped, or until its server ends for good.
pub(in crate::cli) async fn run(
    arguments: SuperviseArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    match supervise(global).await {
        Err(error) if arguments.launchd && !is_worth_a_start(error.code.into()) => {
            output.message(&error.message);
            Ok(())
        }
        ended => ended,
    }
}

async fn supervise(global: &Global) -> Result<(), CliError> {
    // The supervisor outlives the shell that started it. It fails if a service manager has done the same already.
    let _is_leader = rustix::process::setsid();
    let settings = Config::for_operator(global.sources()?).map_err(CliError::config)?;
    let data = settings.data.directory;
    let group = GroupAccess::from_setting(settings.data.group_access);
    store::prepare_directory(&data, group).map_err(CliError::config)?;
    let lock = SupervisorLock::take(&data).map_err(CliError::failed)?;
    let Some(_lock) = lock else {
        return Err(CliError::failed(
            "another supervisor runs the server of this data directory",
        ));
    };
    // The state of an earlier supervisor names a process that may be another one now.
    SupervisorState::remove(&data).map_err(CliError::failed)?;
    let state = SupervisorState::new(std::process::id());
    state.save(&data).map_err(CliError::failed)?;
    let log = BoundedLog::open(&data).map_err(CliError::failed)?;
    let lines = log.clone();
    let redactor = Arc::new(Redactor::new([]));
    telemetry::init(LogFormat::Json, global.log.as_deref(), redactor, move || {
        lines.clone()
    })
    .map_err(CliError::config)?;
    telemetry::log_panics();
    let supervisor = Supervisor {
        state,
        data,
        log,
        arguments: ServerArguments::of(global)?.0,
        stop_signals: StopSignals::new().map_err(CliError::failed)?,
        child_signals: signal(SignalKind::child()).map_err(CliError::failed)?,
    };
    supervisor.run().await
}

/// The signals that stop a supervisor.
struct StopSignals {
    terminate: SignalStream,
    interrupt: SignalStream,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

struct Supervisor {
    data: PathBuf,
    log: BoundedLog,
    arguments: Vec<String>,
    stop_signals: StopSignals,
    child_signals: SignalStream,
    state: SupervisorState,
}

/// The reason why a supervisor no longer waits for its server.
enum ServerOutcome {
    Ended(ServerEnd),
    StopRequested,
}

impl Supervisor {
    async fn run(mut self) -> Result<(), CliError> {
        let mut pause = PAUSE_MIN;
        loop {
            let began = Instant::now();
            let mut child = start_server(&self.arguments).map_err(CliError::failed)?;
            let copying = child.stderr.take().map(|stderr| {
                let log = self.log.clone();
                std::thread::spawn(move || log.copy(stderr))
            });
            self.state.server = Some(child.id());
            self.state.starts = self.state.starts.saturating_add(1);
            self.save();
            let outcome = self.wait(&mut child).await?;
            // The pipe ends with the server, and then its last line is written.
            if let Some(copying) = copying {
                let _panicked = tokio::task::spawn_blocking(move || copying.join()).await;
            }
            self.state.server = None;
            let end = match outcome {
                ServerOutcome::StopRequested => {
                    tracing::info!("the supervisor stops, as requested");
                    self.save();
                    return Ok(());
                }
                ServerOutcome::Ended(end) => end,
            };
            self.state.last_end = Some(end);
            self.save();
            if !end.is_worth_a_start() {
                tracing::error!("the server ended with {end} and is not started again");
                return ended(end);
            }
            if began.elapsed() >= STABLE_TIME {
                pause = PAUSE_MIN;
            }
            tracing::error!(
                "the server ended with {end}; it is started again in {} ms",
                pause.as_millis()
            );
            tokio::select! {
                () = self.stop_signals.received() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits for the end of the server, or stops it when that is requested.
    async fn wait(&mut self, child: &mut Child) -> Result<ServerOutcome, CliError> {
        loop {
            if let Some(status) = child.try_wait().map_err(CliError::failed)? {
                return Ok(ServerOutcome::Ended(ServerEnd::of(status)));
            }
            tokio::select! {
                _ = self.child_signals.recv() => {}
                () = self.stop_signals.received() => break,
            }
        }
        let until = tokio::time::Instant::now() + STOP_TIME_MAX;
        // The child process has not been waited for, so its id cannot belong to another process.
        let process = Pid::from_child(child);
        let _ended = kill_process(process, Signal::TERM);
        while child.try_wait().map_err(CliError::failed)?.is_none() {
            let ended = tokio::time::timeout_at(until, self.child_signals.recv()).await;
            if ended.is_err() {
                tracing::error!(
                    "the server did not stop in {} s and is killed",
                    STOP_TIME_MAX.as_secs()
                );
                let _ended = kill_process(process, Signal::KILL);
                child.wait().map_err(CliError::failed)?;
                break;
            }
        }
        Ok(ServerOutcome::StopRequested)
    }

    fn save(&self) {
        if let Err(error) = self.state.save(&self.data) {
            tracing::warn!(%error, "the state of the supervisor could not be written");
        }
    }
}

/// Returns the result of a supervisor whose server ended for good: the same exit code.
fn ended(end: ServerEnd) -> Result<(), CliError> {
    let code = end.code.and_then(|code| u8::try_from(code).ok());
    match code {
        Some(0) => Ok(()),
        code => Err(CliError {
            code: code.unwrap_or(1),
            message: format!("the server ended with {end}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::ServerEnd;

    /// STK-4
    #[test]
    fn a_server_is_started_again_unless_a_person_is_needed() {
        let of_code = |code| ServerEnd {
            code: Some(code),
            signal: None,
        };
        for (code, is_worth) in [
            (0, false),
            (1, true),
            (2, false),
            (70, true),
            (74, true),
            (78, false),
        ] {
            assert_eq!(of_code(code).is_worth_a_start(), is_worth, "{code}");
        }
        let killed = ServerEnd {
            code: None,
            signal: Some(9),
        };
        assert!(killed.is_worth_a_start());
        assert_eq!(
            (killed.to_string(), of_code(70).to_string()),
            ("signal 9".into(), "exit code 70".into())
        );
    }
}
