//! The confinement of an external program: one directory, its own libraries, memory and threads.

use super::{LayerName, descriptors, seatbelt, watch};
use crate::base::system::ExternalProgram;
use rustix::process::{Pid, Resource, Rlimit, getpid, getppid, setrlimit};

/// Files the program may have open.
const FILES_MAX: u64 = 256;

/// Confines this process before it executes the program. Returns the active layers.
pub(crate) fn confine_external_program(program: &ExternalProgram<'_>) -> Vec<LayerName> {
    descriptors::close_inherited();
    let mut present = Vec::new();
    let watched = begin_watch(program.memory_bytes_max);
    if watched.is_ok() {
        present.push(LayerName::ParentDeath);
    }
    // The watch process enforces the memory limit.
    if watched.is_ok() && limit(program).is_ok() {
        present.push(LayerName::ResourceLimits);
    }
    present.extend(seatbelt::confine_program(
        program.program,
        program.directory,
        program.writable,
    ));
    present
}

fn limit(program: &ExternalProgram<'_>) -> std::io::Result<()> {
    for (resource, bound) in [
        (Resource::Cpu, program.processor_seconds_max),
        (Resource::Fsize, program.file_bytes_max),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
        (Resource::Nofile, FILES_MAX),
    ] {
        let limit = Rlimit {
            current: Some(bound),
            maximum: Some(bound),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Starts a process that watches this one, also after it has executed another program. The watch process keeps none of
/// the pipes.
#[allow(unsafe_code, reason = "the call of the system has no safe form")]
fn begin_watch(memory_bytes_max: u64) -> std::io::Result<()> {
    let (this, parent): (Pid, Option<Pid>) = (getpid(), getppid());
    // SAFETY: this process has one thread, so the copy has every lock free.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            // SAFETY: the copy reads and writes nothing from here on, and ends without returning.
            unsafe {
                for descriptor in 0..=2 {
                    libc::close(descriptor);
                }
                watch::over_parent(this, parent, memory_bytes_max);
                libc::_exit(0)
            }
        }
        _ => Ok(()),
    }
}
