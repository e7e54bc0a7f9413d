//! The side of a program that is not ours: what this process does to itself before it becomes that
//! program. It was named by the operator, what it works on was not, so it keeps only what a
//! calculation on a few files needs: one directory, its own libraries, memory and threads.

use super::layer::LayerName;
use super::{descriptors, filter};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The hidden first argument of a launch.
pub(super) const ARGUMENT: &str = "__launch";
/// How a launch ends that did not come to be the program.
pub(super) const NOT_LAUNCHED: u8 = 125;
/// Files the program may have open.
const FILES_MAX: u64 = 256;
/// Directories of shared libraries; the last is the list of where they are. They are read only: of the programs that are
/// there as well the system starts none but what loads the libraries.
const LIBRARIES: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"];
/// Programs that load another one and its libraries: the system executes them in its place. Started by itself one loads
/// whatever can be read, also a file of the directory; such a program has the confinement of the one before.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
const NOTHING: &str = "/dev/null";

/// A program and the bounds it runs in. It travels as the second argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// The one directory it sees.
    pub(super) directory: PathBuf,
    /// Where it starts, in that directory.
    pub(super) files: PathBuf,
    /// Bytes of a file it may write there; 0 when it may write none.
    pub(super) file_bytes_max: u64,
    pub(super) memory_bytes_max: u64,
    pub(super) processor_seconds_max: u64,
}

/// What this process was started for, when that is another program. Must be asked before anything
/// else happens in the process: no thread, no runtime, no file.
pub fn launch_of(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<Launch> {
    let program = arguments.nth(1)?;
    if program != ARGUMENT {
        return None;
    }
    let text = arguments.next()?.into_string().ok()?;
    serde_json::from_str(&text).ok()
}

/// Why the program was not started.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum NotLaunched {
    /// This system lacks layers.
    Weaker(Vec<LayerName>),
    /// The system cannot start it.
    Refused(String),
}

impl Launch {
    /// Confines this process and becomes the program. Comes back only when it cannot: a program that is
    /// not ours runs with every layer or not at all.
    pub fn enter(self) -> ExitCode {
        let why = match self.confine() {
            present if present == LayerName::ALL => self.become_it(),
            present => {
                let missing = LayerName::ALL.into_iter().filter(|name| !present.contains(name));
                NotLaunched::Weaker(missing.collect())
            }
        };
        // Standard error is the pipe that the parent reads the reason from.
        let _lost = serde_json::to_writer(std::io::stderr(), &why);
        ExitCode::from(NOT_LAUNCHED)
    }

    fn confine(&self) -> Vec<LayerName> {
        descriptors::close_inherited();
        let mut present = Vec::new();
        if rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok() {
            present.push(LayerName::ParentDeath);
        }
        if self.limit().is_ok() {
            present.push(LayerName::ResourceLimits);
        }
        if self.leave_files().is_ok_and(|enforced| enforced) {
            present.push(LayerName::Landlock);
        }
        if filter::install_for_program().is_ok() {
            present.extend([LayerName::SystemCalls, LayerName::NoNewPrivileges]);
        }
        present
    }

    fn limit(&self) -> std::io::Result<()> {
        let seconds = self.processor_seconds_max;
        let bounds = [
            // What is used, not what is reserved: programs written in Go reserve far more than they use.
            (Resource::Data, self.memory_bytes_max),
            (Resource::Cpu, seconds),
            (Resource::Fsize, self.file_bytes_max),
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

    /// Gives up all files but its directory and what it is made of, the network, and every process outside. The
    /// system starts nothing but the program and what loads it; what is loaded in turn keeps these bounds.
    fn leave_files(&self) -> Result<bool, RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V6))?
            .handle_access(AccessNet::from_all(ABI::V6))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let own = match self.file_bytes_max {
            0 => read,
            _ => AccessFs::from_all(ABI::V3) & !BitFlags::from(AccessFs::Execute),
        };
        let mut ruleset = allow(ruleset, &self.directory, own)?;
        ruleset = allow(ruleset, &self.program, AccessFs::ReadFile | AccessFs::Execute)?;
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

    #[allow(
        clippy::disallowed_methods,
        reason = "this is the sandbox; the process is confined already and becomes what the operator named"
    )]
    fn become_it(&self) -> NotLaunched {
        let error = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .current_dir(&self.files)
            .exec();
        NotLaunched::Refused(error.to_string())
    }
}

/// Allows something beneath a path, if there is such a path. What fits only directories is left out
/// for a file.
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
