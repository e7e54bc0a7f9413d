//! The parent's side of one sandbox worker: started, spoken to, killed, and never left behind.

use super::confinement::ARGUMENT;
use super::frame::{self, Frame};
use super::{Confinement, LayerName, SandboxError, launch};
use crate::system;
use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use std::ffi::OsString;
use std::io::{BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the list of layers.
const CONFINED_BYTES_MAX: usize = 1_024;
/// Bytes of standard error that are looked at after the end.
const STDERR_BYTES_MAX: u64 = 8_192;

/// The program a sandbox worker runs: this one, unless a test says where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPath(PathBuf);

impl ProgramPath {
    /// The program that is running, even if its file was replaced since.
    pub fn current() -> Self {
        Self(system::this_program())
    }

    /// Creates the program from another build of it, at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Starts it for a hidden purpose, with no environment and three pipes.
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
            // Memory is taken as it is used, so that the bound is exact, and is kept until the end, which is soon.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .env("MIMALLOC_PURGE_DELAY", "-1")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A key pressed at a terminal ends the parent, which then decides about its sandbox workers.
            .process_group(0)
            .spawn()
    }
}

const NESTED_START: &str = "this process was itself started for the sandbox, and its program does something else: it has to begin with \
                      what `sandbox::task_of` and `sandbox::launch_of` find";

/// Returns true if a process was started to be a sandbox worker or to become another program. One that still starts others is a program
/// that does not know of it, and would start itself again without end.
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

/// Ends a sandbox worker from anywhere, at any time, also when it is already gone.
#[derive(Clone, Debug)]
pub struct Killer {
    /// The process id; none from the moment it may be waited for, since the number may be somebody else's then.
    process: Arc<Mutex<Option<Pid>>>,
}

/// The niceness of a sandbox worker that takes long, so that others come first.
const LOW_PRIORITY_NICENESS: i32 = 10;

impl Killer {
    /// Ends the sandbox worker now. It cannot refuse.
    pub fn kill(&self) {
        end(*self.process());
    }

    /// Lets others have the processor first from now on. One that has ended is left alone.
    pub fn lower_priority(&self) {
        // Nobody waits for the process while its number is in hand.
        if let Some(process) = *self.process() {
            let _gone = setpriority_process(Some(process), LOW_PRIORITY_NICENESS);
        }
    }

    /// Ends the sandbox worker, and forgets its number: it may be waited for now.
    fn end(&self) {
        let mut process = self.process();
        end(*process);
        *process = None;
    }

    fn process(&self) -> MutexGuard<'_, Option<Pid>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the process of a number. The only other answer is that it has ended already: nobody has waited for it, so the
/// number is still its own.
fn end(process: Option<Pid>) {
    if let Some(process) = process {
        let _gone = kill_process(process, Signal::KILL);
    }
}

/// The exit report of a sandbox worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// The signal that ended it; `None` when it ended by itself.
    pub signal: Option<i32>,
    /// The beginning of what it wrote to standard error.
    pub stderr: String,
}

impl SandboxWorker {
    /// Starts a process with nothing: no environment, no descriptor but its three pipes, no terminal.
    /// It confines itself as its first act. The thread that calls this must live as long as the
    /// sandbox worker may: the system ends a sandbox worker with the thread that started it.
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

    /// The layers it says it is confined by. Waits until it is; asked once, before anything is sent.
    pub fn wait_until_confined(&mut self) -> Result<Vec<LayerName>, SandboxError> {
        let frame = frame::read_frame(&mut self.output, CONFINED_BYTES_MAX)
            .map_err(|error| SandboxError::NotStarted(error.to_string()))?;
        if frame.tag != frame::CONFINED || self.confined {
            return Err(SandboxError::NotStarted(
                "it does not speak our protocol".to_owned(),
            ));
        }
        self.confined = true;
        serde_json::from_slice(&frame.content).map_err(|error| SandboxError::NotStarted(error.to_string()))
    }

    /// Waits until it is confined, and refuses it when a required layer is missing.
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

    /// Says something to it.
    pub fn send(&mut self, tag: u8, parts: &[&[u8]]) -> std::io::Result<()> {
        frame::write_frame(&mut self.input, tag, parts)
    }

    /// Waits for its next message.
    pub fn receive(&mut self, bytes_max: usize) -> std::io::Result<Frame> {
        frame::read_frame(&mut self.output, bytes_max)
    }

    /// Returns a handle that ends the worker from elsewhere.
    pub fn killer(&self) -> Killer {
        self.killer.clone()
    }

    /// Bytes of memory it uses now; `None` when it is gone.
    pub fn resident_bytes(&self) -> Option<u64> {
        system::resident_bytes(self.child.id())
    }

    /// Returns the exit report, after the worker stopped talking. Ends it if it has not: nothing is waited for.
    pub fn into_exit_report(mut self) -> ExitReport {
        // It closed its output or broke the protocol. One that is dying by a signal of its own may not
        // be gone yet; the end of its errors is the end of it.
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
        // Reaped here, so that no zombie stays. It is dead already: the wait is the system's work.
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ProgramPath, SandboxWorker};
    use crate::sandbox::Confinement;

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
