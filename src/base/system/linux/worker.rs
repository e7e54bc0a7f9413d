//! The confinement of a sandbox worker: Landlock, limits and a filter of system calls.

use super::{LayerName, descriptors, filter};
use crate::base::system::WorkerLimits;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use std::fs::File;
use std::io::{Read, Seek};

/// Files a sandbox worker may have open: only its three pipes.
const FILES_MAX: u64 = 3;
/// Bytes of the process status that are read.
const STATUS_BYTES_MAX: u64 = 8_192;

/// A process whose confinement is not complete.
pub(crate) struct PendingConfinement {
    memory: File,
    present: Vec<LayerName>,
}

impl PendingConfinement {
    /// Starts the confinement while the process has one thread: closes inherited descriptors, requests to end with the
    /// parent, and gives up access to the file system.
    pub(crate) fn begin() -> std::io::Result<Self> {
        descriptors::close_inherited();
        let mut present = Vec::new();
        if rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok() {
            present.push(LayerName::ParentDeath);
        }
        // The gateway disables huge pages, and its child processes inherit that. In a worker they save time.
        let _ = rustix::thread::disable_transparent_huge_pages(false);
        // The file is opened now because the process cannot open files later.
        let memory = open_memory()?;
        present.extend(leave_files());
        Ok(Self { memory, present })
    }

    /// Applies the limits and the filter, on the thread of the task so that its stack is part of the measured memory.
    /// Returns the active layers.
    pub(crate) fn finish(self, bounds: WorkerLimits) -> Vec<LayerName> {
        let mut present = self.present;
        if limit(self.memory, &bounds).is_ok() {
            present.push(LayerName::ResourceLimits);
        }
        if filter::install().is_ok() {
            present.push(LayerName::SystemCalls);
            // The filter requires this flag, which then holds for every thread.
            present.push(LayerName::NoNewPrivileges);
        }
        present.sort();
        present.dedup();
        present
    }
}

fn limit(memory: File, bounds: &WorkerLimits) -> std::io::Result<()> {
    let has = memory_bytes(memory)?;
    let memory = has.saturating_add(bounds.memory_bytes_max);
    // At the first time limit the process receives a signal; at the second the system kills it.
    let seconds = bounds.processor_seconds_max;
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

/// Gives up access to the file system, the network and outside processes. Landlock features that this kernel lacks are
/// covered by the filter of system calls, which allows no call that names another process.
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

/// Returns the bytes of address space of this process.
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
