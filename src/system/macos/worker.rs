//! The confinement of a sandbox worker: Seatbelt, bounds and a watch.

use super::watch::Watch;
use super::{LayerName, descriptors, seatbelt};
use crate::system::WorkerLimits;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Files a sandbox worker may have open: its three pipes, and room for none.
const FILES_MAX: u64 = 3;

/// A process that is about to be confined.
pub(crate) struct PendingConfinement {
    watch: Watch,
}

impl PendingConfinement {
    /// Takes the first steps of a process, while it has one thread: it closes what it may have inherited, and begins to watch for the end
    /// of its parent.
    pub(crate) fn begin() -> std::io::Result<Self> {
        descriptors::close_inherited();
        Ok(Self {
            watch: Watch::begin()?,
        })
    }

    /// Takes the bounds and the profile, on the thread of the task. Returns the layers that hold.
    pub(crate) fn finish(self, bounds: WorkerLimits) -> Vec<LayerName> {
        let mut present = vec![LayerName::ParentDeath];
        let bounded = limit(&bounds).and_then(|()| self.watch.bound_memory(bounds.memory_bytes_max));
        if bounded.is_ok() {
            present.push(LayerName::ResourceLimits);
        }
        present.extend(seatbelt::confine_inmate());
        present
    }
}

fn limit(bounds: &WorkerLimits) -> std::io::Result<()> {
    // The first bound of time is announced by a signal of its own, the second ends the process.
    let seconds = bounds.processor_seconds_max;
    for (resource, current, maximum) in [
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
        (Resource::Fsize, 0, 0),
        (Resource::Core, 0, 0),
        (Resource::Nproc, 0, 0),
        (Resource::Nofile, FILES_MAX, FILES_MAX),
    ] {
        let limit = Rlimit {
            current: Some(current),
            maximum: Some(maximum),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}
