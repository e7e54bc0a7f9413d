//! The memory of this process, as macOS reports it. The system does not forget a peak, so a thread measures it.
#![allow(unsafe_code, reason = "the call of the system has no safe form")]

use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pause between two measurements.
const MEASURE_INTERVAL: Duration = Duration::from_millis(1);

static MEASURING: Once = Once::new();
static PEAK: AtomicU64 = AtomicU64::new(0);

/// Returns the resident bytes.
pub(crate) fn resident_bytes() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage_info_v0>::zeroed();
    let process = libc::c_int::try_from(std::process::id()).unwrap();
    // SAFETY: the system writes at most the size of this kind of answer, and there is room for it; all numbers are
    // valid, zero included.
    let usage = unsafe {
        let asked = libc::proc_pid_rusage(process, libc::RUSAGE_INFO_V0, usage.as_mut_ptr().cast());
        assert_eq!(asked, 0, "the system reports the memory of one's own process");
        usage.assume_init()
    };
    usage.ri_resident_size
}

/// Returns the peak of the resident bytes since [`forget_peak`].
pub(crate) fn peak_bytes() -> u64 {
    measure();
    PEAK.load(Ordering::Relaxed)
}

/// Lowers the peak to the currently resident memory, and measures it from now on.
pub(crate) fn forget_peak() {
    PEAK.store(resident_bytes(), Ordering::Relaxed);
    MEASURING.call_once(|| {
        std::thread::spawn(|| {
            loop {
                measure();
                std::thread::sleep(MEASURE_INTERVAL);
            }
        });
    });
}

fn measure() {
    PEAK.fetch_max(resident_bytes(), Ordering::Relaxed);
}
