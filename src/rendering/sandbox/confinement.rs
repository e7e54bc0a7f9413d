//! The confinement that a sandbox worker process applies to itself before anything else. A confined process can
//! compute, read its task and write the answer, and nothing more.

use super::frame;
use crate::base::system::{PendingConfinement, WorkerLimits};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

/// The hidden first argument of a sandbox worker.
pub(super) const ARGUMENT: &str = "__sandbox";

/// The confinement of a sandbox worker. The parent passes it as the second argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The task of the worker; the program defines its meaning.
    pub task: String,
    /// Bytes of memory beyond what the process uses when its task starts.
    pub memory_bytes_max: u64,
    /// Bytes of stack for the task. Memory is taken only for the part that is used.
    pub stack_bytes_max: u64,
    /// Seconds of processor time.
    pub processor_seconds_max: u64,
    /// True if the worker warms up before it waits for a task. That takes time and memory, and pays when tasks come
    /// often.
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

/// The two channels of a confined process: standard input and standard output.
#[derive(Debug)]
pub struct WorkerChannel {
    /// Messages from the parent.
    pub input: std::io::Stdin,
    /// Messages to the parent.
    pub output: std::io::Stdout,
    /// The confinement of the process.
    pub confinement: Confinement,
}

/// Returns the confinement of this process if it was started as a sandbox worker. Must be called first in the process,
/// before it has another thread, a runtime or an open file.
pub fn task_of(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<Confinement> {
    let program = arguments.nth(1)?;
    if program != ARGUMENT {
        return None;
    }
    let text = arguments.next()?.into_string().ok()?;
    serde_json::from_str(&text).ok()
}

impl Confinement {
    /// Confines this process, reports the layers, and runs the task on a thread with the promised stack. If a required
    /// layer is missing, the parent ends the process and the task does not start.
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

    /// Finishes the confinement and runs the task. Runs on the task's own thread, so its stack is already part of the
    /// measured memory.
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
