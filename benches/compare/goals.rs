//! The performance goals, each a ratio or a figure with a limit.

use crate::contestant::Contestant::{self, Floor, Local, Python, Sqlite, SqliteFloor, TypeScript};
use crate::report::with_separators;
use crate::results::Results;
use crate::workloads::{Id, Operation, Place, SMALL};

pub(crate) struct Goal {
    pub(crate) title: String,
    /// `None` if it was not measured.
    pub(crate) measured: Option<f64>,
    pub(crate) limit: Limit,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
    /// Reported, but not limited.
    Unlimited,
}

impl Goal {
    /// `None` if there is no limit or no measurement.
    pub(crate) fn is_met(&self) -> Option<bool> {
        let measured = self.measured?;
        match self.limit {
            Limit::AtLeast(limit) => Some(measured >= limit),
            Limit::AtMost(limit) => Some(measured <= limit),
            Limit::Unlimited => None,
        }
    }
}

pub(crate) fn all(results: &Results) -> Vec<Goal> {
    let goals = [reads(results), writes(results), concurrency(results), programs(results), growth(results)];
    goals.into_iter().flatten().collect()
}

fn reads(results: &Results) -> Vec<Goal> {
    let view = small(Operation::View);
    let list = Id::List { files: 100 };
    vec![
        to_floor(results, view, Local, Floor, 2.0),
        to_peer(results, view, Python, Limit::AtLeast(5.0)),
        to_peer(results, view, TypeScript, Limit::AtLeast(10.0)),
        to_floor(results, list, Local, Floor, 2.0),
        to_peer(results, list, Python, Limit::AtLeast(25.0)),
        to_peer(results, list, TypeScript, Limit::AtLeast(60.0)),
        to_floor(results, view, Sqlite, SqliteFloor, 2.0),
    ]
}

fn writes(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for operation in [Operation::Create, Operation::StrReplace, Operation::Insert] {
        let id = small(operation);
        goals.extend([Python, TypeScript].map(|peer| to_peer(results, id, peer, Limit::AtLeast(1.5))));
        let flush = results.median(Id::Log, Floor);
        goals.push(Goal {
            title: format!("{id}, local / one flush of a log"),
            measured: quotient(results.median(id, Local), flush),
            limit: Limit::AtMost(1.3),
        });
    }
    for operation in [Operation::Delete, Operation::Rename] {
        let id = small(operation);
        goals.push(to_floor(results, id, Local, Floor, 1.3));
        goals.extend([Python, TypeScript].map(|peer| to_peer(results, id, peer, Limit::Unlimited)));
    }
    goals
}

fn concurrency(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for place in [Place::OneFile, Place::OneStore] {
        let id = Id::Concurrent { operation: Operation::Insert, place, sessions: 64 };
        goals.extend([Python, TypeScript].map(|peer| to_peer_kept(results, id, peer, 5.0)));
    }
    for contestant in [Local, Sqlite] {
        let figures = results.figures.iter().filter(|figure| figure.contestant == contestant);
        let insertions = figures.map(|figure| figure.insertions).filter(|insertions| insertions.total > 0);
        goals.push(Goal {
            title: format!("lost insertions, {}", contestant.title()),
            measured: insertions.map(|insertions| insertions.lost as f64).reduce(|sum, lost| sum + lost),
            limit: Limit::AtMost(0.0),
        });
    }
    goals
}

fn programs(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for contestant in [Local, Sqlite] {
        for (id, unit, scale, limit) in [(Id::FirstReply, "ms", 1e3, 5.0), (Id::PeakMemory, "MB", 1e-6, 10.0)] {
            goals.push(Goal {
                title: format!("{id}, {}, in {unit}", contestant.title()),
                measured: results.median(id, contestant).map(|figure| figure * scale),
                limit: Limit::AtMost(limit),
            });
        }
    }
    goals
}

fn growth(results: &Results) -> Vec<Goal> {
    let files = results.growth();
    let [fewest, .., most] = files[..] else { return Vec::new() };
    let mut goals = Vec::new();
    for contestant in [Local, Sqlite] {
        for operation in [Operation::View, Operation::StrReplace] {
            let median = |files| results.median(Id::Growth { operation, files }, contestant);
            goals.push(Goal {
                title: format!(
                    "`{}`, {}, {} files / {fewest} files",
                    operation.name(),
                    contestant.title(),
                    with_separators(most as f64)
                ),
                measured: quotient(median(most), median(fewest)),
                limit: Limit::AtMost(1.2),
            });
        }
    }
    goals
}

fn small(operation: Operation) -> Id {
    Id::Command { operation, bytes: SMALL }
}

fn to_floor(results: &Results, id: Id, contestant: Contestant, floor: Contestant, limit: f64) -> Goal {
    Goal {
        title: format!("{id}, {} / {}", contestant.title(), floor.title()),
        measured: results.ratio(id, contestant, floor),
        limit: Limit::AtMost(limit),
    }
}

/// The time of a peer divided by the time of the local store.
fn to_peer(results: &Results, id: Id, peer: Contestant, limit: Limit) -> Goal {
    Goal {
        title: format!("{id}, {} / {}", peer.title(), Local.title()),
        measured: results.ratio(id, peer, Local),
        limit,
    }
}

/// The ratio of insertions per second that were not lost.
fn to_peer_kept(results: &Results, id: Id, peer: Contestant, limit: f64) -> Goal {
    let kept = |contestant| Some(results.figure(id, contestant)?.kept_per_second());
    Goal {
        title: format!("{id}, kept per second, {} / {}", Local.title(), peer.title()),
        measured: quotient(kept(Local), kept(peer)),
        limit: Limit::AtLeast(limit),
    }
}

fn quotient(dividend: Option<f64>, divisor: Option<f64>) -> Option<f64> {
    Some(dividend? / divisor?)
}
