//! [`Usage`]: requests and bytes.

use memory_tool_test_servers::Record;

/// The mean of some calls: requests by their price class, and the bytes of their bodies.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// `GET` and `HEAD` of an object.
    reads: f64,
    /// `PUT`, and `POST` for anything but a deletion.
    writes: f64,
    lists: f64,
    /// Deletions, which are free.
    deletes: f64,
    pub(crate) sent: f64,
    pub(crate) received: f64,
}

impl Usage {
    /// The titles of [`cells`](Self::cells).
    pub(crate) const COLUMNS: &str = "`GET` | `PUT` | `LIST` | `DELETE` | sent | received";

    pub(crate) fn mean(records: &[Record], calls: usize) -> Self {
        let (mut usage, part) = (Self::default(), 1.0 / calls as f64);
        for record in records {
            let query = record.target.split_once('?').map_or("", |(_, query)| query);
            let requests = match record.method.as_str() {
                "GET" if query.contains("list-type=") => &mut usage.lists,
                "GET" | "HEAD" => &mut usage.reads,
                "DELETE" => &mut usage.deletes,
                "POST" if query.starts_with("delete") => &mut usage.deletes,
                _ => &mut usage.writes,
            };
            *requests += part;
            usage.sent += part * record.request_bytes as f64;
            usage.received += part * record.response_bytes as f64;
        }
        usage
    }

    pub(crate) fn requests(&self) -> f64 {
        self.reads + self.writes + self.lists + self.deletes
    }

    pub(crate) fn cells(&self) -> Vec<String> {
        let mut cells: Vec<_> = [self.reads, self.writes, self.lists, self.deletes].map(number).into();
        cells.extend([bytes(self.sent), bytes(self.received)]);
        cells
    }
}

/// A mean number of requests, with two decimals unless it is an integer.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.strip_suffix(".00").map_or(text.clone(), str::to_owned)
}

pub(crate) fn bytes(value: f64) -> String {
    match value.abs() {
        ..1e3 => format!("{value:.0} B"),
        ..1e6 => format!("{:.1} KB", value / 1e3),
        ..1e9 => format!("{:.2} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}
