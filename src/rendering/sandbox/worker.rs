//! One sandbox worker from the parent's side: starts it, exchanges messages with it, and always ends it.

use super::confinement::ARGUMENT;
use super::frame::{self, Frame};
use super::{Confinement, LayerName, SandboxError, launch};
use crate::base::system;
use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use std::ffi::OsString;
use std::io::{BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the list of layers.
const CONFINED_BYTES_MAX: usize = 1_024;
/// Bytes of standard error that are read after the worker ended.
const STDERR_BYTES_MAX: u64 = 8_192;

/// The program that a sandbox worker runs. Outside tests it is the running program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPath(PathBuf);

impl ProgramPath {
    /// Returns the running program, even if its file has been replaced.
    pub fn current() -> Self {
        Self(system::this_program())
    }

    /// Creates the program from another build of it, at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Starts the program with a hidden argument, an empty environment and three pipes.
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the sandbox; the program is our own and confines itself"
    )]
    pub(super) fn start(&self, purpose: &str, how: String) -> std::io::Result<Child> {
        if is_nested_start(std::env::args_os()) {
            return Err(std::io::Error::other(NESTED_START));
        }
        Command::new(&self.0)
            .arg(purpose)
            .arg(how)
            .env_clear()
            // The allocator takes memory only when it is used, which keeps the memory limit exact, and does not return
            // it: the process is short-lived.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .env("MIMALLOC_PURGE_DELAY", "-1")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A separate process group: an interrupt from the terminal reaches only the parent, which then decides
            // about its sandbox workers.
            .process_group(0)
            .spawn()
    }
}

const NESTED_START: &str = "this process was itself started for the sandbox, and its program does not handle this: \
                            it must first call `sandbox::task_of` and `sandbox::launch_of`";

/// Returns true if this process was started as a sandbox worker or as an external program. If such a process starts
/// workers itself, the program does not handle the hidden argument and would start copies of itself without end.
fn is_nested_start(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments
        .nth(1)
        .is_some_and(|first| first == ARGUMENT || first == launch::ARGUMENT)
}

/// A process in the sandbox. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct SandboxWorker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    errors: Option<ChildStderr>,
    killer: Killer,
    confined: bool,
}

/// A handle that ends a sandbox worker from any thread at any time, even if the worker has already ended.
#[derive(Clone, Debug)]
pub struct Killer {
    /// The process id. It is `None` once the process may be waited for, since the system may then reuse the id.
    process: Arc<Mutex<Option<Pid>>>,
}

/// The niceness of a sandbox worker with a long task, so that shorter tasks run first.
const LOW_PRIORITY_NICENESS: i32 = 10;

impl Killer {
    /// Ends the sandbox worker at once with SIGKILL.
    pub fn kill(&self) {
        end(*self.process());
    }

    /// Lowers the priority of the worker, so that others run first. Does nothing if the worker has ended.
    pub fn lower_priority(&self) {
        // The lock is held, so the process is not waited for and its id stays valid.
        if let Some(process) = *self.process() {
            let _gone = setpriority_process(Some(process), LOW_PRIORITY_NICENESS);
        }
    }

    /// Ends the sandbox worker and clears its id. After that the process may be waited for.
    fn end(&self) {
        let mut process = self.process();
        end(*process);
        *process = None;
    }

    fn process(&self) -> MutexGuard<'_, Option<Pid>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills the process with an id. The kill fails only if the process has already ended. The process has not been waited
/// for, so the id cannot belong to another process.
fn end(process: Option<Pid>) {
    if let Some(process) = process {
        let _gone = kill_process(process, Signal::KILL);
    }
}

/// The exit report of a sandbox worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// The signal that ended the worker; `None` if it ended on its own.
    pub signal: Option<i32>,
    /// The beginning of the worker's standard error.
    pub stderr: String,
}

