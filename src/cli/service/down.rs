//! `drydock down`: stops the service. The data is kept.

use super::processes::ServiceScope;
use super::state_file::SupervisorState;
use super::{data_directory, directory_owner, installed_service, is_supervised, running_supervisor};
use crate::base::system;
use crate::cli::output::Output;
use crate::cli::{CliError, Global};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

pub(in crate::cli) const DOWN_EXAMPLES: &str = "\
Examples:
  drydock down --config drydock.toml
  drydock down --config drydock.toml --remove    removes the file of the service manager as well

The data directory stays as it is, and accepted messages are answered after the next start.";

/// The longest time that a service may take to stop; the bounds of its parts are shorter.
pub(super) const STOP_TIME_MAX: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(in crate::cli) struct DownArguments {
    /// Removes the file of the service manager that `drydock up` wrote
    #[arg(long)]
    remove: bool,
}

pub(in crate::cli) async fn down(
    arguments: DownArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let data = data_directory(global)?;
    let owner = || directory_owner(&data);
    let was_running = is_supervised(&data)? || owner()?.is_some();
    let mut removed = None;
    if let Some(service) = installed_service(&data)? {
        if service.scope == ServiceScope::System && ServiceScope::of_this_process() != ServiceScope::System {
            return Err(CliError::failed(format!(
                "root installed this service ({}); run `drydock down` as root",
                service.file.display()
            )));
        }
        service.stop()?;
        if arguments.remove {
            service.remove()?;
            removed = Some(service.file);
        }
    }
    stop_supervisor(&data).await?;
    wait_for_former_server(&data).await?;
    if let Some(process) = owner()? {
        return Err(CliError::failed(format!(
            "the server of {} (process {process}) was not started with `drydock up`; stop it where it was started",
            data.display()
        )));
    }
    if output.json() {
        output.value(&json!({ "stopped": was_running, "removed": removed }));
        return Ok(());
    }
    match was_running {
        true => output.message(&format!(
            "Drydock is stopped. The data is kept in {}.",
            data.display()
        )),
        false => output.message(&format!("No server runs on {}.", data.display())),
    }
    if let Some(file) = removed {
        output.message(&format!("Removed {}.", file.display()));
    }
    Ok(())
}

/// Stops the supervisor of a data directory, if one runs, and with it its server.
pub(super) async fn stop_supervisor(data: &Path) -> Result<(), CliError> {
    let began = Instant::now();
    let mut signalled = None;
    let mut seen = None;
    while is_supervised(data)? {
        // A supervisor that has just taken the lock removes the state of an earlier one, and writes its own soon. So an id
        // counts when it is read a second time.
        let process = running_supervisor(data)?.map(|state| state.process);
        if let Some(process) = process
            && seen == Some(process)
            && signalled != Some(process)
            && system::may_be_supervisor(process)
        {
            terminate(process);
            signalled = Some(process);
        }
        seen = process;
        if began.elapsed() > STOP_TIME_MAX {
            return Err(signalled.map_or_else(|| unknown_holder(data), still_running));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    Ok(())
}

/// Waits for the end of a server whose supervisor was killed. It stops by itself.
pub(super) async fn wait_for_former_server(data: &Path) -> Result<(), CliError> {
    if is_supervised(data)? {
        return Ok(());
    }
    let Some(server) = SupervisorState::load(data).and_then(|state| state.server) else {
        return Ok(());
    };
    let began = Instant::now();
    while directory_owner(data)? == Some(server) {
        if began.elapsed() > STOP_TIME_MAX {
            return Err(still_running(server));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    Ok(())
}

fn unknown_holder(data: &Path) -> CliError {
    CliError::failed(format!(
        "a process locks the service of {}, and its state names none that could be stopped; `drydock status` shows more",
        data.display()
    ))
}

fn still_running(process: u32) -> CliError {
    CliError::failed(format!(
        "process {process} did not stop in {} s; `drydock logs` shows why, and `kill -9 {process}` ends it",
        STOP_TIME_MAX.as_secs()
    ))
}

fn terminate(process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(process) = process {
        // It may have ended since its state was read.
        let _gone = kill_process(process, Signal::TERM);
    }
}
