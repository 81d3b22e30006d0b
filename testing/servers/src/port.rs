//! [`Port`]: one that no other server will take.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use crate::error::Error;

/// Below the ports that systems give out by themselves, so that no connection has one by chance.
const FIRST: u16 = 20_000;
const LAST: u16 = 29_999;

/// A port of the loopback address, for a program that is to listen on it. Free for others when dropped.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Between this check and the program's own listening others look for ports as well. They see that its twin is taken.
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
