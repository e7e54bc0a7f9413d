//! The inmate's side: what the process does to itself before it does anything else. Once it is
//! confined it can compute, read the task it is given and write the answer, and nothing more.

use super::layer::LayerName;
use super::{descriptors, filter, frame};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek};
use std::process::ExitCode;

/// The hidden first argument of an inmate.
pub(super) const ARGUMENT: &str = "__jail";
/// Files an inmate may have open: its three pipes, and room for none.
const FILES_MAX: u64 = 3;
/// Bytes of what the system says about a process.
const STATUS_BYTES_MAX: u64 = 8_192;

/// How an inmate confines itself. It travels as the second argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// What the inmate is for; the program decides what that means.
    pub task: String,
    /// Bytes of memory beyond what the process has when its task starts.
    pub memory_bytes_max: u64,
    /// Bytes of stack for the task, taken only as far as they are used.
    pub stack_bytes_max: u64,
    /// Seconds of processor time.
    pub processor_seconds_max: u64,
    /// Whether it is going to wait, and tasks come often enough that it should spend time and memory to be quick
    /// then.
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

/// What a confined process has left: the way in and the way out.
#[derive(Debug)]
pub struct Cell {
    /// What the parent says.
    pub input: std::io::Stdin,
    /// What the parent hears.
    pub output: std::io::Stdout,
    /// The confinement it lives under.
    pub confinement: Confinement,
}

/// The confinement of this process, when it was started as an inmate. Must be asked before anything
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
    pub fn enter(self, task: fn(Cell) -> ExitCode) -> ExitCode {
        descriptors::close_inherited();
        let mut present = Vec::new();
        if rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok() {
            present.push(LayerName::ParentDeath);
        }
        // A server does without large pages, and what it starts inherits that. Here they save time.
        let _ = rustix::thread::disable_transparent_huge_pages(false);
        // Opened now: once the files are gone, so is the way to ask.
        let Ok(memory) = open_memory() else {
            return ExitCode::FAILURE;
        };
        present.extend(leave_files());
        let stack = usize::try_from(self.stack_bytes_max).unwrap_or(usize::MAX);
        let inside = std::thread::Builder::new()
            .stack_size(stack)
            .spawn(move || self.inside(memory, present, task));
        match inside.map(std::thread::JoinHandle::join) {
            Ok(Ok(code)) => code,
            Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
        }
    }

    /// On the task's own thread: its stack is already part of the memory that is counted.
    fn inside(self, memory: File, mut present: Vec<LayerName>, task: fn(Cell) -> ExitCode) -> ExitCode {
        if self.limit(memory).is_ok() {
            present.push(LayerName::ResourceLimits);
        }
        if filter::install().is_ok() {
            present.push(LayerName::SystemCalls);
            // The filter cannot be installed without it, and it holds for every thread then.
            present.push(LayerName::NoNewPrivileges);
        }
        present.sort();
        present.dedup();
        let mut output = std::io::stdout();
        let Ok(report) = serde_json::to_vec(&present) else {
            return ExitCode::FAILURE;
        };
        if frame::write_frame(&mut output, frame::CONFINED, &[&report]).is_err() {
            return ExitCode::FAILURE;
        }
        task(Cell {
            input: std::io::stdin(),
            output,
            confinement: self,
        })
    }

    fn limit(&self, memory: File) -> std::io::Result<()> {
        let has = memory_bytes(memory)?;
        let memory = has.saturating_add(self.memory_bytes_max);
        // The first bound of time is announced by a signal of its own, the second ends the process.
        let seconds = self.processor_seconds_max;
        let bounds = [
            (Resource::As, memory, memory),
            (Resource::Cpu, seconds, seconds.saturating_add(1)),
            (Resource::Fsize, 0, 0),
            (Resource::Core, 0, 0),
            (Resource::Nproc, 0, 0),
            (Resource::Nofile, FILES_MAX, FILES_MAX),
        ];
        for (resource, current, maximum) in bounds {
            let limit = Rlimit {
                current: Some(current),
                maximum: Some(maximum),
            };
            setrlimit(resource, limit)?;
        }
        Ok(())
    }
}

/// Gives up the file system, the network and every process outside. What the system does not know of
/// Landlock beyond its first version is left to the filter of system calls, which lets no process name
/// another one.
fn leave_files() -> Option<LayerName> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .ok()?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V6))
        .ok()?
        .handle_access(AccessNet::from_all(ABI::V6))
        .ok()?
        .scope(Scope::from_all(ABI::V6))
        .ok()?;
    let status = ruleset.create().ok()?.restrict_self().ok()?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Some(LayerName::Landlock),
        RulesetStatus::NotEnforced => None,
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the process asks the system for its own size, before it gives up the file system"
)]
fn open_memory() -> std::io::Result<File> {
    File::open("/proc/self/status")
}

/// The address space this process has now.
fn memory_bytes(mut status: File) -> std::io::Result<u64> {
    let mut text = String::new();
    status.rewind()?;
    status.take(STATUS_BYTES_MAX).read_to_string(&mut text)?;
    let size = text.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kibibytes: Option<u64> = size.and_then(|size| size.split_ascii_whitespace().next()?.parse().ok());
    Ok(kibibytes
        .ok_or(std::io::ErrorKind::InvalidData)?
        .saturating_mul(1_024))
}
