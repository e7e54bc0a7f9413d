//! Limits on the open files of this process, and on its connections: a server without free file descriptors can
//! neither answer nor store.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of file descriptors reserved for everything except incoming connections: the database, sandboxes,
/// recordings, calls to models and platforms. At most half of all descriptors are reserved.
const RESERVED_MAX: u64 = 512;

/// Raises the limit as far as possible and returns it; `None` if there is no limit.
pub(super) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// Returns the number of connections that fit the limit, at most `wanted`.
pub(super) fn connections(limit: Option<u64>, wanted: usize) -> usize {
    let Some(limit) = limit else { return wanted };
    let room = limit - (limit / 2).min(RESERVED_MAX);
    usize::try_from(room).map_or(wanted, |room| room.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::connections;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        assert_eq!(connections(None, 4_096), 4_096);
        assert_eq!(connections(Some(1_048_576), 4_096), 4_096);
        assert_eq!(connections(Some(4_608), 4_096), 4_096);
        assert_eq!(connections(Some(4_607), 4_096), 4_095);
        assert_eq!(connections(Some(1_024), 4_096), 512);
        assert_eq!(connections(Some(256), 4_096), 128);
        assert_eq!(connections(Some(256), 100), 100);
    }
}
