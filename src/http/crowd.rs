//! Counts open connections, in all and by address. A place is given back when its guard drops, so a
//! connection that panics or is cut gives its place back too.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct Crowd {
    connections_max: usize,
    connections_per_ip_max: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The reason why a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The listener has all it can take.
    Listener,
    /// The address has all it may have.
    Address,
}

/// The place of one connection; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    address: IpAddr,
}

impl Crowd {
    pub(super) fn new(connections_max: usize, connections_per_ip_max: usize) -> Arc<Self> {
        Arc::new(Self {
            connections_max,
            connections_per_ip_max,
            open: Mutex::default(),
        })
    }

    /// Takes a place for a connection from `address`.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Place, Full> {
        let address = household(address);
        let mut open = self.open();
        let here = open.by_address.get(&address).copied().unwrap_or(0);
        if here >= self.connections_per_ip_max {
            return Err(Full::Address);
        }
        if open.total >= self.connections_max {
            return Err(Full::Listener);
        }
        open.total += 1;
        open.by_address.insert(address, here + 1);
        Ok(Place {
            crowd: Arc::clone(self),
            address,
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.crowd.open();
        open.total = open.total.saturating_sub(1);
        match open.by_address.get_mut(&self.address) {
            Some(here) if *here > 1 => *here -= 1,
            Some(_) | None => {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// Returns the address under which connections are counted. An IPv6 customer owns a whole /64, so that is one
/// address.
fn household(address: IpAddr) -> IpAddr {
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
    use super::{Crowd, Full};

    /// T91
    #[test]
    fn a_place_is_taken_and_given_back() {
        let crowd = Crowd::new(3, 2);
        let alice = "192.0.2.1".parse().unwrap();
        let bob = "192.0.2.2".parse().unwrap();
        let first = crowd.enter(alice).unwrap();
        let second = crowd.enter(alice).unwrap();
        assert_eq!(crowd.enter(alice).err(), Some(Full::Address));
        let third = crowd.enter(bob).unwrap();
        assert_eq!(crowd.enter(bob).err(), Some(Full::Listener));
        drop(first);
        assert!(crowd.enter(bob).is_ok(), "the freed place goes to whoever comes");
        drop((second, third));
        assert_eq!(crowd.open().total, 0);
        assert!(
            crowd.open().by_address.is_empty(),
            "nothing is kept of those who left"
        );
    }

    /// T91
    #[test]
    fn an_ipv6_network_and_a_mapped_address_are_one_address() {
        let crowd = Crowd::new(9, 1);
        let _here = crowd.enter("2001:db8:1:2::1".parse().unwrap()).unwrap();
        let neighbour = crowd.enter("2001:db8:1:2:ffff::9".parse().unwrap());
        assert_eq!(neighbour.err(), Some(Full::Address));
        let _mapped = crowd.enter("::ffff:192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(
            crowd.enter("192.0.2.1".parse().unwrap()).err(),
            Some(Full::Address)
        );
    }
}
