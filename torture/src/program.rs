//! The program under test: a child process that is started, killed, asked to stop, and queried through its own command
//! line.

use anyhow::{Context, bail};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const BOT_TOKEN: &str = "xoxb-330044005500-torture-bot-token";
pub(crate) const SIGNING_SECRET: &str = "3c1d1c9a7be24c6f8a1b3d5e7f90aa21";
pub(crate) const HOOK_SECRET: &str = "torture-hook-secret-0123456789abcdef";
pub(crate) const GENERIC_SECRET: &str = "torture-generic-secret-0123456789abcd";
const MODEL_KEY: &str = "sk-ant-torture-0000000000000000000000";

/// R1: the first answer after a start comes within this time.
pub(crate) const START_MAX: Duration = Duration::from_secs(5);
/// R23: an orderly stop takes no longer.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(10);
/// The longest time a command of the command line may take.
const COMMAND_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The binary and the settings that the program is started with.
#[derive(Clone, Debug)]
pub(crate) struct ServerLaunch {
    pub(crate) binary: PathBuf,
    /// The directory with the configuration, the logs and, unless `data` is set, the data directory.
    pub(crate) directory: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) address: SocketAddr,
    /// The variables beside the secrets.
    pub(crate) environment: Vec<(String, String)>,
    /// The limit of open files, if there is one.
    pub(crate) open_files_max: Option<u64>,
}

/// A running program. It is killed on drop.
pub(crate) struct ServerProcess {
    child: Child,
    log: PathBuf,
}

impl ServerLaunch {
    fn config(&self) -> PathBuf {
        self.directory.join("drydock.toml")
    }

    pub(crate) fn write_config(&self, text: &str) -> anyhow::Result<()> {
        std::fs::write(self.config(), text).context("the configuration could not be written")
    }

    fn command(&self) -> Command {
        let mut command = match self.open_files_max {
            None => Command::new(&self.binary),
            Some(open_files) => {
                let mut shell = Command::new("sh");
                let limit = format!("ulimit -n {open_files}; exec \"$0\" \"$@\"");
                shell.arg("-c").arg(limit).arg(&self.binary);
                shell
            }
        };
        command
            .arg("--config")
            .arg(self.config())
            .env("TORTURE_BOT_TOKEN", BOT_TOKEN)
            .env("TORTURE_SIGNING_SECRET", SIGNING_SECRET)
            .env("TORTURE_HOOK_SECRET", HOOK_SECRET)
            .env("TORTURE_GENERIC_SECRET", GENERIC_SECRET)
            .env("TORTURE_MODEL_KEY", MODEL_KEY)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Starts the server and does not wait for it.
    pub(crate) fn start(&self, number: usize) -> anyhow::Result<ServerProcess> {
        let log = self.directory.join(format!("log-{number}"));
        let child = self
            .command()
            .args(["--log", "info", "serve"])
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("{} could not be started", self.binary.display()))?;
        Ok(ServerProcess { child, log })
    }

    /// Runs another command of the command line to its end.
    pub(crate) fn run_command(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut child = self
            .command()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let deadline = Instant::now() + COMMAND_MAX;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
                bail!(
                    "`drydock {}` took more than {} s",
                    arguments.join(" "),
                    COMMAND_MAX.as_secs()
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(child.wait_with_output()?)
    }

    /// Creates an invite with the operator's command. Returns its token.
    pub(crate) fn invite(&self, name: &str) -> anyhow::Result<String> {
        let output = self.run_command(&["--json", "invite", name, "--role", "editor"])?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let token = answer["token"].as_str().context("an invite without a token")?;
        Ok(token.to_owned())
    }
}

impl ServerProcess {
    /// Sends `kill -9`.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the exit status, if the program has ended.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<std::process::ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_stop(&self) -> anyhow::Result<()> {
        let id = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.context("a process id")?, rustix::process::Signal::TERM)?;
        Ok(())
    }

    /// Sends SIGTERM. The program must end with 0 in time.
    pub(crate) async fn terminate(mut self) -> anyhow::Result<()> {
        self.ask_to_stop()?;
        let deadline = Instant::now() + STOP_MAX;
        loop {
            if let Some(status) = self.ended()? {
                return match status.code() {
                    Some(0) => Ok(()),
                    _ => bail!(
                        "SIGTERM ended it with {status}; its log ends with\n{}",
                        tail(&self.log)
                    ),
                };
            }
            if Instant::now() > deadline {
                bail!("SIGTERM did not end it within {} s", STOP_MAX.as_secs());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
