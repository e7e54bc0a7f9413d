//! Emulators of other authors: programs of their own, started on loopback and ended with the test.
//! `tests/strangers/README.md` says where they differ from the platforms.

use super::require::{START, component};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The longest a program may take to say where it listens, on a busy machine.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// An emulator that runs until it is dropped.
pub(crate) struct ThirdPartyEmulator {
    child: Child,
    /// `http://127.0.0.1:port`
    pub(crate) address: String,
}

impl ThirdPartyEmulator {
    /// Starts an emulator by the name of its component; `None`, said aloud, where it is not installed.
    pub(crate) fn start(name: &str, argument: &str) -> Option<Self> {
        let node = component(name)?;
        let mut child = node
            .command()
            .args([START, name, argument])
            // Its end is the end of the program, also if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let said = lines.next().and_then(Result::ok);
            // Whoever gave up does not listen.
            let _ = sender.send(said);
            // What it says later must not fill the pipe.
            while lines.next().is_some_and(|line| line.is_ok()) {}
        });
        let mut stranger = Self {
            child,
            address: String::new(),
        };
        let said = receiver.recv_timeout(START_TIME_MAX);
        let said = said.unwrap_or_else(|_| panic!("{name} does not say where it listens"));
        stranger.address = said.unwrap_or_else(|| panic!("{name} ended at once"));
        assert!(
            stranger.address.starts_with("http://127.0.0.1:"),
            "{}",
            stranger.address
        );
        Some(stranger)
    }
}

impl Drop for ThirdPartyEmulator {
    fn drop(&mut self) {
        // One that ended already cannot be killed, and there is nothing else to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
