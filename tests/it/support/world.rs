//! The time and randomness of a test. Time starts at a fixed moment and runs. A test that moves it has a separate
//! clock, because tests run concurrently.

use super::built::built;
use drydock::rendering::sandbox::ProgramPath;
pub(crate) use drydock::server::app::Host;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

/// The number of clocks that can be moved. Number 0 never is.
const CLOCKS: usize = 32;
/// The start of the time: 2026-11-21 12:00 UTC.
const BEGINNING: i64 = 1_795_262_400;

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
static MOVED_SECONDS: [AtomicI64; CLOCKS] = [const { AtomicI64::new(0) }; CLOCKS];
static DRAWN: AtomicU64 = AtomicU64::new(0);

/// Returns the host with clock number `CLOCK`.
pub(crate) fn world<const CLOCK: usize>() -> Host {
    Host {
        now: now::<CLOCK>,
        random,
        program,
        host_overrides: &[],
    }
}

/// Returns the program that runs in the sandbox. It is the one built for these tests, not the test binary.
pub(crate) fn program() -> ProgramPath {
    ProgramPath::at(built())
}

/// Moves clock number `CLOCK` forward.
pub(crate) fn advance<const CLOCK: usize>(seconds: i64) {
    assert_ne!(CLOCK, 0, "clock 0 belongs to everybody");
    MOVED_SECONDS[CLOCK].fetch_add(seconds, Ordering::SeqCst);
}

pub(crate) fn now<const CLOCK: usize>() -> Timestamp {
    let ran = SignedDuration::try_from(STARTED.elapsed()).unwrap();
    let moved = SignedDuration::from_secs(MOVED_SECONDS[CLOCK].load(Ordering::SeqCst));
    Timestamp::from_second(BEGINNING).unwrap() + ran + moved
}

/// Returns random bytes: no two draws are equal, and every run draws the same.
fn random() -> [u8; 32] {
    let number = DRAWN.fetch_add(1, Ordering::SeqCst);
    Sha256::digest(format!("draw {number}")).into()
}
