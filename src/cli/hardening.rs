//! Protects the data of this process: no other process of the same user can read its memory or environment, it writes
//! no core dump, and panic messages are not printed unredacted.

use crate::base::system;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::Write;

/// Makes this process inaccessible to other processes. The sandbox does the same for the processes that it starts.
pub(super) fn harden_process() -> std::io::Result<()> {
    system::close_to_others()?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    // A panic message may contain anything. A server logs it, redacted, once its secrets are loaded.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let line =
            format!("drydock panicked at {place}; the message is not shown, because it may contain a secret");
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }));
    Ok(())
}
