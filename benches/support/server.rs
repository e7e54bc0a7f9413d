//! The release binary, `drydock serve`, as a child process.

use super::slack;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const READY_MAX: Duration = Duration::from_secs(20);

/// The directory, the address and the configuration of a child process.
pub(crate) struct Settings {
    pub(crate) directory: PathBuf,
    pub(crate) address: SocketAddr,
    /// The address of the emulated Slack.
    pub(crate) slack: SocketAddr,
    /// The address of the emulated model.
    pub(crate) model: String,
    /// The lines of `[limits]`.
    pub(crate) limits: &'static str,
    /// The sections beside the usual ones.
    pub(crate) sections: String,
}

impl Settings {
    /// Writes a configuration with a free port into `directory`, which holds the repository `infra.git`.
    pub(crate) fn write(directory: &Path, slack: SocketAddr, model: &str, limits: &'static str) -> Self {
        Self::write_with(directory, (slack, model), limits, String::new())
    }

    /// Writes a configuration like [`Settings::write`], with more sections.
    pub(crate) fn write_with(
        directory: &Path,
        (slack, model): (SocketAddr, &str),
        limits: &'static str,
        sections: String,
    ) -> Self {
        let settings = Self {
            directory: directory.to_owned(),
            address: free_address(),
            slack,
            model: model.to_owned(),
            limits,
            sections,
        };
        std::fs::write(settings.file(), settings.toml()).unwrap();
        settings
    }

    fn file(&self) -> PathBuf {
        self.directory.join("drydock.toml")
    }

    fn toml(&self) -> String {
        let toml = include_str!("../../tests/it/support/server.toml")
            .replace("<listen>", &self.address.to_string())
            .replace("<directory>", &self.directory.display().to_string())
            .replace("<model>", &self.model)
            .replace("<slack>", &format!("http://{}/api", self.slack));
        format!("{toml}[limits]\n{}\n{}\n", self.limits, self.sections)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(super::program());
        command
            .arg("--config")
            .arg(self.file())
            .env("DRYDOCK_SERVER__CONNECTIONS_PER_IP_MAX", "1024")
            .env("DRYDOCK_CHANNELS__SLACK__PACED", "false")
            .env("SERVER_MODEL_KEY", "sk-ant-bench-0000000000000000000000")
            .env("SERVER_BOT_TOKEN", slack::BOT_TOKEN)
            .env("SERVER_SIGNING_SECRET", slack::SIGNING_SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Starts a server and does not wait for it.
    pub(crate) fn start(&self) -> BenchServer {
        let log = std::fs::File::create(self.directory.join("log")).unwrap();
        let mut command = self.command();
        command.args(["--log", "warn", "serve"]).stderr(log);
        BenchServer {
            child: command.spawn().unwrap(),
            address: self.address,
            log: self.directory.join("log"),
        }
    }

    /// Creates an invite token with the operator's command.
    pub(crate) fn invite(&self, name: &str) -> String {
        let mut command = self.command();
        command.args(["--json", "invite", name, "--role", "editor"]);
        let output = command.stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["token"].as_str().unwrap().to_owned()
    }
}

/// A running server. It is stopped on drop.
pub(crate) struct BenchServer {
    child: Child,
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

impl BenchServer {
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the first 200 of a path.
    pub(crate) fn wait_for(&mut self, path: &str) -> Instant {
        let deadline = Instant::now() + READY_MAX;
        loop {
            if get(self.address, path) == Some(200) {
                return Instant::now();
            }
            assert!(Instant::now() < deadline, "no 200 for {path}");
            if let Some(ended) = self.child.try_wait().unwrap() {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                panic!("the server ended: {ended}; {said}");
            }
            std::thread::sleep(Duration::from_micros(250));
        }
    }

    /// Returns the CPU time used so far. Other load on the machine does not distort it.
    pub(crate) fn cpu(&self) -> Duration {
        super::cpu(&format!("/proc/{}/stat", self.process()))
    }

    /// Returns how often the threads of the process have waited so far, each time until something woke them up.
    pub(crate) fn waits(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process())).unwrap();
        let waits = threads.flatten().map(|thread| {
            let file = thread.path().join("status");
            super::field(&file.display().to_string(), "voluntary_ctxt_switches")
        });
        waits.sum()
    }

    pub(crate) fn rss_kib(&self) -> u64 {
        super::kib(&format!("/proc/{}/status", self.process()), "VmRSS")
    }

    /// Returns the peak of the resident memory.
    pub(crate) fn highest_kib(&self) -> u64 {
        super::kib(&format!("/proc/{}/status", self.process()), "VmHWM")
    }

    pub(crate) fn pss_kib(&self) -> u64 {
        super::kib(&format!("/proc/{}/smaps_rollup", self.process()), "Pss")
    }

    pub(crate) fn anonymous_kib(&self) -> u64 {
        super::kib(&format!("/proc/{}/status", self.process()), "RssAnon")
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns the status of a GET, or `None` without an answer.
fn get(address: SocketAddr, path: &str) -> Option<u16> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = Vec::new();
    stream.take(1_024).read_to_end(&mut answer).ok()?;
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}
