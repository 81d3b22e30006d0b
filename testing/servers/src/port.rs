//! [`Port`]: a reserved port for a server.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use crate::error::Error;

/// Below the ephemeral ports of operating systems, so that no connection uses one by chance.
const FIRST: u16 = 20_000;
const LAST: u16 = 29_999;

/// A port of the loopback address, reserved for a program. It is released on drop.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Reserves the port until the program listens: other processes find the UDP port with the same number in use.
    _claim: UdpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Result<Self, Error> {
        (FIRST..=LAST).find_map(Self::claim).ok_or(Error::NoPort { first: FIRST, last: LAST })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    fn claim(number: u16) -> Option<Self> {
        let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }
}
