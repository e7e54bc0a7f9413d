//! A running systemd in namespaces of its own, with the program that was built.

use crate::support::built::built;
use crate::support::require::component;
use crate::support::shell::{ProgramOutput, RunningProgram, run_to_end};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The script that boots it.
const BOOT: &str = "tests/it/linux/systemd.sh";
/// The program in the file system of the services.
pub(crate) const PROGRAM: &str = "/run/drydock-test/drydock";

/// A running systemd. It ends with this value, and with everything that it started.
pub(crate) struct BootedSystemd {
    /// The script ends when its input is closed.
    boot: Option<RunningProgram>,
    /// The first process, as this machine counts.
    first: String,
}

impl BootedSystemd {
    /// Boots it, or returns `None` after one line with what this machine lacks.
    pub(crate) fn start() -> Option<Self> {
        component("systemd")?;
        let mut command = Command::new(BOOT);
        command.arg(built());
        let mut boot = RunningProgram::start(command);
        let ready = boot.wait_for_stdout_line("ready ");
        Some(Self {
            first: ready.trim_start_matches("ready ").to_owned(),
            boot: Some(boot),
        })
    }

    /// Returns the place of a file of the services, for this process.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        Path::new("/proc")
            .join(&self.first)
            .join("root")
            .join(path.trim_start_matches('/'))
    }

    /// Runs a program beside the services, as root and without variables.
    pub(crate) fn run(&self, words: &[&str]) -> ProgramOutput {
        let mut command = Command::new("nsenter");
        command
            .args(["--all", "--target", &self.first, "--wd=/", "--"])
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null());
        run_to_end(command)
    }
}

impl Drop for BootedSystemd {
    fn drop(&mut self) {
        if let Some(mut boot) = self.boot.take() {
            boot.close_input();
            boot.end();
        }
    }
}
