//! The confinement of a sandbox worker: Seatbelt, limits and a watch thread.

use super::watch::Watch;
use super::{LayerName, descriptors, seatbelt};
use crate::base::system::WorkerLimits;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Files a sandbox worker may have open: only its three pipes.
const FILES_MAX: u64 = 3;

/// A process whose confinement is not complete.
pub(crate) struct PendingConfinement {
    watch: Watch,
}

impl PendingConfinement {
    /// Starts the confinement while the process has one thread: closes inherited descriptors, and begins to watch for
    /// the end of its parent.
    pub(crate) fn begin() -> std::io::Result<Self> {
        descriptors::close_inherited();
        Ok(Self {
            watch: Watch::begin()?,
        })
    }

    /// Applies the limits and the profile, on the thread of the task. Returns the active layers.
    pub(crate) fn finish(self, bounds: WorkerLimits) -> Vec<LayerName> {
        let mut present = vec![LayerName::ParentDeath];
        let bounded = limit(&bounds).and_then(|()| self.watch.bound_memory(bounds.memory_bytes_max));
        if bounded.is_ok() {
            present.push(LayerName::ResourceLimits);
        }
        present.extend(seatbelt::confine_worker());
        present
    }
}

fn limit(bounds: &WorkerLimits) -> std::io::Result<()> {
    // At the first time limit the process receives a signal; at the second the system kills it.
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