impl SandboxWorker {
    /// Starts a sandbox worker with no environment, no terminal, and no descriptors except its three pipes. The process
    /// confines itself first. The calling thread must live as long as the sandbox worker: the system ends the worker
    /// together with the thread that started it.
    pub fn start(program: &ProgramPath, confinement: &Confinement) -> Result<Self, SandboxError> {
        let started = |error: &dyn std::fmt::Display| SandboxError::NotStarted(error.to_string());
        let confinement = serde_json::to_string(confinement).map_err(|error| started(&error))?;
        let mut child = program
            .start(ARGUMENT, confinement)
            .map_err(|error| started(&error))?;
        let killer = Killer {
            process: Arc::new(Mutex::new(Some(Pid::from_child(&child)))),
        };
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), errors) => Ok(Self {
                child,
                input,
                output: BufReader::new(output),
                errors,
                killer,
                confined: false,
            }),
            (_, _, _) => {
                killer.end();
                let _reaped = child.wait();
                Err(started(&"a pipe is missing"))
            }
        }
    }

    /// Returns the layers that the worker reports. Waits until the worker is confined. Must be called once, before
    /// anything is sent.
    pub fn wait_until_confined(&mut self) -> Result<Vec<LayerName>, SandboxError> {
        let frame = frame::read_frame(&mut self.output, CONFINED_BYTES_MAX)
            .map_err(|error| SandboxError::NotStarted(error.to_string()))?;
        if frame.tag != frame::CONFINED || self.confined {
            return Err(SandboxError::NotStarted(
                "it does not use the protocol of a worker".to_owned(),
            ));
        }
        self.confined = true;
        serde_json::from_slice(&frame.content).map_err(|error| SandboxError::NotStarted(error.to_string()))
    }

    /// Waits until the worker is confined. Returns an error if a required layer is missing.
    pub fn require(&mut self, required: &[LayerName]) -> Result<(), SandboxError> {
        let present = self.wait_until_confined()?;
        let missing: Vec<LayerName> = required
            .iter()
            .filter(|layer| !present.contains(layer))
            .copied()
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(SandboxError::MissingLayers(missing)),
        }
    }

    /// Sends a message to the worker.
    pub fn send(&mut self, tag: u8, parts: &[&[u8]]) -> std::io::Result<()> {
        frame::write_frame(&mut self.input, tag, parts)
    }

    /// Waits for the next message of the worker.
    pub fn receive(&mut self, bytes_max: usize) -> std::io::Result<Frame> {
        frame::read_frame(&mut self.output, bytes_max)
    }

    /// Returns a handle that ends the worker from another thread.
    pub fn killer(&self) -> Killer {
        self.killer.clone()
    }

    /// Returns the bytes of memory the worker uses now; `None` if it has ended.
    pub fn resident_bytes(&self) -> Option<u64> {
        system::resident_bytes(self.child.id())
    }

    /// Returns the exit report after the last message of the worker. Ends the worker if it still runs, without waiting.
    pub fn into_exit_report(mut self) -> ExitReport {
        // The worker closed its output or broke the protocol. If its own signal is ending it, the process may still
        // exist; its standard error closes when the process is gone.
        let mut words = Vec::new();
        if let Some(errors) = self.errors.take() {
            let mut errors = errors.take(STDERR_BYTES_MAX);
            let _cut = errors.read_to_end(&mut words);
        }
        self.killer.end();
        let status = self.child.wait().ok();
        ExitReport {
            signal: status.and_then(|status| status.signal()),
            stderr: String::from_utf8_lossy(&words).into_owned(),
        }
    }
}

impl Drop for SandboxWorker {
    fn drop(&mut self) {
        self.killer.end();
        // Waiting here leaves no zombie. The process is dead, so this does not block for long.
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ProgramPath, SandboxWorker};
    use crate::rendering::sandbox::Confinement;

    #[test]
    fn a_reaped_worker_has_no_process_id_left_to_signal() {
        let other = ProgramPath::at("/bin/cat");
        let worker = SandboxWorker::start(&other, &Confinement::default()).unwrap();
        let killer = worker.killer();
        assert!(killer.process().is_some());
        drop(worker);
        assert_eq!(*killer.process(), None);
        killer.lower_priority();
        killer.kill();
    }
}
