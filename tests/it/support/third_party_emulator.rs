//! Emulators of other authors: separate programs, started on loopback and ended with the test.
//! `tests/strangers/README.md` describes how they differ from the platforms.

use super::require::{START, component};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The longest time until a program reports its address on a busy machine.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// An emulator that runs until it is dropped.
pub(crate) struct ThirdPartyEmulator {
    child: Child,
    /// The address: `http://127.0.0.1:port`
    pub(crate) address: String,
}

impl ThirdPartyEmulator {
    /// Starts an emulator by the name of its component. Returns `None`, with a notice, if it is not installed.
    pub(crate) fn start(name: &str, argument: &str) -> Option<Self> {
        let node = component(name)?;
        let mut child = node
            .command()
            .args([START, name, argument])
            // The program ends when this pipe closes, even if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let said = lines.next().and_then(Result::ok);
            // A caller that gave up does not listen.
            let _ = sender.send(said);
            // Later output must not fill the pipe.
            while lines.next().is_some_and(|line| line.is_ok()) {}
        });
        let mut emulator = Self {
            child,
            address: String::new(),
        };
        let said = receiver.recv_timeout(START_TIME_MAX);
        let said = said.unwrap_or_else(|_| panic!("{name} does not say where it listens"));
        emulator.address = said.unwrap_or_else(|| panic!("{name} ended at once"));
        assert!(
            emulator.address.starts_with("http://127.0.0.1:"),
            "{}",
            emulator.address
        );
        Some(emulator)
    }
}

impl Drop for ThirdPartyEmulator {
    fn drop(&mut self) {
        // A process that ended already cannot be killed, and nothing else is left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
