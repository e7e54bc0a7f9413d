//! The confinement of an external program: one directory, its own libraries, memory and threads.

use super::{LayerName, descriptors, filter};
use crate::base::system::ExternalProgram;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use std::path::Path;

/// Files the program may have open.
const FILES_MAX: u64 = 256;
/// Directories of shared libraries, and the cache that lists them. They are read-only. Of the programs in these
/// directories only the loaders can be executed.
const LIBRARIES: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"];
/// The loaders of shared libraries, which the system executes for a program. A loader that is started directly can load
/// any readable file, including one in the directory; that program keeps the same confinement.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
const NOTHING: &str = "/dev/null";

/// Confines this process before it executes the program. Returns the active layers.
pub(crate) fn confine_external_program(program: &ExternalProgram<'_>) -> Vec<LayerName> {
    descriptors::close_inherited();
    let mut present = Vec::new();
    if rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok() {
        present.push(LayerName::ParentDeath);
    }
    if limit(program).is_ok() {
        present.push(LayerName::ResourceLimits);
    }
    if leave_files(program).is_ok_and(|enforced| enforced) {
        present.push(LayerName::Landlock);
    }
    if filter::install_for_program().is_ok() {
        present.extend([LayerName::SystemCalls, LayerName::NoNewPrivileges]);
    }
    present
}

fn limit(program: &ExternalProgram<'_>) -> std::io::Result<()> {
    let seconds = program.processor_seconds_max;
    let bounds = [
        // The limit counts used memory, not reserved memory: Go programs reserve far more than they use.
        (Resource::Data, program.memory_bytes_max),
        (Resource::Cpu, seconds),
        (Resource::Fsize, program.file_bytes_max),
        (Resource::Core, 0),
        (Resource::Nofile, FILES_MAX),
    ];
    for (resource, bound) in bounds {
        let limit = Rlimit {
            current: Some(bound),
            maximum: Some(bound),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Gives up the network, outside processes, and all files except the directory, the program and its libraries. Only the
/// program and its loader can be executed; what they load keeps these limits.
fn leave_files(program: &ExternalProgram<'_>) -> Result<bool, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V6))?
        .handle_access(AccessNet::from_all(ABI::V6))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut ruleset = allow(ruleset, program.directory, read)?;
    if let Some(writable) = program.writable {
        let own = AccessFs::from_all(ABI::V3) & !BitFlags::from(AccessFs::Execute);
        ruleset = allow(ruleset, writable, own)?;
    }
    ruleset = allow(ruleset, program.program, AccessFs::ReadFile | AccessFs::Execute)?;
    for library in LIBRARIES {
        ruleset = allow(ruleset, Path::new(library), read)?;
    }
    for loader in LOADERS {
        ruleset = allow(ruleset, Path::new(loader), AccessFs::ReadFile | AccessFs::Execute)?;
    }
    ruleset = allow(
        ruleset,
        Path::new(NOTHING),
        AccessFs::ReadFile | AccessFs::WriteFile,
    )?;
    let status = ruleset.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Allows access beneath a path, if the path exists. For a file, the rights that apply only to directories are left
/// out.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(opened) => ruleset.add_rule(PathBeneath::new(opened, access)),
        Err(_) => Ok(ruleset),
    }
}
