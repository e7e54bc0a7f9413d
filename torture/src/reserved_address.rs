//! The address of a program that is started many times, which no other socket of the machine gets in between.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use tokio::net::TcpSocket;

/// A port of the loopback interface that is bound, but does not listen.
///
/// While it exists, Linux gives the port neither to a listener without a port nor to a connection. A program that
/// reuses addresses, like every server with a listener of the standard library or of tokio, can listen on it: see
/// `SO_REUSEADDR` in socket(7). Where it cannot, the port is only chosen.
#[derive(Debug)]
pub(crate) struct ReservedAddress {
    pub(crate) address: SocketAddr,
    _bound: Option<TcpSocket>,
}

impl ReservedAddress {
    pub(crate) fn reserve() -> std::io::Result<Self> {
        let bound = TcpSocket::new_v4()?;
        bound.set_reuseaddr(true)?;
        bound.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = bound.local_addr()?;
        let is_usable = TcpListener::bind(address).is_ok();
        Ok(Self {
            address,
            _bound: is_usable.then_some(bound),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ReservedAddress;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_server_listens_on_a_reserved_address_again_and_again() -> std::io::Result<()> {
        let reserved = ReservedAddress::reserve()?;
        for _ in 0..3 {
            let server = TcpListener::bind(reserved.address)?;
            let mut client = TcpStream::connect(reserved.address)?;
            let (mut accepted, _) = server.accept()?;
            accepted.write_all(b"x")?;
            let mut read = [0];
            client.read_exact(&mut read)?;
            assert_eq!(read, *b"x");
        }
        Ok(())
    }

    /// The rule by which Linux also leaves it out when it chooses a port.
    #[test]
    fn a_socket_that_does_not_reuse_addresses_cannot_have_a_reserved_one() -> std::io::Result<()> {
        let reserved = ReservedAddress::reserve()?;
        if reserved._bound.is_none() {
            return Ok(());
        }
        let other = tokio::net::TcpSocket::new_v4()?;
        let refused = other.bind(reserved.address).map_err(|error| error.kind());
        assert_eq!(refused, Err(std::io::ErrorKind::AddrInUse));
        let address = reserved.address;
        drop(reserved);
        other.bind(address)
    }
}
