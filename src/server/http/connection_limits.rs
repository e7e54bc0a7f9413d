//! Counts open connections, in total and per address. A permit is released when it is dropped, also if its connection
//! panics or is cut.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct ConnectionLimits {
    connections_max: usize,
    connections_per_ip_max: usize,
    open: Mutex<ConnectionCounts>,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitReached {
    /// The listener has reached its limit.
    Listener,
    /// The address has reached its limit.
    Address,
}

/// The permit for one connection; dropping it releases the place.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    address: IpAddr,
}

impl ConnectionLimits {
    pub(super) fn new(connections_max: usize, connections_per_ip_max: usize) -> Arc<Self> {
        Arc::new(Self {
            connections_max,
            connections_per_ip_max,
            open: Mutex::default(),
        })
    }

    /// Acquires a permit for a connection from `address`.
    pub(super) fn acquire(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionPermit, LimitReached> {
        let address = client_prefix(address);
        let mut open = self.open();
        let here = open.by_address.get(&address).copied().unwrap_or(0);
        if here >= self.connections_per_ip_max {
            return Err(LimitReached::Address);
        }
        if open.total >= self.connections_max {
            return Err(LimitReached::Listener);
        }
        open.total += 1;
        open.by_address.insert(address, here + 1);
        Ok(ConnectionPermit {
            limits: Arc::clone(self),
            address,
        })
    }

    fn open(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.limits.open();
        open.total = open.total.saturating_sub(1);
        match open.by_address.get_mut(&self.address) {
            Some(here) if *here > 1 => *here -= 1,
            Some(_) | None => {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// Returns the address prefix by which connections are counted. An IPv6 customer usually has a whole /64, so a /64
/// counts as one client.
fn client_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{ConnectionLimits, LimitReached};

    /// T91
    #[test]
    fn a_closed_connection_frees_its_slot_in_the_limits() {
        let limits = ConnectionLimits::new(3, 2);
        let alice = "192.0.2.1".parse().unwrap();
        let bob = "192.0.2.2".parse().unwrap();
        let first = limits.acquire(alice).unwrap();
        let second = limits.acquire(alice).unwrap();
        assert_eq!(limits.acquire(alice).err(), Some(LimitReached::Address));
        let third = limits.acquire(bob).unwrap();
        assert_eq!(limits.acquire(bob).err(), Some(LimitReached::Listener));
        drop(first);
        assert!(
            limits.acquire(bob).is_ok(),
            "the next connection gets the free slot"
        );
        drop((second, third));
        assert_eq!(limits.open().total, 0);
        assert!(
            limits.open().by_address.is_empty(),
            "no data of closed connections remains"
        );
    }

    /// T91
    #[test]
    fn an_ipv6_network_and_a_mapped_address_are_one_address() {
        let limits = ConnectionLimits::new(9, 1);
        let _here = limits.acquire("2001:db8:1:2::1".parse().unwrap()).unwrap();
        let neighbour = limits.acquire("2001:db8:1:2:ffff::9".parse().unwrap());
        assert_eq!(neighbour.err(), Some(LimitReached::Address));
        let _mapped = limits.acquire("::ffff:192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(
            limits.acquire("192.0.2.1".parse().unwrap()).err(),
            Some(LimitReached::Address)
        );
    }
}
