//! Keeps what this process knows to itself: no other process of its user reads its memory or its environment, it leaves no
//! core behind, and what a panic says is not printed as it is.

use crate::system;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::Write;

/// Closes this process to all others. What it starts later is closed by the sandbox.
pub(super) fn harden_process() -> std::io::Result<()> {
    system::close_to_others()?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    // What a panic says may hold anything. A server logs it, redacted, once it knows what its secrets are.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let line = format!("drydock broke down at {place}; what was said is not shown, it may hold a secret");
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }));
    Ok(())
}
