//! The sandbox worker's side: what the process does to itself before it does anything else. Once it is
//! confined it can compute, read the task it is given and write the answer, and nothing more.

use super::frame;
use crate::system::{PendingConfinement, WorkerLimits};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

/// The hidden first argument of a sandbox worker.
pub(super) const ARGUMENT: &str = "__sandbox";

/// The way in which a sandbox worker confines itself. It travels as the second argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The task of the worker; the program decides what that means.
    pub task: String,
    /// Bytes of memory beyond what the process has when its task starts.
    pub memory_bytes_max: u64,
    /// Bytes of stack for the task, taken only as far as they are used.
    pub stack_bytes_max: u64,
    /// Seconds of processor time.
    pub processor_seconds_max: u64,
    /// True if it is going to wait, and tasks come often enough that it should spend time and memory to be quick then.
    pub warms_up: bool,
}

impl Default for Confinement {
    fn default() -> Self {
        Self {
            task: String::new(),
            memory_bytes_max: 64 << 20,
            stack_bytes_max: 1 << 20,
            processor_seconds_max: 1,
            warms_up: false,
        }
    }
}

/// The two channels that a confined process has left: the way in and the way out.
#[derive(Debug)]
pub struct WorkerChannel {
    /// The messages of the parent.
    pub input: std::io::Stdin,
    /// The messages to the parent.
    pub output: std::io::Stdout,
    /// The confinement it lives under.
    pub confinement: Confinement,
}

/// The confinement of this process, when it was started as a sandbox worker. Must be asked before anything
/// else happens in the process: no thread, no runtime, no file.
pub fn task_of(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<Confinement> {
    let program = arguments.nth(1)?;
    if program != ARGUMENT {
        return None;
    }
    let text = arguments.next()?.into_string().ok()?;
    serde_json::from_str(&text).ok()
}

impl Confinement {
    /// Confines this process, says so, and runs the task on a thread with the stack it was promised.
    /// The task is not started if the parent does not find the layers enough: it ends the process.
    pub fn enter(self, task: fn(WorkerChannel) -> ExitCode) -> ExitCode {
        let Ok(entering) = PendingConfinement::begin() else {
            return ExitCode::FAILURE;
        };
        let stack = usize::try_from(self.stack_bytes_max).unwrap_or(usize::MAX);
        let inside = std::thread::Builder::new()
            .stack_size(stack)
            .spawn(move || self.run_task(entering, task));
        match inside.map(std::thread::JoinHandle::join) {
            Ok(Ok(code)) => code,
            Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
        }
    }

    /// Finishes the confinement, and runs the task on the task's own thread: its stack is already part of the memory that is counted.
    fn run_task(self, entering: PendingConfinement, task: fn(WorkerChannel) -> ExitCode) -> ExitCode {
        let present = entering.finish(WorkerLimits {
            memory_bytes_max: self.memory_bytes_max,
            processor_seconds_max: self.processor_seconds_max,
        });
        let mut output = std::io::stdout();
        let Ok(report) = serde_json::to_vec(&present) else {
            return ExitCode::FAILURE;
        };
        if frame::write_frame(&mut output, frame::CONFINED, &[&report]).is_err() {
            return ExitCode::FAILURE;
        }
        task(WorkerChannel {
            input: std::io::stdin(),
            output,
            confinement: self,
        })
    }
}
