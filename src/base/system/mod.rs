//! The differences between operating systems: one module for each subject, and one directory for each system with the
//! same names in it. Only this file selects the system; no other file checks the system, the C library or the processor
//! of the build.

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod chosen;
#[cfg(target_os = "macos")]
#[path = "macos/mod.rs"]
mod chosen;

/// System calls that only some processors have.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "linux/calls_x86_64.rs"]
mod older_calls;
#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
#[path = "linux/calls_newer.rs"]
mod older_calls;

/// The system's allocator.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "linux/allocator_gnu.rs"]
mod allocator;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
#[path = "allocator_other.rs"]
mod allocator;

// `build.rs` reports the same before any dependency is compiled.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("Drydock runs on Linux and macOS. Windows: use WSL 2.");

mod bounds;
mod freed_memory;
mod service_manager;

pub use allocator::map_large_blocks;
pub(crate) use bounds::{ExternalProgram, WorkerLimits};
pub use chosen::LayerName;
pub(crate) use chosen::{
    PATH_ONLY, PendingConfinement, abstract_address, account_names, boot, close_to_others,
    confine_external_program, may_be_supervisor, on_open_directory, open_beneath, resident_bytes,
    service_manager, this_program, thread_count, without_large_pages,
};
pub(crate) use freed_memory::release_freed_memory;
pub(crate) use service_manager::ServiceManager;
