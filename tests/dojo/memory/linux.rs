//! The memory of this process, as Linux reports it.

/// Returns the resident bytes.
pub(crate) fn resident_bytes() -> u64 {
    bytes("VmRSS:")
}

/// Returns the peak of the resident bytes since [`forget_peak`].
pub(crate) fn peak_bytes() -> u64 {
    bytes("VmHWM:")
}

/// Lowers the peak to the currently resident memory. See `clear_refs` in `proc_pid_clear_refs(5)`.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak of one's own process can be forgotten");
}

fn bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    kibibytes
        .and_then(|text| text.parse::<u64>().ok())
        .expect("a size")
        << 10
}
