//! The confinement that this process applies to itself before it executes an external program. The operator chose the
//! program, but its input is untrusted. The process keeps only what a calculation on a few files needs: one directory,
//! its own libraries, memory and threads.

use crate::base::system::{ExternalProgram, LayerName, confine_external_program};
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The hidden first argument of a launch.
pub(super) const ARGUMENT: &str = "__launch";
/// The exit code of a launch that could not execute the program.
pub(super) const LAUNCH_FAILED: u8 = 125;
/// A program and the bounds of its run. The parent passes it as the second argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// The only directory the program sees.
    pub(super) directory: PathBuf,
    /// The working directory of the program, inside `directory`.
    pub(super) files: PathBuf,
    /// The directory that the program may write, which is `directory` or in it.
    pub(super) writable: Option<PathBuf>,
    /// Bytes of a file that the program may write there.
    pub(super) file_bytes_max: u64,
    pub(super) memory_bytes_max: u64,
    pub(super) processor_seconds_max: u64,
}

/// Returns the launch if this process was started to execute an external program. Must be called first in the process,
/// before it has another thread, a runtime or an open file.
pub fn launch_of(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<Launch> {
    let program = arguments.nth(1)?;
    if program != ARGUMENT {
        return None;
    }
    let text = arguments.next()?.into_string().ok()?;
    serde_json::from_str(&text).ok()
}

/// The reason why the program was not started.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum LaunchFailure {
    /// The system lacks layers.
    Weaker(Vec<LayerName>),
    /// The system cannot start the program.
    Refused(String),
}

impl Launch {
    /// Confines this process and executes the program. Returns only on failure: an external program runs with all
    /// layers or not at all.
    pub fn enter(self) -> ExitCode {
        let why = match self.confine() {
            present if present == LayerName::ALL => self.replace_process(),
            present => {
                let missing = LayerName::ALL.into_iter().filter(|name| !present.contains(name));
                LaunchFailure::Weaker(missing.collect())
            }
        };
        // The parent reads the reason from the pipe at standard error.
        let _lost = serde_json::to_writer(std::io::stderr(), &why);
        ExitCode::from(LAUNCH_FAILED)
    }

    fn confine(&self) -> Vec<LayerName> {
        confine_external_program(&ExternalProgram {
            program: &self.program,
            directory: &self.directory,
            writable: self.writable.as_deref(),
            file_bytes_max: self.file_bytes_max,
            memory_bytes_max: self.memory_bytes_max,
            processor_seconds_max: self.processor_seconds_max,
        })
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "this is the sandbox; the process is confined already and becomes what the operator named"
    )]
    fn replace_process(&self) -> LaunchFailure {
        let error = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .current_dir(&self.files)
            .exec();
        LaunchFailure::Refused(error.to_string())
    }
}
