//! Named points at which the program ends itself, for `drydock-torture`: only in a build with the feature
//! `crash-points`, which is none for use. docs/reliability.md says where they are.
//!
//! `DRYDOCK_CRASH=B4:after` kills the process with SIGKILL when it passes the point for the first time, and
//! `B4:after:3` when it does for the third. `DRYDOCK_CLOCK_OFFSET` names a file with the seconds by which the
//! clock is wrong.

#[cfg(not(feature = "crash-points"))]
pub(crate) use absent::{after, before, written_first};
#[cfg(feature = "crash-points")]
pub(crate) use present::{after, before, offset, written_first};

/// True for a variable that is read here or in [`crate::planted`], and is no key of the configuration.
#[cfg(any(feature = "crash-points", feature = "planted-bugs"))]
pub(crate) fn is_variable(name: &str) -> bool {
    ["DRYDOCK_CRASH", "DRYDOCK_CLOCK_OFFSET", "DRYDOCK_BUG"].contains(&name)
}

#[cfg(not(feature = "crash-points"))]
mod absent {
    /// Nothing happens here.
    pub(crate) const fn before(_point: &str) {}

    /// Nothing happens here.
    pub(crate) const fn after(_point: &str) {}

    /// Of a line of so many bytes, all are written at once.
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

    /// Ends the process if it is to end before this.
    pub(crate) fn before(point: &str) {
        pass(point, "before");
    }

    /// Ends the process if it is to end after this.
    pub(crate) fn after(point: &str) {
        pass(point, "after");
    }

    fn pass(point: &str, side: &str) {
        let Some(wanted) = WANTED.as_ref() else { return };
        let is_it = wanted.point.split_once(':') == Some((point, side));
        if is_it && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == wanted.pass {
            let this = rustix::process::getpid();
            // Nothing runs any more when it returns.
            let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }

    /// Of a line of so many bytes, half are written before the rest.
    pub(crate) const fn written_first(bytes: usize) -> usize {
        bytes / 2
    }

    /// By how much the clock is wrong.
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
