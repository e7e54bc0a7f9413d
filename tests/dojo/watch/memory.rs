//! Memory of this process, in which the gateway runs.

/// Mebibytes that are resident.
pub(crate) fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    kibibytes
        .and_then(|text| text.parse::<u64>().ok())
        .expect("a size")
        / 1_024
}
