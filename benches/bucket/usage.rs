//! [`Usage`]: requests, bytes and prices.

use std::iter::Sum;
use std::ops::{Add, Div};

use memory_tool_test_servers::Record;
use serde::Serialize;

/// List prices in US dollars per million requests, of Amazon S3 Standard in us-east-1 and of classes A and B of Google
/// Cloud Storage Standard.
pub(crate) const WRITE_PRICE: f64 = 5.00;
pub(crate) const READ_PRICE: f64 = 0.40;
/// The month of the list prices.
pub(crate) const PRICE_DATE: &str = "November 2026";

/// Requests by their price, and the bytes of their bodies. A mean has fractions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Usage {
    /// `GET` and `HEAD` of an object.
    pub(crate) reads: f64,
    /// `PUT`, and `POST` for anything but a deletion.
    pub(crate) writes: f64,
    pub(crate) lists: f64,
    /// Deletions, which are free.
    pub(crate) deletes: f64,
    pub(crate) bytes_sent: f64,
    pub(crate) bytes_received: f64,
    /// The price of a million times these requests.
    pub(crate) dollars_per_million: f64,
}

impl Usage {
    pub(crate) fn requests(&self) -> f64 {
        self.reads + self.writes + self.lists + self.deletes
    }

    fn of(record: &Record) -> Self {
        let (bytes_sent, bytes_received) = (record.request_bytes as f64, record.response_bytes as f64);
        let bytes = Self { bytes_sent, bytes_received, ..Self::default() };
        let query = record.target.split_once('?').map_or("", |(_, query)| query);
        match record.method.as_str() {
            "GET" if query.contains("list-type=") => Self { lists: 1.0, dollars_per_million: WRITE_PRICE, ..bytes },
            "GET" | "HEAD" => Self { reads: 1.0, dollars_per_million: READ_PRICE, ..bytes },
            "DELETE" => Self { deletes: 1.0, ..bytes },
            "POST" if query.starts_with("delete") => Self { deletes: 1.0, ..bytes },
            _ => Self { writes: 1.0, dollars_per_million: WRITE_PRICE, ..bytes },
        }
    }
}

impl From<Vec<Record>> for Usage {
    fn from(records: Vec<Record>) -> Self {
        records.iter().map(Self::of).sum()
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            lists: self.lists + other.lists,
            deletes: self.deletes + other.deletes,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_received: self.bytes_received + other.bytes_received,
            dollars_per_million: self.dollars_per_million + other.dollars_per_million,
        }
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}

impl Div<usize> for Usage {
    type Output = Self;

    fn div(self, number: usize) -> Self {
        let number = number as f64;
        Self {
            reads: self.reads / number,
            writes: self.writes / number,
            lists: self.lists / number,
            deletes: self.deletes / number,
            bytes_sent: self.bytes_sent / number,
            bytes_received: self.bytes_received / number,
            dollars_per_million: self.dollars_per_million / number,
        }
    }
}
