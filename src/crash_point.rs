//! Named points at which the program kills itself, for `drydock-torture`. They exist only in builds with the feature
//! `crash-points`, which are not for production. docs/reliability.md lists the points.
//!
//! `DRYDOCK_CRASH=B4:after` kills the process with SIGKILL when it passes the point for the first time; `B4:after:3`
//! kills it the third time. `DRYDOCK_CLOCK_OFFSET` names a file with the seconds by which the clock is wrong.

#[cfg(not(feature = "crash-points"))]
pub(crate) use absent::{after, before, written_first};
#[cfg(feature = "crash-points")]
pub(crate) use present::{after, before, offset, written_first};

/// True for a variable that this module or [`crate::planted`] reads and that is not a key of the configuration.
#[cfg(any(feature = "crash-points", feature = "planted-bugs"))]
pub(crate) fn is_variable(name: &str) -> bool {
    ["DRYDOCK_CRASH", "DRYDOCK_CLOCK_OFFSET", "DRYDOCK_BUG"].contains(&name)
}

#[cfg(not(feature = "crash-points"))]
mod absent {
    /// Does nothing in this build.
    pub(crate) const fn before(_point: &str) {}

    /// Does nothing in this build.
    pub(crate) const fn after(_point: &str) {}

    /// Returns the bytes of a line that are written first: all of them.
    pub(crate) const fn written_first(bytes: usize) -> usize {
        bytes
    }
}

#[cfg(feature = "crash-points")]
mod present {
    use jiff::SignedDuration;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Wanted {
        point: String,
        pass: u32,
    }

    static WANTED: LazyLock<Option<Wanted>> = LazyLock::new(|| {
        let text = variable("DRYDOCK_CRASH")?;
        let mut words = text.splitn(3, ':');
        let (name, side) = (words.next()?, words.next()?);
        let pass = words.next().map_or(Some(1), |pass| pass.parse().ok())?;
        let point = format!("{name}:{side}");
        Some(Wanted { point, pass })
    });
    static PASSED: AtomicU32 = AtomicU32::new(0);

    /// Kills the process if it is configured to end before this point.
    pub(crate) fn before(point: &str) {
        pass(point, "before");
    }

    /// Kills the process if it is configured to end after this point.
    pub(crate) fn after(point: &str) {
        pass(point, "after");
    }

    fn pass(point: &str, side: &str) {
        let Some(wanted) = WANTED.as_ref() else { return };
        let is_it = wanted.point.split_once(':') == Some((point, side));
        if is_it && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == wanted.pass {
            let this = rustix::process::getpid();
            // SIGKILL takes effect before the call returns.
            let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }

    /// Returns the bytes of a line that are written first: half of them.
    pub(crate) const fn written_first(bytes: usize) -> usize {
        bytes / 2
    }

    /// Returns the offset of the clock.
    #[allow(clippy::disallowed_methods, reason = "a build that is none for use")]
    pub(crate) fn offset() -> SignedDuration {
        let seconds = variable("DRYDOCK_CLOCK_OFFSET")
            .and_then(|file| std::fs::read_to_string(file).ok())
            .and_then(|text| text.trim().parse().ok());
        SignedDuration::from_secs(seconds.unwrap_or(0))
    }

    #[allow(clippy::disallowed_methods, reason = "a build that is none for use")]
    fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}
